"""Masks of two axes: points of (ky, kz) that keep a distance from each other, denser towards the centre."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bayesmri.errors import MaskError
from bayesmri.physics.pattern import inside_ellipse, n_center_points

SLOPE = 2.0  # the distance between points grows by this share of the central one from the centre to the edges
JITTER = 0.25  # of a distance, up and down: equal ones would make a chessboard of the grid
SHRINK = 0.96  # of the distances from one pass to the next
LEVELS = 32  # of distances: kernels are made for so many


def poisson_mask(
    shape: tuple[int, int],
    R: float,
    *,
    center_fraction: float | None = None,
    ellipse: bool = False,
    rng: torch.Generator,
) -> Tensor:
    """Exactly round(HW/R) points, bool (H, W): a variable-density Poisson disc with a fully sampled centre block.

        |p − q| ≥ s · min(w_p, w_q) for all points outside the block,   w_k = (1 + SLOPE |k|) (1 ± JITTER)

    k: place relative to the edges, 1 at their middles. s: the largest of a falling sequence that lets in enough points,
    less than 1 pixel around the centre, where all are let in. They are tried in random order at every s; the block is
    there from the start. It has the share `center_fraction` (0.64/R) of the rows and of the columns.

    ellipse: only within the ellipse that touches the edges; the corners of the grid count for R nevertheless.
    """
    H, W = shape
    n = round(H * W / R)
    mask = np.zeros(shape, dtype=bool)
    block = zip(shape, n_center_points(shape, R, center_fraction), strict=True)
    rows, columns = (slice((size - m + 1) // 2, (size - m + 1) // 2 + m) for size, m in block)
    mask[rows, columns] = True
    open_to = inside_ellipse(shape) | mask if ellipse else np.ones(shape, dtype=bool)
    _check(n, int(mask.sum()), int(open_to.sum()), shape, R)
    order = torch.randperm(H * W, generator=rng).numpy()
    order = order[(open_to & ~mask).ravel()[order]]
    w = point_distances(shape) * (1 + JITTER * (2 * torch.rand(shape, generator=rng).numpy() - 1))
    return torch.from_numpy(_thrown(mask, n, order, w))


def point_distances(shape: tuple[int, int]) -> NDArray[np.float64]:
    """1 + SLOPE |k|, (H, W)."""
    y, x = (2 * (np.arange(n) - n // 2) / n for n in shape)
    found: NDArray[np.float64] = 1 + SLOPE * np.sqrt(y[:, None] ** 2 + x**2)
    return found


def _thrown(mask: NDArray[np.bool_], n: int, order: NDArray[np.int64], w: NDArray[np.float64]) -> NDArray[np.bool_]:
    """The mask with points of `order` added until there are n; they keep the largest distance that allows so many."""
    H, W = mask.shape
    largest = _even_distance(w, n)
    edges = np.linspace(w.min(), w.max(), LEVELS)
    level = np.searchsorted(edges, w)
    kernels = _kernels(edges, largest)
    margin = kernels[0].shape[0] // 2
    # the smallest |p − q| / w(q) over the points q taken so far
    field = np.full((H + 2 * margin, W + 2 * margin), np.inf, dtype=np.float32)
    inner = field[margin : margin + H, margin : margin + W]
    size = 2 * margin + 1

    def take(h: int, c: int) -> None:
        part = field[h : h + size, c : c + size]
        np.minimum(part, kernels[level[h, c]], out=part)

    for h, c in _rim(mask):
        take(h, c)
    missing, scale = n - int(mask.sum()), largest
    taken = mask.copy()
    while missing > 0:
        waiting = order[inner.ravel()[order] >= scale] if scale > 0.01 else order
        for p in waiting.tolist():
            h, c = divmod(p, W)
            if inner[h, c] >= scale or scale <= 0.01:
                taken[h, c] = True
                take(h, c)
                missing -= 1
                if missing == 0:
                    break
        order = order[~taken.ravel()[order]]
        scale *= SHRINK
    return taken


def _even_distance(w: NDArray[np.float64], n: int) -> float:
    """s at which a Poisson disc of distances s·w has about n points: Σ min(1, 0.7/(s w)²) = n, by bisection."""
    low, high = 1e-3, 1e3
    for _ in range(50):
        s = (low * high) ** 0.5
        low, high = (s, high) if np.minimum(1, 0.7 / (s * w) ** 2).sum() > n else (low, s)
    return low


def _kernels(levels: NDArray[np.float64], largest: float) -> list[NDArray[np.float32]]:
    """|p|/w around a point for every level w, as far as the largest distance reaches."""
    margin = int(np.ceil(largest * levels[-1]))
    d = np.arange(-margin, margin + 1)
    distance = np.sqrt(d[:, None] ** 2 + d**2)
    distance[margin, margin] = -1  # a point that was taken is not open again
    return [(distance / w).astype(np.float32) for w in levels]


def _rim(mask: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Points of the block that have a neighbour outside it: those further in are further away."""
    inside = mask.copy()
    inside[1:] &= mask[:-1]
    inside[:-1] &= mask[1:]
    inside[:, 1:] &= mask[:, :-1]
    inside[:, :-1] &= mask[:, 1:]
    return [(int(h), int(w)) for h, w in np.argwhere(mask & ~inside)]


def _check(n: int, block: int, free: int, shape: tuple[int, int], R: float) -> None:
    H, W = shape
    if n < 1:
        raise MaskError(f"R={R:g} keeps none of {H}x{W} points: lower the acceleration")
    if block > n:
        raise MaskError(
            f"a centre of {block} points exceeds the {n} of {H}x{W} points that R={R:g} keeps: "
            "lower the center fraction or the acceleration"
        )
    if n > free:
        raise MaskError(
            f"R={R:g} keeps {n} points, the ellipse of a grid of {H}x{W} has {free}: raise the acceleration, or take "
            "poisson, which has no corners to leave out"
        )
