"""Other lines that might have been measured as well: as many, with the same centre, and as dense where these are."""

import numpy as np
from scipy.ndimage import gaussian_filter

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
    sigma = [WIDTH * n for n in mask.shape]
    around, room = (gaussian_filter(part.astype(np.float64), sigma, mode="constant") for part in (outer, ~inside))
    chance = np.where(inside, 0.0, around / np.maximum(room, 1e-12))
    chance[(chance < EMPTY * chance.max()) & ~outer] = 0.0
    lots = np.random.default_rng((j, *mask.shape)).exponential(size=mask.shape)
    # the smallest of exponential variables with these rates are a draw without replacement
    order = np.argsort(np.where(chance > 0, lots / np.maximum(chance, 1e-300), np.inf), axis=None, kind="stable")
    found = inside.copy()
    found.flat[order[: int(outer.sum())]] = True
    return found
