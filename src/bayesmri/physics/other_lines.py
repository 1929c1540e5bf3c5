"""Other lines that might have been measured as well: as many, with the same centre, and as dense where these are."""

import numpy as np
from numpy.typing import NDArray

from bayesmri.physics.pattern import Mask, centre

WIDTH = 1 / 16  # of the grid, over which the density of a mask is taken
EMPTY = 0.05  # of the largest density, below which nothing is drawn


def other_lines(mask: Mask, j: int) -> Mask:
    """The j-th lot of a mask's lines (W,) or points (H, W): the fully sampled centre and as many cells around it.

    A cell outside the centre is drawn, without replacement, with chances that follow the density of acquired ones
    around it: an empty side stays empty, and a dense middle dense. The same for the same mask and j, everywhere.
    """
    inside = centre(mask)
    outer = mask & ~inside
    around, room = _smooth(outer), _smooth(~inside)
    chance = np.where(inside, 0.0, around / np.maximum(room, 1e-12))
    chance[(chance < EMPTY * chance.max()) & ~outer] = 0.0
    lots = np.random.default_rng((j, *mask.shape)).exponential(size=mask.shape)
    # the smallest of exponential variables with these rates are a draw without replacement
    order = np.argsort(np.where(chance > 0, lots / np.maximum(chance, 1e-300), np.inf), axis=None, kind="stable")
    found = inside.copy()
    found.flat[order[: int(outer.sum())]] = True
    return found


def _smooth(cells: Mask) -> NDArray[np.float64]:
    """By a Gaussian along every axis, nothing beyond the edges."""
    found = cells.astype(np.float64)
    for axis, n in enumerate(cells.shape):
        at = np.arange(n) / (WIDTH * n)
        weights = np.exp(-0.5 * (at[:, None] - at) ** 2)
        found = np.moveaxis(np.tensordot(weights, found, axes=(1, axis)), 0, axis)
    return found
