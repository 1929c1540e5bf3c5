"""Which lines and which of their samples were acquired: known from the file, and not guessed from zeros."""

import numpy as np
from numpy.typing import NDArray

from bayesmri.errors import DataError
from bayesmri.io.acquired import sampling_pattern
from bayesmri.io.mrd.fill import Filled
from bayesmri.io.mrd.grid import Grid
from bayesmri.messages import Messages, noted, warned

Bools = NDArray[np.bool_]
CUT = 0.15  # of the energy: the removed half of a readout holds noise, and the ends of a long object
SMALL = 1 / 32  # of a readout: so many samples lost at its ends cost resolution, and nothing else


def sampled(filled: Filled, grid: Grid) -> tuple[Bools, Messages]:
    """One mask for all slices: a place is acquired where every slice has it; z is zeroed elsewhere, in place.

    2-D: (W,), or (H, W) where a part of the readouts is missing (asymmetric echo). 3-D: (H, W) of both encodings.
    """
    every: Bools = filled.counts.min(axis=0) > 0
    some: Bools = filled.counts.max(axis=0) > 0
    said = _counted(filled, every) + _cut(filled, grid)
    if not every.any():
        raise DataError("no line was acquired in every slice: one mask cannot hold them; split the file")
    if (every != some).any():
        said += warned(f"{int((some & ~every).sum())} lines that are missing in some slices were left out in all")
    first, last = filled.first.max(axis=0), filled.last.min(axis=0)
    if grid.three_d:
        _check_held(filled.z, every)
        filled.z[..., ~every] = 0
        return every, said + _shape_of_plane(every) + _lost_in_3d(first[every], last[every], grid)
    columns, more = sampling_pattern(every[:, 0])
    rows, told = _rows(np.where(every, first, 0)[:, 0], np.where(every, last, grid.X)[:, 0], grid)
    filled.z[..., ~every[:, 0]] = 0
    said += noted(*more) + told
    if rows is None:
        return columns, said
    filled.z[..., ~rows] = 0
    return rows & columns, said


def _counted(filled: Filled, every: Bools) -> Messages:
    """Places of several lines beyond their averages are no error, and worth a word where their numbers differ."""
    n = filled.counts[:, every]
    if n.size and n.min() != n.max():
        return noted(f"{n.min()} to {n.max()} lines were acquired at one place: each place is the mean of its own")
    return Messages()


def _cut(filled: Filled, grid: Grid) -> Messages:
    if grid.H == grid.X or not filled.cut > CUT:
        return Messages()
    return warned(
        f"the header shows {grid.H} of {grid.X} rows of the readout, and the others, which were cut away, hold "
        f"{100 * filled.cut:.0f} % of the energy: the object reaches beyond the image, or the header is wrong"
    )


def _check_held(z: NDArray[np.complex64], mask: Bools) -> None:
    """Of (slices, Q, H, W): every acquired point holds something in one slice or coil."""
    held = np.zeros(mask.shape, dtype=bool)
    for part in z:
        held |= part.any(axis=0)
    empty = int((mask & ~held).sum())
    if empty:
        raise DataError(
            f"{empty} of {int(mask.sum())} lines hold nothing but zeros, expected what was measured; "
            "export the data again"
        )


def _rows(first: NDArray[np.int64], last: NDArray[np.int64], grid: Grid) -> tuple[Bools | None, Messages]:
    """(H, W) where readouts are incomplete on one side; None where they are complete or cut alike on both.

    Row h of the cropped grid lies at X//2 + (h − H//2) X/H of the full one; where it was cropped, a row beside the cut
    is made of samples beyond it too, and does not count.
    """
    X, H = grid.X, grid.H
    before, after = first, X - last
    if not before.any() and not after.any():
        return None, Messages()
    lost = int((before + after).max())
    if lost <= max(2, SMALL * X):
        return None, noted(f"up to {lost} of {X} samples at the ends of the readouts were discarded and are zero")
    if (np.abs(before - after) <= max(2, SMALL * X)).all():
        return None, noted(
            f"{int((last - first).min())} of {X} readout samples were acquired, the ends are zero padding"
        )
    at = X // 2 + (np.arange(H) - H // 2) * (X / H)
    margin = 0.0 if H == X else X / H
    low = np.where(before > 0, first + margin, 0)
    high = np.where(after > 0, last - 1 - margin, X)
    mask = (at[:, None] >= low) & (at[:, None] <= high)
    n = int((last - first).min())
    return mask, noted(
        f"{n} of {X} readout samples were acquired (asymmetric echo): {int((~mask).any(axis=1).sum())} of {H} rows of "
        "k-space count as not acquired"
    )


def _lost_in_3d(first: NDArray[np.int64], last: NDArray[np.int64], grid: Grid) -> Messages:
    lost = int((first + grid.X - last).max())
    if lost <= max(2, SMALL * grid.X):
        return Messages()
    text = f"{grid.X - lost} of {grid.X} readout samples were acquired; the rest is zero"
    if (np.abs(first - (grid.X - last)) <= max(2, SMALL * grid.X)).all():
        return noted(text)
    return warned(f"{text} (asymmetric echo of a 3-D scan): the image is blurred along the readout, across its slices")


def _shape_of_plane(mask: Bools) -> Messages:
    """In words: complete, an ellipse, or neither."""
    H, W = mask.shape
    if mask.all():
        return noted("a 3-D scan: its slices lie along the readout")
    y, x = (np.arange(n) - n // 2 for n in (H, W))
    at = (y[:, None] / (H / 2)) ** 2 + (x / (W / 2)) ** 2
    inside = at <= (1 - 1.5 / min(H, W)) ** 2
    corners = ~mask & (at > 1)
    if mask[inside].all() and corners.any():
        return noted("a 3-D scan with elliptical scanning: its slices lie along the readout, the corners are missing")
    return noted("a 3-D scan: its slices lie along the readout, undersampled in the plane of both phase encodings")
