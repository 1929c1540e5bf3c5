"""Split-conformal scaling of σ̂, with subjects and not pixels as what is exchangeable.

Subject i has scores s_ij = |X̄ − Y| / w, w = σ̂ + floor, one for each of its n_i pixels. With a factor λ it misses the
share m_i(λ) = #{j : s_ij > λ} / n_i of them, which falls as λ grows. Of n subjects and α = 1 − level,

    λ̂ = min {λ : (Σ_i min(m_i(λ), B) + B) / (n + 1) ≤ α}

promises E[min(m_{n+1}(λ̂), B)] ≤ α for a further subject exchangeable with these, whatever the distribution and however
the pixels of one subject depend on each other: conformal risk control (Angelopoulos et al. 2024) of the loss
min(m, B) ≤ B. The B added stands for the unseen subject, at its worst.

B = 1 bounds the expected share of missed pixels itself, and λ̂ is then the quantile of hierarchical conformal prediction
(Lee, Barber and Willett 2023), every subject with weight 1/(n + 1) and as much at infinity; with one pixel per subject
it is the ⌈(n + 1) level⌉-th smallest score of ordinary split conformal prediction. It needs n ≥ 1/α − 1 subjects, and
overshoots the level by about (1 − α)/n. B < 1 makes do with fewer subjects and overshoots by about (B − α)/n; it
promises the same as long as no subject misses more than B.

Pooling all pixels of all subjects, as if each were a subject of its own, promises nothing: pixels of one subject err
together, and the number of pixels says nothing about a new subject.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesmri.errors import ConfigError, DataError, ShapeError

Scores = NDArray[np.floating]

CAP_SHARE = 2.0  # B = 2α where subjects are few
OVERSHOOT = 0.02  # of the level, beyond which B = 1 costs too much width
ROUNDING = 1e-9  # (1 − 0.9)·10 is 0.9999…


def scores(error: ArrayLike, width: ArrayLike) -> NDArray[np.float32]:
    """|e| / w of all pixels, ascending. width: σ̂ + floor, positive."""
    e, w = np.asarray(error, dtype=np.float64), np.asarray(width, dtype=np.float64)
    if e.shape != w.shape or e.size == 0:
        raise ShapeError(f"got errors {e.shape} with widths {w.shape}, expected equal shapes, not empty")
    if not (np.isfinite(e).all() and np.isfinite(w).all() and w.min() > 0):
        raise DataError(
            "errors or widths hold NaN or Inf, or widths are not positive, expected finite numbers and a floor"
        )
    found: NDArray[np.float32] = np.sort((np.abs(e) / w).astype(np.float32), axis=None)
    return found


def missed(ascending: Scores, factor: float) -> float:
    """m(λ) = #{j : s_j > λ} / n of one subject."""
    return 1 - int(np.searchsorted(ascending, factor, side="right")) / ascending.size


def conformal_factor(subjects: Sequence[Scores], *, level: float, cap: float = 1.0) -> float:
    """λ̂ of the module's formula, B = cap; ∞ where no finite factor keeps the promise with so few subjects.

    subjects: ascending scores of each, none empty.
    """
    budget = _budget(len(subjects), level, cap)
    if not subjects or any(s.size == 0 for s in subjects):
        raise DataError("got no subjects to calibrate, or one without pixels, expected scores of each")
    if budget < -ROUNDING:
        return math.inf
    values = np.concatenate([s[::-1] for s in subjects])
    lost = np.concatenate([_losses(s.size, cap) for s in subjects])
    values, lost = values[lost > 0], lost[lost > 0]
    largest_first = np.argsort(-values, kind="stable")
    # as λ falls past the k largest scores of all, this much is lost; past the last one that can be afforded, too much
    k = int(np.searchsorted(np.cumsum(lost[largest_first]), budget + ROUNDING, side="right"))
    return float(values[largest_first[k]]) if k < values.size else 0.0


def least_subjects(level: float, cap: float = 1.0) -> int:
    """The smallest n with a finite factor: n + 1 ≥ B/α."""
    return max(1, math.ceil(cap / (1 - level) - 1 - ROUNDING))


def overshoot(n: int, level: float, cap: float) -> float:
    """How far the coverage of the n calibrated subjects has to exceed the level: (B − α)/n."""
    return (cap - (1 - level)) / n


def chosen_cap(n: int, level: float) -> float:
    """1 where n subjects afford it within two points of the level, else 2α: a function of n alone, never of scores."""
    affordable = n >= least_subjects(level) and overshoot(n, level, 1.0) <= OVERSHOOT
    return 1.0 if affordable else min(1.0, CAP_SHARE * (1 - level))


def highest_level(n: int, pixels: int, cap: float | None = None) -> float:
    """What n subjects can support, the smallest of so many pixels.

    α is at least one pixel of each: far below it the cap 2α counts a subject that misses one pixel as one that misses
    all, and nothing is left of the scores but the largest of each. A cap B of its own needs α ≥ B/(n + 1), too.
    """
    return 1 - max(1 / max(1, pixels), 0.0 if cap is None else cap / (n + 1))


@dataclass(frozen=True)
class LeftOut:
    """One subject, judged by the factor of all the others. coverage: the share of its pixels that the bound holds."""

    factor: float
    coverage: float


def leave_one_out(subjects: Sequence[Scores], *, level: float, cap: float = 1.0) -> list[LeftOut]:
    """Every subject in turn; none where the others are too few for a finite factor."""
    if len(subjects) - 1 < least_subjects(level, cap):
        return []
    found = []
    for i, own in enumerate(subjects):
        factor = conformal_factor([s for j, s in enumerate(subjects) if j != i], level=level, cap=cap)
        found.append(LeftOut(factor, 1 - missed(own, factor)))
    return found


def _losses(n: int, cap: float) -> NDArray[np.float64]:
    """What min(m, B) grows by when the r-th largest of n scores is missed, too: r = 1 … n."""
    return np.diff(np.minimum(np.arange(n + 1) / n, cap))


def _budget(n: int, level: float, cap: float) -> float:
    """(n + 1) α − B: what the calibrated subjects may miss together."""
    if not 0 < level < 1 or not 1 - level < cap + ROUNDING or cap > 1:
        raise ConfigError(
            f"got the level {level:g} with the cap {cap:g}, expected 0 < 1 − level ≤ cap ≤ 1, such as 0.9 and 0.3"
        )
    return (n + 1) * (1 - level) - cap
