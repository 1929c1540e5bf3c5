"""What averaging N samples is worth: a score of the mean of every one of the disjoint subsets of N samples."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayesmri.errors import DataError, ShapeError

Volume = NDArray[np.floating]
SIZES = (1, 4, 16, 32)


@dataclass(frozen=True)
class Span:
    """Scores over subsets of n samples each."""

    n: int
    scores: tuple[float, ...]

    @property
    def mean(self) -> float:
        return math.fsum(self.scores) / len(self.scores)

    @property
    def low(self) -> float:
        return min(self.scores)

    @property
    def high(self) -> float:
        return max(self.scores)


def subset_sizes(samples: int, sizes: tuple[int, ...] = SIZES) -> tuple[int, ...]:
    """Those of the sizes that `samples` has room for, and all samples at once."""
    if samples < 1:
        raise DataError(f"got {samples} samples, expected at least 1 to average")
    return (*(n for n in sizes if n < samples), samples)


def spans(samples: Volume, score: Callable[[Volume], float]) -> list[Span]:
    """For n = 1, 4, 16, 32 as far as there are samples: the score of X̄ⁿ of the ⌊N/n⌋ disjoint runs of n samples.

    samples: (slices, N, h, w); the same subset of indices is taken in every slice. score: of (slices, h, w).
    """
    if samples.ndim != 4 or 0 in samples.shape:
        raise ShapeError(f"got samples {samples.shape}, expected (slices, N, h, w)")
    N = samples.shape[1]
    return [
        Span(n, tuple(score(samples[:, i : i + n].mean(axis=1, dtype=np.float64)) for i in range(0, N - n + 1, n)))
        for n in subset_sizes(N)
    ]


def over_volumes(parts: list[list[Span]]) -> list[Span]:
    """The mean score over volumes of each subset, by n; every volume with the same N."""
    if not parts or len({tuple((s.n, len(s.scores)) for s in part) for part in parts}) != 1:
        raise DataError("got spans of different numbers of samples, expected the same N in every volume")
    return [
        Span(
            parts[0][i].n,
            tuple(math.fsum(scores) / len(scores) for scores in zip(*(part[i].scores for part in parts), strict=True)),
        )
        for i in range(len(parts[0]))
    ]
