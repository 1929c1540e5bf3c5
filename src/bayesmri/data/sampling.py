"""Which lines were acquired: every k-space reader ends here."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bayesmri.data.kspace import Header, KSpace, acquired_lines, check_finite, check_grid
from bayesmri.errors import DataError, FormatError, MaskError

SMALLEST, LARGEST = 1e-12, 1e12  # scanners' units lie between 1e-7 and 1e7


def finish(
    z: NDArray[np.complex64],
    header: Header,
    *,
    mask: NDArray[np.bool_] | None = None,
    truth: NDArray[np.float32] | None = None,
) -> KSpace:
    """Check z (slices, Q, H, W) and settle its mask. z is zeroed outside the mask, in place."""
    check_grid(z.shape, ndim=4, axes="(slices, coils, H, W)")
    check_finite("k-space", z)
    if mask is None:
        mask, notes = sampling_pattern(acquired_lines(z))
    else:
        notes = ()
        if not mask.all():
            z[..., ~mask] = 0
        if not acquired_lines(z).any():
            raise DataError("k-space is zero everywhere on the acquired lines: there is nothing to reconstruct")
    check_scale(z)
    return KSpace(z=z, mask=mask, header=replace(header, notes=header.notes + notes), truth=truth)


def check_scale(z: NDArray[np.complex64]) -> None:
    """Squares of the values, their sums and small parts stay within single precision."""
    peak = max(float(max(np.abs(part.real).max(), np.abs(part.imag).max())) for part in z)
    if not SMALLEST <= peak <= LARGEST:
        raise DataError(
            f"the largest value of k-space is {peak:.3g}: want one from {SMALLEST:g} to {LARGEST:g}, "
            "which single precision can square; multiply the data by a constant"
        )


def sampling_pattern(lines: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], tuple[str, ...]]:
    """(mask, notes) from the columns that hold signal.

    Empty columns at both edges alone, of about the same width, are the zero padding of a fully sampled scan; at one
    edge alone they are partial Fourier; anywhere else they are undersampling.
    """
    W, held = len(lines), np.flatnonzero(lines)
    if not len(held):
        raise DataError("k-space holds no acquired line: every column is zero")
    left, right = int(held[0]), W - 1 - int(held[-1])
    if len(held) < W - left - right:
        return lines, ()
    if left == right == 0:
        return lines, ()
    if abs(left - right) <= max(2, W // 32):
        note = f"{left} empty columns at the left and {right} at the right edge of k-space were taken as zero padding"
        return np.ones_like(lines), (note,)
    note = f"{left} empty columns at the left and {right} at the right edge of k-space were taken as partial Fourier"
    return lines, (note,)


def mask_from_file(values: NDArray[np.generic], columns: int) -> NDArray[np.bool_]:
    """One bool per column from an array that squeezes to (W,)."""
    flat = np.squeeze(values)
    if flat.shape != (columns,):
        raise MaskError(
            f"the file's mask has shape {values.shape} but k-space has {columns} columns: "
            "want one value per column (phase encoding is the last axis)"
        )
    if flat.dtype.kind not in "buif" or not np.isin(flat, (0, 1)).all():
        raise MaskError("the file's mask holds values other than 0 and 1: want one bool per column")
    mask: NDArray[np.bool_] = flat.astype(bool)
    if not mask.any():
        raise DataError("the file's mask keeps no line: there is nothing to reconstruct")
    return mask


def as_slices(z: NDArray[np.complex64], *, three: str) -> NDArray[np.complex64]:
    """2-D (H, W), 3-D (slices, H, W) or (coils, H, W) as `three` says, or 4-D, as (slices, Q, H, W)."""
    if z.ndim == 2:
        return z[None, None]
    if z.ndim == 3:
        return z[:, None] if three == "slices" else z[None]
    if z.ndim == 4:
        return z
    raise FormatError(f"k-space of shape {z.shape} came: want (H, W), ({three}, H, W) or (slices, coils, H, W)")
