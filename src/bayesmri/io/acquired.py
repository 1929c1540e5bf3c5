"""Which lines were acquired: every k-space reader ends here."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bayesmri.errors import DataError, MaskError
from bayesmri.io.layout.energy import power, punctured, quantised
from bayesmri.io.layout.extent import extent, lacks
from bayesmri.io.layout.given import NOTHING, Given
from bayesmri.io.layout.overrule import check_stored, overruled, row_mask
from bayesmri.io.layout.pattern import (
    Pattern,
    along_rows,
    check_coils,
    check_slices,
    lost_warnings,
    pattern,
    slice_lines,
)
from bayesmri.io.layout.rolled import rolled_warnings
from bayesmri.io.layout.turn import NOTE, turned
from bayesmri.kspace import Header, KSpace, check_finite, check_grid

SMALLEST, LARGEST = 1e-12, 1e12  # scanners' units lie between 1e-7 and 1e7


def finish(
    z: NDArray[np.complex64],
    header: Header,
    *,
    mask: NDArray[np.bool_] | None = None,
    truth: NDArray[np.float32] | None = None,
    given: Given = NOTHING,
) -> KSpace:
    """Check z (slices, Q, H, W) and settle its mask. z is zeroed outside the mask, in place.

    mask: the file's own, (W,) or (H, W). given: what the user says.
    """
    check_grid(z.shape, ndim=4, axes="(slices, coils, H, W)")
    check_finite("k-space", z)
    if mask is not None and not mask.all():
        z[..., ~mask] = 0
    energy = power(z)
    if not energy.points.any():
        where = "no acquired line: every column is zero" if mask is None else "zeros alone on the acquired lines"
        raise DataError(f"k-space holds {where}; there is nothing to reconstruct")
    found = pattern(energy.points, mask=mask, coarse=quantised(z) and not punctured(z, energy.points))
    rows = row_mask(mask)
    if rows is not None or (mask is None and along_rows(found.held)):
        side = turned(KSpace(z, np.ones(z.shape[-1], dtype=bool), header, truth), mask=rows)
        told = replace(side.header, notes=(*header.notes, NOTE))
        return finish(side.z, told, mask=rows, truth=side.truth, given=given)
    if mask is not None:
        check_stored(found, mask)
    check_slices(energy.slices, found.held)
    check_one_mask(slice_lines(energy.lines, found.held.columns), found, known=mask is not None)
    check_coils(z, found.held)
    check_scale(z)
    warnings: tuple[str, ...] = ()
    if given.mask is not None and not found.mask.all():
        chosen, notes, warnings = overruled(found, given.mask, energy.points)
        found = replace(found, mask=chosen, notes=found.notes + notes)
    if not found.mask.all():
        z[..., ~found.mask] = 0
    warnings += lost_warnings(found, energy.points) + rolled_warnings(z)
    return KSpace(z=z, mask=found.mask, header=_told(header, found, warnings), truth=truth)


def _told(header: Header, found: Pattern, warnings: tuple[str, ...]) -> Header:
    """With what was found, none of it twice."""
    notes = dict.fromkeys(header.notes + found.notes)
    return replace(header, notes=tuple(notes), warnings=header.warnings + warnings, encoded=found.encoded)


def check_one_mask(lines: NDArray[np.bool_], found: Pattern, *, known: bool) -> None:
    """Every slice and coil with any signal holds the same columns: lines (slices, Q, W).

    known: the mask was said by the file: then zero padding may differ.
    """
    mask = found.mask if found.mask.ndim == 1 and (known or found.mask.all()) else None
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


def check_scale(z: NDArray[np.complex64]) -> None:
    """Squares of the values, their sums and small parts stay within single precision."""
    peak = max(float(max(np.abs(part.real).max(), np.abs(part.imag).max())) for part in z)
    if not SMALLEST <= peak <= LARGEST:
        raise DataError(
            f"the largest value of k-space is {peak:.3g}, expected one from {SMALLEST:g} to {LARGEST:g}, "
            "which single precision can square; multiply the data by a constant"
        )


def sampling_pattern(lines: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], tuple[str, ...]]:
    """(mask, notes) from the columns that hold signal: all are acquired where the empty ones are zero padding alone."""
    found = extent(lines)
    return np.ones_like(lines) if found.complete else lines, (found.note,) if found.note else ()
