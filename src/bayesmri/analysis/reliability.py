"""Does σ̂ have the right size? The error that a σ̂ of some size comes with, and how often X̄ ± kσ̂ holds the truth."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesmri.analysis.quality import Floats, checked
from bayesmri.errors import DataError

WIDTHS = (1.0, 2.0, 3.0)  # k of X̄ ± kσ̂
EDGES: Floats = 10.0 ** (np.arange(-48, 1) / 8)  # of σ̂ over the truth's maximum: 10⁻⁶ … 1, eight bins a decade


@dataclass(frozen=True, eq=False)
class Reliability:
    """Sums over the pixels of each bin of σ̂, which add up over images.

    count: pixels. variance: Σ σ̂². power: Σ e². The first bin lies below all edges, the last above.
    """

    edges: Floats
    count: NDArray[np.int64]
    variance: Floats
    power: Floats

    def __add__(self, other: "Reliability") -> "Reliability":
        if not np.array_equal(self.edges, other.edges):
            raise DataError("got reliabilities of different bins, expected the same edges in both")
        return Reliability(
            self.edges, self.count + other.count, self.variance + other.variance, self.power + other.power
        )

    def rows(self, *, least: int = 1) -> list[dict[str, float]]:
        """{std, rms_error, pixels} of every bin of at least so many pixels, both as root mean squares."""
        parts = zip(self.count, self.variance, self.power, strict=True)
        return [
            {"std": math.sqrt(v / n), "rms_error": math.sqrt(p / n), "pixels": int(n)}
            for n, v, p in parts
            if n >= max(1, least)
        ]

    @property
    def ratio(self) -> float | None:
        """(Σ e² / Σ σ̂²)^{1/2}, the number σ̂ would have to be multiplied with; None where σ̂ is 0 everywhere."""
        total = float(self.variance.sum())
        return math.sqrt(float(self.power.sum()) / total) if total > 0 else None


def reliability(std: ArrayLike, error: ArrayLike, *, edges: Floats = EDGES) -> Reliability:
    """Of one image; both in units of the truth's maximum where images are to be added."""
    sigma, e = checked(std, error)
    if edges.size == 0 or np.any(np.diff(edges) <= 0):
        raise DataError("got bins of the standard deviation that are out of order, expected edges that rise")
    bins = np.searchsorted(edges, sigma, side="right")
    n = edges.size + 1
    return Reliability(
        edges,
        np.bincount(bins, minlength=n).astype(np.int64),
        np.bincount(bins, weights=sigma * sigma, minlength=n).astype(np.float64),
        np.bincount(bins, weights=e * e, minlength=n).astype(np.float64),
    )


def coverage(std: ArrayLike, error: ArrayLike, *, widths: tuple[float, ...] = WIDTHS) -> tuple[float, ...]:
    """The share of pixels with |X̄ − Y| ≤ kσ̂ for every k."""
    sigma, e = checked(std, error)
    return tuple(float(np.mean(np.abs(e) <= k * sigma)) for k in widths)


def normal_coverage(k: float) -> float:
    """P(|ε| ≤ k) of a standard normal ε: what an honest Gaussian σ̂ would cover."""
    return math.erf(k / math.sqrt(2))
