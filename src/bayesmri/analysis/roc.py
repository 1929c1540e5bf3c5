"""Does a score tell the wrong from the right? The ROC curve, the area under it, and how sure that area is."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesmri.errors import DataError, ShapeError

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

GRID: Floats = np.arange(101) / 100  # of false alarms
REPEATS = 1000  # of the bootstrap
LEVEL = 0.95


@dataclass(frozen=True, eq=False)
class Roc:
    """false_alarms: flagged share of the right; hits: of the wrong; both at thresholds from high to low, 0 to 1."""

    false_alarms: Floats
    hits: Floats

    def at(self, false_alarms: ArrayLike) -> Floats:
        """Hits at these shares of false alarms, straight between thresholds; the most where the curve rises upright."""
        x, f, h = np.asarray(false_alarms, dtype=np.float64), self.false_alarms, self.hits
        i = np.searchsorted(f, x, side="right") - 1  # the last corner at x or before
        j = np.minimum(i + 1, f.size - 1)
        width = np.where(j > i, f[j] - f[i], 1.0)
        return np.asarray(h[i] + (h[j] - h[i]) * (x - f[i]) / width)


def roc(score: ArrayLike, wrong: ArrayLike) -> Roc | None:
    """The curve of thresholds on the score, equal scores together; None without any wrong or any right."""
    s, w = checked(score, wrong)
    if w.all() or not w.any():
        return None
    order = np.argsort(-s, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(s[order])), s.size - 1)  # the last of every group of equal scores
    hits, alarms = np.cumsum(w[order])[ends], np.cumsum(~w[order])[ends]
    return Roc(np.concatenate(([0.0], alarms / alarms[-1])), np.concatenate(([0.0], hits / hits[-1])))


def area(score: ArrayLike, wrong: ArrayLike, weights: ArrayLike | None = None) -> float | None:
    """P(s_wrong > s_right) + ½ P(s_wrong = s_right), the area under the ROC curve; None without wrong or right.

    weights: how often each counts.
    """
    s, w = checked(score, wrong)
    m = np.ones(s.size) if weights is None else np.asarray(weights, dtype=np.float64)
    _, group = np.unique(s, return_inverse=True)
    return _area(np.bincount(group, weights=m * w), np.bincount(group, weights=m * ~w))


def interval(
    score: ArrayLike,
    wrong: ArrayLike,
    *,
    rng: np.random.Generator,
    clusters: ArrayLike | None = None,
    repeats: int = REPEATS,
    level: float = LEVEL,
) -> tuple[float, float] | None:
    """The middle `level` of the areas of samples drawn with replacement: of single scores, or of whole clusters.

    clusters: a number for each score; pixels of one place are no independent witnesses. Draws without any wrong or
    right are passed over; None where all are.
    """
    s, w = checked(score, wrong)
    _, cluster = np.unique(np.arange(s.size) if clusters is None else np.asarray(clusters), return_inverse=True)
    n = int(cluster.max()) + 1
    _, group = np.unique(s, return_inverse=True)
    areas = []
    for _ in range(repeats):
        m = np.bincount(rng.integers(n, size=n), minlength=n)[cluster]
        found = _area(np.bincount(group, weights=m * w), np.bincount(group, weights=m * ~w))
        if found is not None:
            areas.append(found)
    if not areas:
        return None
    low, high = np.quantile(areas, ((1 - level) / 2, (1 + level) / 2))
    return float(low), float(high)


def summary(
    score: ArrayLike, wrong: ArrayLike, *, rng: np.random.Generator, clusters: ArrayLike | None = None
) -> dict[str, Any]:
    """JSON values: counts, area with its interval, hits at false alarms of 0, 0.01, …, 1."""
    s, w = checked(score, wrong)
    curve = roc(s, w)
    known: dict[str, Any] = {"n": int(s.size), "wrong": int(w.sum())}
    if curve is None:
        return known | {"area": None, "low": None, "high": None, "hits": None}
    bounds = interval(s, w, rng=rng, clusters=clusters) or (None, None)
    hits = [round(float(h), 6) for h in curve.at(GRID)]
    return known | {"area": area(s, w), "low": bounds[0], "high": bounds[1], "hits": hits}


def checked(score: ArrayLike, wrong: ArrayLike) -> tuple[Floats, Bools]:
    s, w = np.asarray(score, dtype=np.float64).ravel(), np.asarray(wrong, dtype=bool).ravel()
    if s.shape != w.shape or s.size == 0:
        raise ShapeError(f"got {s.size} scores with {w.size} answers, expected as many of both, and at least one")
    if not np.isfinite(s).all():
        raise DataError("scores hold NaN or Inf, expected finite numbers")
    return s, w


def _area(wrong: NDArray[Any], right: NDArray[Any]) -> float | None:
    """From the weights of both at every distinct score, ascending."""
    if not (wrong.sum() > 0 and right.sum() > 0):
        return None
    below = np.cumsum(right) - right / 2
    return float((wrong * below).sum() / (wrong.sum() * right.sum()))
