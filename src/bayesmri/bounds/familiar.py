"""Is a scan like those that a model was trained on? A few numbers of its zero-filled image tell; NumPy only.

Of the slices of the training data a dozen scale-free numbers f are kept by their mean m, a whitening matrix B with
BᵀB = C⁻¹ (C their covariance, shrunk) and centres c_k of B(f − m). A slice is as far from training as

    d = min_k |B(f − m) − c_k|,

a volume as far as the median of its slices; the threshold is a high quantile of d over the training slices.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesmri.errors import DataError

Features = NDArray[np.float64]
BANDS = (0.0, 0.06, 0.12, 0.25, 0.5, 0.8, 1.0)  # of the distance from the centre of k-space, square rings
QUANTILES = (0.25, 0.5, 0.75, 0.9)  # of the image, over its brightest
WHITE, FLOOR, SHARP = 0.995, 1e-4, 2e-3
CENTRES, SHRINK, SHARE = 16, 0.05, 0.995
MOST = 9  # slices of a volume that are looked at
NAMES = (
    *(f"fall of power to ring {i}" for i in range(1, len(BANDS) - 1)),
    *(f"quantile {p:g}" for p in QUANTILES),
    "brightness of the ends of the readout",
    "roughness of the phase",
    "variation along the readout",
)


@dataclass(frozen=True)
class Familiar:
    """What is kept of the training data.

    mean: m. whiten: B, row by row. centres: c_k. threshold: of d. flattest: the least fall of power from the centre of
    k-space to its edge, in decades, of nearly all training slices. sizes: the least and the most pixels along a side.
    slices, files: how many there were.
    """

    mean: tuple[float, ...]
    whiten: tuple[tuple[float, ...], ...]
    centres: tuple[tuple[float, ...], ...]
    threshold: float
    flattest: float
    sizes: tuple[int, int]
    slices: int
    files: int
    provenance: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        n = len(NAMES)
        rows = (self.mean, *self.whiten, *self.centres)
        if len(self.whiten) != n or not self.centres or any(len(row) != n for row in rows):
            raise DataError(f"got a record of training data that does not speak of {n} numbers, expected these")

    def distance(self, features: Features) -> NDArray[np.float64]:
        """d of slices (n, F): (n,)."""
        at = (features - np.array(self.mean)) @ np.array(self.whiten).T
        return nearest(at, np.array(self.centres))


def slice_features(z: NDArray[np.complexfloating], mask: NDArray[np.bool_]) -> Features:
    """f of one slice of k-space (Q, H, W) with the mask (W,) or (H, W); in the order of NAMES."""
    x = np.fft.fftshift(np.fft.ifft2(np.fft.ifftshift(z, axes=(-2, -1)), norm="ortho"), axes=(-2, -1))
    X = np.sqrt((np.abs(x).astype(np.float64) ** 2).sum(axis=0))
    white = max(float(np.quantile(X, WHITE)), 1e-300)
    shares = [_log(float(np.quantile(X, p)) / white) for p in QUANTILES]
    mean = max(float(X.mean()), 1e-300)
    rows = max(1, X.shape[0] // 16)  # along the readout nothing folds
    ends = float(np.concatenate([X[:rows], X[-rows:]]).mean()) / mean
    a, b = x[:, 1:], x[:, :-1]
    alike = float(np.abs((a * b.conj()).sum(axis=(1, 2))).sum()) / max(float((np.abs(a) * np.abs(b)).sum()), 1e-300)
    rough = float(np.log10(1 - min(1.0, alike) + SHARP))
    steps = float(np.abs(np.diff(X, axis=0)).mean()) / mean
    return np.array([*_falls(z, mask), *shares, _log(ends), rough, _log(steps)])


def fall(features: Features) -> NDArray[np.float64]:
    """log₁₀ of the power at the edge of k-space over that in its centre, of slices (n, F)."""
    return np.asarray(features[:, : len(BANDS) - 2].sum(axis=1))


def volume_features(z: NDArray[np.complexfloating], mask: NDArray[np.bool_]) -> Features:
    """f of some slices of a volume (slices, Q, H, W) that hold any signal: (n, F)."""
    held = [i for i, part in enumerate(z) if part.any()]
    chosen = np.unique(np.linspace(0, len(held) - 1, MOST).round().astype(int)) if held else ()
    return np.array([slice_features(z[held[i]], mask) for i in chosen]).reshape(-1, len(NAMES))


def fitted(features: Features, files: NDArray[np.int_], *, sizes: tuple[int, int], seed: int) -> Familiar:
    """Of training slices (n, F); files: the number of the file of each. Files of many slices count by their root."""
    if len(features) < 4 * CENTRES:
        raise DataError(f"got {len(features)} training slices, expected at least {4 * CENTRES} to tell how they look")
    weights = 1 / np.sqrt(np.bincount(files)[files])
    m = np.average(features, axis=0, weights=weights)
    C = np.cov(features.T, aweights=weights)
    C = (1 - SHRINK) * C + SHRINK * np.diag(np.diag(C)) + 1e-9 * np.eye(len(C))
    B = np.linalg.cholesky(np.linalg.inv(C)).T
    at = (features - m) @ B.T
    centres = _centres(at, CENTRES, np.random.default_rng(seed))
    return Familiar(
        mean=_short(m),
        whiten=tuple(_short(row) for row in B),
        centres=tuple(_short(c) for c in centres),
        threshold=float(round(np.quantile(nearest(at, centres), SHARE), 3)),
        flattest=float(round(np.quantile(fall(features), SHARE), 3)),
        sizes=sizes,
        slices=len(features),
        files=len(np.unique(files)),
    )


def nearest(at: Features, centres: Features) -> NDArray[np.float64]:
    """min_k |at − c_k|: (n,)."""
    return np.asarray(np.sqrt(((at[:, None] - centres[None]) ** 2).sum(axis=-1)).min(axis=1))


def _centres(at: Features, K: int, rng: np.random.Generator) -> Features:
    """k-means: each start far from those before (k-means++), then means of what is nearest until nothing moves."""
    centres: Features = at[rng.integers(len(at))][None]
    while len(centres) < K:
        far = nearest(at, centres) ** 2
        centres = np.concatenate([centres, at[rng.choice(len(at), p=far / far.sum())][None]])
    for _ in range(100):
        own = ((at[:, None] - centres[None]) ** 2).sum(axis=-1).argmin(axis=1)
        moved = np.array([at[own == k].mean(axis=0) if (own == k).any() else centres[k] for k in range(K)])
        if np.array_equal(moved, centres):
            break
        centres = moved
    return np.asarray(centres)


def _falls(z: NDArray[np.complexfloating], mask: NDArray[np.bool_]) -> list[float]:
    """How the mean power of acquired points falls from ring to ring, in decades; rings of no signal say nothing."""
    H, W = z.shape[-2:]
    power = (np.abs(z).astype(np.float64) ** 2).sum(axis=0)
    rings = np.maximum.outer(np.abs(np.arange(H) - H // 2) / (H / 2), np.abs(np.arange(W) - W // 2) / (W / 2))
    acquired = np.broadcast_to(mask, (H, W))
    floor = 1e-12 * max(float(power.max()), 1e-300)
    levels: list[float] = []
    for low, high in pairwise(BANDS):
        inside = acquired & (rings >= low) & ((rings < high) | (high == BANDS[-1]))
        level = float(power[inside].mean()) if inside.any() else 0.0
        levels.append(float(np.log10(level)) if level > floor else levels[-1] if levels else float(np.log10(floor)))
    return [float(step) for step in np.diff(levels)]


def _log(value: float) -> float:
    return float(np.log10(max(value, FLOOR)))


def _short(values: Features) -> tuple[float, ...]:
    return tuple(float(f"{value:.5g}") for value in values)
