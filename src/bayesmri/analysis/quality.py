"""Does σ̂ tell where the error is? Rank correlation, sparsification curves and the area between them.

Everything takes a standard deviation σ̂ and an error e = X̄ − Y (or |e|) of the same shape, in the same units. Only the
order of σ̂ matters here; whether it has the right size is `reliability.py`.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from bayesmri.analysis.foreground import foreground as foreground
from bayesmri.errors import DataError, ShapeError

Floats = NDArray[np.float64]
Measure = Literal["mae", "rmse"]

FRACTIONS: Floats = np.arange(100) / 100  # of pixels removed: 0, 0.01, …, 0.99


@dataclass(frozen=True)
class Curves:
    """Sparsification: the error that remains after a fraction of the pixels is removed.

    std: the most uncertain first, by σ̂. oracle: the worst first, by the error itself, which no order can beat.
    random: in random order, its expectation, which is the same at every fraction.
    """

    fractions: Floats
    std: Floats
    oracle: Floats
    random: Floats


@dataclass(frozen=True)
class Quality:
    """One image's answer.

    spearman: of σ̂ and |e|; None where one of them is constant.
    ause: between the curves of σ̂ and oracle, random: between those of a random order and oracle, by measure.
    """

    pixels: int
    spearman: float | None
    ause: dict[str, float]
    random: dict[str, float]


def quality(std: ArrayLike, error: ArrayLike) -> Quality:
    """Spearman's ρ and both areas, for the mean absolute and the root-mean-square error."""
    measures: tuple[Measure, ...] = ("mae", "rmse")
    curves = {measure: sparsification(std, error, measure=measure) for measure in measures}
    return Quality(
        pixels=int(np.size(std)),
        spearman=spearman(std, error),
        ause={measure: ause(found) for measure, found in curves.items()},
        random={measure: ause_random(found) for measure, found in curves.items()},
    )


def spearman(std: ArrayLike, error: ArrayLike) -> float | None:
    """ρ = corr(rank σ̂, rank |e|), ties sharing their mean rank; None where either is constant: there is no order."""
    sigma, e = checked(std, error)
    a, b = (rankdata(v) - (v.size + 1) / 2 for v in (sigma, np.abs(e)))
    scale = np.sqrt(np.sum(a * a) * np.sum(b * b))
    return float(np.clip(np.sum(a * b) / scale, -1, 1)) if scale > 0 else None


def sparsification(
    std: ArrayLike, error: ArrayLike, *, measure: Measure = "mae", fractions: Floats = FRACTIONS
) -> Curves:
    """What remains of mean |e| or (mean e²)^{1/2} without the ⌊f n⌋ pixels of largest σ̂, for every fraction f.

    Pixels of equal σ̂ are removed in random order, of which this is the expectation (rmse: under the root), so that a
    constant σ̂ is exactly as good as chance.
    """
    sigma, e = checked(std, error)
    if fractions.size < 2 or fractions[0] != 0 or np.any(np.diff(fractions) <= 0) or not fractions[-1] < 1:
        raise DataError("got fractions to remove that are out of order, expected them to rise from 0 and stay below 1")
    cost = np.abs(e) if measure == "mae" else np.square(e)
    kept = sigma.size - np.floor(fractions * sigma.size + 1e-9).astype(np.intp)  # 0.29 · 100 is 28.999…
    remaining = (_mean_of_smallest(order, cost, kept) for order in (sigma, cost))
    found, oracle = (r if measure == "mae" else np.sqrt(r) for r in remaining)
    return Curves(fractions, found, oracle, np.full_like(found, found[0]))


def ause(curves: Curves) -> float:
    """∫ (std − oracle) df / (error at f = 0): 0 is the oracle's order; 0 too where there is no error at all."""
    return _area(curves.std, curves)


def ause_random(curves: Curves) -> float:
    """The same area of a random order: what σ̂ has to stay below."""
    return _area(curves.random, curves)


def checked(std: ArrayLike, error: ArrayLike) -> tuple[Floats, Floats]:
    """Both as flat float64, of one shape and finite, σ̂ ≥ 0; the error keeps its sign."""
    sigma, e = np.asarray(std, dtype=np.float64), np.asarray(error, dtype=np.float64)
    if sigma.shape != e.shape or sigma.size == 0:
        raise ShapeError(
            f"got a standard deviation {sigma.shape} with an error {e.shape}, expected equal shapes, not empty"
        )
    if not (np.isfinite(sigma).all() and np.isfinite(e).all()):
        raise DataError("the standard deviation or the error holds NaN or Inf, expected finite numbers")
    if sigma.min() < 0:
        raise DataError(f"got a standard deviation of {sigma.min():g}, expected none below 0")
    return sigma.ravel(), e.ravel()


def _mean_of_smallest(order: Floats, cost: Floats, kept: NDArray[np.intp]) -> Floats:
    """The mean cost of the k pixels first in order, for each k; pixels of one rank all count as their mean."""
    _, group, sizes = np.unique(order, return_inverse=True, return_counts=True)
    shared = np.bincount(group, weights=cost) / sizes
    sums = np.cumsum(np.repeat(shared, sizes))
    means: Floats = sums[kept - 1] / kept
    return means


def _area(curve: Floats, curves: Curves) -> float:
    start = curves.oracle[0]
    return float(np.trapezoid(curve - curves.oracle, curves.fractions) / start) if start > 0 else 0.0
