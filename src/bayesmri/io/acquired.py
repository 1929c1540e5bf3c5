"""Which lines were acquired: every k-space reader ends here."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bayesmri.errors import DataError, FormatError, MaskError
from bayesmri.kspace import Header, KSpace, check_finite, check_grid

SMALLEST, LARGEST = 1e-12, 1e12  # scanners' units lie between 1e-7 and 1e7
SCATTERED = 0.1  # of the points: so many exact zeros between measured ones are no accident of rounding


@dataclass(frozen=True)
class Signal:
    """Where k-space is not exactly zero: lines (slices, Q, W) in any row, points (slices, H, W) in any coil."""

    lines: NDArray[np.bool_]
    points: NDArray[np.bool_]


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
    if mask is not None and not mask.all():
        z[..., ~mask] = 0
    found = signal(z)
    lines = np.asarray(found.lines.any(axis=(0, 1)))
    notes: tuple[str, ...] = ()
    known = mask is not None
    if mask is None:
        mask, notes = sampling_pattern(lines)
    elif not lines.any():
        raise DataError("k-space is zero everywhere on the acquired lines: there is nothing to reconstruct")
    elif lacks(lines, mask):
        raise MaskError(
            f"the mask calls {int(mask.sum())} lines acquired, of which {int((mask & ~lines).sum())} hold nothing but "
            "zeros, expected the lines that were measured; correct the mask or leave it out"
        )
    check_scattered(found.points)
    check_one_mask(found.lines, mask if known or mask.all() else None)
    check_scale(z)
    return KSpace(z=z, mask=mask, header=replace(header, notes=header.notes + notes), truth=truth)


def signal(z: NDArray[np.complex64]) -> Signal:
    """Slice by slice, to bound the memory."""
    lines, points = np.zeros((*z.shape[:2], z.shape[3]), dtype=bool), np.zeros((len(z), *z.shape[2:]), dtype=bool)
    for s, part in enumerate(z):
        held = part != 0
        held.any(axis=1, out=lines[s])
        held.any(axis=0, out=points[s])
    return Signal(lines, points)


def lacks(held: NDArray[np.bool_], wanted: NDArray[np.bool_]) -> bool:
    """Whether wanted columns are empty in another way than zero padding, which is about as wide at both edges.

    The padding of an edge ends somewhere between the last wanted column that is empty and the first that is not.
    """
    missing, there = wanted & ~held, np.flatnonzero(held)
    first, last = int(there[0]), int(there[-1])
    if missing[first:last].any():
        return True
    left = _end(missing[:first]), first
    right = _end(missing[:last:-1]), len(held) - 1 - last
    return max(left[0] - right[1], right[0] - left[1]) > _slack(len(held))


def check_one_mask(lines: NDArray[np.bool_], mask: NDArray[np.bool_] | None) -> None:
    """Every slice and coil with any signal holds the same columns: lines (slices, Q, W).

    mask: what was acquired, where that is known: then zero padding may differ.
    """
    live = np.argwhere(lines.any(axis=-1))
    union = np.asarray(lines.any(axis=(0, 1)))
    for s, q in live:
        held = lines[s, q]
        if (held == union).all() or (mask is not None and not lacks(held, mask)):
            continue
        t, r = next(index for index in live if (lines[tuple(index)] & ~held).any())
        raise MaskError(
            f"slice {s}, coil {q} holds {int(held.sum())} of {len(union)} lines and slice {t}, coil {r} others "
            f"({int((lines[t, r] & ~held).sum())}), expected one mask for all slices and coils; split the file by its "
            "masks"
        )


def check_scattered(points: NDArray[np.bool_]) -> None:
    """Few exact zeros lie between measured points of a column; rows that are empty everywhere do not count."""
    zeros = total = 0
    rows = points.any(axis=(0, 2))
    for part in points:
        held = part[rows]
        between = np.logical_or.accumulate(held) & np.logical_or.accumulate(held[::-1])[::-1]
        total += int(between.sum())
        zeros += int((between & ~held).sum())
    if zeros > SCATTERED * total:
        raise DataError(
            f"{100 * zeros / total:.0f} % of the points within the acquired columns of k-space are exactly zero "
            "(undersampled along two axes?): only whole lines along the last axis may be missing"
        )


def check_scale(z: NDArray[np.complex64]) -> None:
    """Squares of the values, their sums and small parts stay within single precision."""
    peak = max(float(max(np.abs(part.real).max(), np.abs(part.imag).max())) for part in z)
    if not SMALLEST <= peak <= LARGEST:
        raise DataError(
            f"the largest value of k-space is {peak:.3g}, expected one from {SMALLEST:g} to {LARGEST:g}, "
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
    if abs(left - right) <= _slack(W):
        note = f"{left} empty columns at the left and {right} at the right edge of k-space were taken as zero padding"
        return np.ones_like(lines), (note,)
    note = f"{left} empty columns at the left and {right} at the right edge of k-space were taken as partial Fourier"
    return lines, (note,)


def mask_from_file(values: NDArray[np.generic], columns: int) -> NDArray[np.bool_]:
    """One bool per column from an array that squeezes to (W,)."""
    flat = np.squeeze(values)
    if flat.shape != (columns,):
        raise MaskError(
            f"the mask has shape {values.shape} but k-space has {columns} columns, "
            "expected one value per column (phase encoding is the last axis)"
        )
    if flat.dtype.kind not in "buif" or not np.isin(flat, (0, 1)).all():
        raise MaskError("the mask holds values other than 0 and 1, expected one bool per column")
    mask: NDArray[np.bool_] = flat.astype(bool)
    if not mask.any():
        raise DataError("the mask keeps no line: there is nothing to reconstruct")
    return mask


def as_slices(z: NDArray[np.complex64], *, three: str) -> NDArray[np.complex64]:
    """2-D (H, W), 3-D (slices, H, W) or (coils, H, W) as `three` says, or 4-D, as (slices, Q, H, W)."""
    if z.ndim == 2:
        return z[None, None]
    if z.ndim == 3:
        return z[:, None] if three == "slices" else z[None]
    if z.ndim == 4:
        return z
    raise FormatError(f"got k-space of shape {z.shape}, expected (H, W), ({three}, H, W) or (slices, coils, H, W)")


def _slack(W: int) -> int:
    """By how many columns the zero padding of one edge may exceed that of the other."""
    return max(2, W // 32)


def _end(missing: NDArray[np.bool_]) -> int:
    """How many entries there are up to the last True."""
    return int(np.flatnonzero(missing).max(initial=-1)) + 1
