"""What lines that were measured and left out tell about those that never were; plain NumPy.

A cell c is a column of k-space, all rows and coils together, or a point of it where the mask is one of points. Of cells
that were left out the power |z_c|² and the residual r_c = |F x₋ − z|² are known, x₋ being the reconstruction without
them. The share of the power that is lost, f_c = r_c / |z_c|², follows two numbers,

    logit f_c = a + b₁ log(|k_c| + 0.02) + b₂ log(0.02 + Σ_acquired e^(−|c − c'|) + e^(−|c + c'|)),

|k| in units of the grid, the sum over what the reconstruction had: near acquired cells, or near the mirror image of
one, less is lost. a is the scan's own; b is drawn to slopes found on other scans, the more the fewer cells there are.
The power P_c of a missing cell is that of acquired ones at its |k|. What the reconstruction itself puts there is known,
and far more than that power is an error, too:

    E_c = f_c P_c + max(0, |F x|²_c − 4 P_c)

Sensitivities from too few lines do that: beside the centre they invent many times what any scan has there. The second
part is for columns alone.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayesmri.physics.pattern import Mask, centre, radius

Cells = NDArray[np.float64]

N_FOLDS = 4
LEAST = 4  # cells outside the centre, of which nothing can be learned from fewer
OFFSET = 0.02
LOST_MOST = 0.98
SLOPES = (1.1, -0.4)  # b where no calibration says otherwise: between those of one coil and of arrays
PRIOR = (4.0, 6.0)  # how many cells the prior of b₁ and b₂ is worth
LIKELY = 4.0  # times its expected power: more than that few cells have
WIDTH = 0.25  # of the smoothing over log(|k| + 0.02)
REACH = 8  # cells, beyond which e^−d is nothing
SHELLS, RINGS = 16, 3  # of points: groups by |k| and by nearness


def folds(mask: Mask) -> NDArray[np.int64]:
    """The fold 0 … 3 of every acquired cell outside the fully sampled centre, −1 elsewhere; of the mask's shape.

    Lines go to the folds in turn, points by lot (the same for the same mask).
    """
    found = np.full(mask.shape, -1, dtype=np.int64)
    outer = np.flatnonzero(mask & ~centre(mask))
    if mask.ndim == 2:
        outer = np.random.default_rng(0).permutation(outer)
    for j in range(N_FOLDS):
        found.flat[outer[j::N_FOLDS]] = j
    return found


def tells(mask: Mask) -> bool:
    """Whether enough can be left out, or nothing has to be."""
    return bool(mask.all()) or int((folds(mask) >= 0).sum()) >= LEAST


@dataclass(frozen=True, eq=False)
class LostShare:
    """The fit of one slice. a, b: of the formula; power, share: P and f of every cell, were it missing.

    filled: |F x|² of every cell, 0 where it is not known.
    """

    a: float
    b: tuple[float, float]
    power: Cells
    share: Cells
    filled: Cells

    @property
    def energy(self) -> Cells:
        """E of every cell, of the mask's shape."""
        return self.share * self.power + np.maximum(0.0, self.filled - LIKELY * self.power)


@dataclass(frozen=True, eq=False)
class Evidence:
    """Of the left-out cells of a slice: logit f, and log |k| and log nearness, apart from their usual values."""

    lost: Cells
    features: Cells  # (cells, 2)


def evidence(power: Cells, residual: Cells, mask: Mask, fold: NDArray[np.int64]) -> Evidence:
    """power, residual: |z|² where acquired and r where left out, of the mask's shape."""
    left = fold >= 0
    features = _features(mask, fold)[left]
    z, r = power[left], residual[left]
    if mask.ndim == 2:  # single points are as noisy as dice
        features, z, r = _grouped(features, z, r)
    known = z > 0
    return Evidence(_logit(r[known] / z[known]), features[known])


def lost_share(
    power: Cells,
    residual: Cells,
    mask: Mask,
    fold: NDArray[np.int64],
    *,
    filled: Cells | None = None,
    slopes: tuple[float, float] = SLOPES,
) -> LostShare | None:
    """The fit of the module's formula, None where too few cells were left out, or none held anything.

    filled: |F x|² of the reconstruction from all lines.
    """
    known = evidence(power, residual, mask, fold)
    if int((fold >= 0).sum()) < LEAST or known.lost.size == 0 or not power[mask].any():
        return None
    x = np.column_stack([np.ones(known.lost.size), known.features])
    prior = np.array([0.0, *slopes])
    weight = np.diag([1e-6, *PRIOR])
    a, *b = prior + np.linalg.solve(x.T @ x + weight, x.T @ (known.lost - x @ prior))
    features = _features(mask, np.full(mask.shape, -1))
    share = 1 / (1 + np.exp(-(a + features @ np.array(b))))
    put = np.zeros(mask.shape) if filled is None else filled
    return LostShare(float(a), (float(b[0]), float(b[1])), spectrum(power, mask), share, put)


