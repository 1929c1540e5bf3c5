"""Masks that are said: by the file, which must agree with its data, and by the user, whose word overrules ours."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bayesmri.errors import DataError, MaskError
from bayesmri.io.layout.energy import Real
from bayesmri.io.layout.extent import lacks
from bayesmri.io.layout.pattern import SCATTERED, Pattern, scattered

Bool = NDArray[np.bool_]


def stored_mask(values: NDArray[np.generic], grid: tuple[int, int]) -> Bool:
    """bool (W,), or (H, W) where it names points or rows, from an array that squeezes to (W,), (H, W) or (H,)."""
    H, W = grid
    flat = np.squeeze(values)
    if flat.shape not in ((W,), (H, W), (H,)):
        raise MaskError(
            f"the mask has shape {values.shape} but k-space has {H} rows and {W} columns, "
            "expected one value per column (phase encoding is the last axis), or one per row and column"
        )
    if flat.dtype.kind not in "buif" or not np.isin(flat, (0, 1)).all():
        raise MaskError("the mask holds values other than 0 and 1, expected one bool per column")
    mask: Bool = flat.astype(bool)
    if not mask.any():
        raise DataError("the mask keeps no line: there is nothing to reconstruct")
    if mask.shape == (W,):
        return mask
    if mask.ndim == 1:
        return np.repeat(mask[:, None], W, axis=1)
    return mask[0] if (mask == mask[0]).all() else mask


def row_mask(mask: Bool | None) -> Bool | None:
    """(H,) of points (H, W) that are whole rows, some of them missing; None for any other mask."""
    whole = mask is not None and mask.ndim == 2 and not mask.all() and bool((mask == mask[:, :1]).all())
    return mask[:, 0] if whole and mask is not None else None


def check_stored(found: Pattern, mask: Bool) -> None:
    """What the file calls acquired holds more than rounding noise, but for zero padding."""
    if mask.ndim == 2:
        empty = int((mask & ~found.held.points).sum())
        if empty > SCATTERED * int(mask.sum()):
            raise MaskError(
                f"the mask calls {int(mask.sum())} points acquired, of which {empty} hold nothing but zeros, expected "
                "the points that were measured; correct the mask or leave it out"
            )
    elif lacks(found.held.columns, mask):
        empty = int((mask & ~found.held.columns).sum())
        raise MaskError(
            f"the mask calls {int(mask.sum())} lines acquired, of which {empty} hold nothing but zeros or rounding "
            "noise, expected the lines that were measured; correct the mask or leave it out"
        )
    elif scattered(replace(found.held, columns=found.held.columns & mask)):
        raise MaskError(
            f"the mask calls {int(mask.sum())} whole lines acquired, of which many points hold nothing but zeros, "
            "expected the points that were measured, one value per row and column; correct the mask or leave it out"
        )


def overruled(found: Pattern, mask: Bool, p: Real) -> tuple[Bool, tuple[str, ...], tuple[str, ...]]:
    """(mask, notes, warnings) of the user's own mask for data that is not fully sampled; p: its power (H, W).

    What is exactly zero was not acquired, whoever says so.
    """
    H, W = p.shape
    _, _, first, last = found.encoded or (0, H, 0, W)
    if mask.shape == (last - first,) and last - first < W:
        mask = np.pad(mask, (first, W - last))
    if mask.shape not in ((W,), (H, W)):
        raise MaskError(
            f"the mask has {' x '.join(map(str, mask.shape))} values: the k-space has {W} lines along the axis that is "
            f"undersampled ({H} x {W})"
        )
    there = p.sum(axis=0) > 0 if mask.ndim == 1 else p > 0
    what, n = ("lines", W) if mask.ndim == 1 else ("points", H * W)
    if (mask & ~there).any():
        raise MaskError(
            f"the mask names {int((mask & ~there).sum())} {what} of which the data has nothing, expected those that "
            f"were acquired ({int(there.sum())} of {n} {what} hold any signal); correct the mask or leave it out"
        )
    note = f"the {int(mask.sum())} {what} of the mask that was given were taken as acquired"
    faint = int((mask & ~(found.held.columns if mask.ndim == 1 else found.held.points)).sum())
    warning = (
        f"the mask names {faint} {what} that hold only rounding noise: the image is wrong if they are not measured"
    )
    left = int((there & found.mask & ~mask).sum()) if found.mask.shape == mask.shape else 0
    note += f"; {left} others that hold signal were left out" if left else ""
    return mask, (note,), (warning,) if faint else ()