def spectrum(power: Cells, mask: Mask) -> Cells:
    """The power of a cell by its |k| alone: log |z|² of acquired ones, smoothed over log(|k| + 0.02) by lines."""
    s = np.log(radius(mask.shape) + OFFSET)
    at, found = s[mask], power[mask]
    if mask.ndim == 2:
        at, found = _shells(at, found)
    known = found > 0
    at, values = at[known], np.log(found[known])
    places, inverse = np.unique(s, return_inverse=True)
    w = np.exp(-0.5 * ((places[:, None] - at) / WIDTH) ** 2) + 1e-9
    w /= w.sum(axis=1, keepdims=True)
    middle = w @ at
    apart = at - middle[:, None]
    slope = (w * apart) @ values / ((w * apart**2).sum(axis=1) + (0.15 * WIDTH) ** 2)
    smooth: Cells = np.exp(w @ values + slope * (places - middle))[inverse].reshape(mask.shape)
    return smooth


def nearness(mask: Mask) -> Cells:
    """Σ_acquired e^(−|c − c'|) + e^(−|c + c'|) of every cell c, its own place left out of the first sum."""
    present = mask.astype(np.float64)
    # the mirror image of index i is 2 (n // 2) − i, which a grid of an even size lacks for i = 0
    mirror = present[tuple(_mirrored(n) for n in mask.shape)] if mask.ndim == 1 else _mirror_points(present)
    if mask.ndim == 1:
        mirror[0] *= mask.size % 2
    return _spread(present, own=0.0) + _spread(mirror, own=1.0)


def _mirrored(n: int) -> NDArray[np.int64]:
    return (2 * (n // 2) - np.arange(n)) % n


def _mirror_points(present: Cells) -> Cells:
    H, W = present.shape
    mirror = present[_mirrored(H)][:, _mirrored(W)]
    mirror[0] *= H % 2
    mirror[:, 0] *= W % 2
    return mirror


def _spread(present: Cells, *, own: float) -> Cells:
    """present ∗ e^−d, d the distance in cells up to REACH; own: its value at d = 0."""
    found = own * present
    offsets = np.arange(-REACH, REACH + 1)
    shifts = [(int(i),) for i in offsets] if present.ndim == 1 else [(int(i), int(j)) for i in offsets for j in offsets]
    for shift in shifts:
        d = float(np.hypot(*shift)) if len(shift) == 2 else abs(shift[0])
        if 0 < d <= REACH:
            found = found + np.exp(-d) * _shifted(present, shift)
    return found


def _shifted(array: Cells, shift: tuple[int, ...]) -> Cells:
    """Moved by so many cells, 0 where nothing comes from."""
    moved = np.zeros_like(array)
    to = tuple(slice(max(0, i), min(n, n + i)) for i, n in zip(shift, array.shape, strict=True))
    of = tuple(slice(max(0, -i), min(n, n - i)) for i, n in zip(shift, array.shape, strict=True))
    moved[to] = array[of]
    return moved


def _features(mask: Mask, fold: NDArray[np.int64]) -> Cells:
    """log |k| and log nearness of every cell (…, 2), of a left-out one without its whole fold."""
    near = nearness(mask)
    for j in range(N_FOLDS):
        if (fold == j).any():
            near = np.where(fold == j, nearness(mask & (fold != j)), near)
    k = np.log(radius(mask.shape) + OFFSET) - np.log(0.1)
    return np.stack([k, np.log(near + OFFSET) + 1.5], axis=-1)


def _logit(share: Cells) -> Cells:
    f = np.clip(share, 1e-4, LOST_MOST)
    found: Cells = np.log(f / (1 - f))
    return found


def _grouped(features: Cells, z: Cells, r: Cells) -> tuple[Cells, Cells, Cells]:
    """Points together by |k| and, of each shell, by nearness: mean features, sums of power and residual."""
    found = []
    for shell in np.array_split(np.argsort(features[:, 0], kind="stable"), SHELLS):
        for part in np.array_split(shell[np.argsort(features[shell, 1], kind="stable")], RINGS):
            if part.size:
                found.append((*features[part].mean(axis=0), z[part].sum(), r[part].sum()))
    table = np.array(found).reshape(-1, 4)
    return table[:, :2], table[:, 2], table[:, 3]


def _shells(at: Cells, power: Cells) -> tuple[Cells, Cells]:
    """Mean power of points by |k|, in four times as many shells."""
    parts = [p for p in np.array_split(np.argsort(at, kind="stable"), 4 * SHELLS) if p.size]
    return np.array([at[p].mean() for p in parts]), np.array([power[p].mean() for p in parts])
