"""Which lines or points were acquired, along which axis, and on which part of the grid."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayesmri.errors import MaskError
from bayesmri.io.layout.energy import Held, Real, held, held_lines, point_threshold
from bayesmri.io.layout.extent import Extent, extent, lacks

Bool = NDArray[np.bool_]
Window = tuple[int, int, int, int]

LOST = 8  # points: fewer zeros may be chance
SCATTERED = 0.1  # of the points: so many zeros between measured ones are no accident of rounding


@dataclass(frozen=True)
class Pattern:
    """mask: acquired columns (W,) or points (H, W); all of them where the rest is zero padding.

    held: where there is more than rounding noise. encoded: rows and columns of the encoded part, None for the whole.
    """

    mask: Bool
    held: Held
    encoded: Window | None
    notes: tuple[str, ...]


def along_rows(found: Held) -> bool:
    """Whether whole rows are missing between others, and columns are not."""
    return _holes(found.rows) > 0 and _holes(found.columns) == 0 and not scattered(found)


def pattern(p: Real, *, mask: Bool | None = None, coarse: bool = False) -> Pattern:
    """Of the power (H, W). mask: lines or points that are said to be acquired; then only the extent is found."""
    found = held(p, coarse=coarse)
    rows = extent(found.rows, lines="rows", edges=("upper", "lower"))
    columns = extent(found.columns, near=rows.stop - rows.start if rows.padded else 0)
    window = (rows.start, rows.stop, columns.start, columns.stop)
    notes = (*rounding_notes(found, rows, columns), *extent_notes(rows, columns))
    if mask is None:
        mask = _decided(found, rows, columns)
        if mask.ndim == 2:
            share = f"{100 * mask.mean():.3g} % of the points"
            notes += (f"{share} of k-space were found to be acquired: undersampled along two axes",)
    return Pattern(mask, found, window if rows.padded or columns.padded else None, notes)


def _decided(found: Held, rows: Extent, columns: Extent) -> Bool:
    if scattered(found):
        return found.points
    if _holes(found.rows) and _holes(found.columns):
        outer: Bool = found.rows[:, None] & found.columns
        return outer
    return np.ones_like(found.columns) if columns.complete else found.columns


def scattered(found: Held) -> bool:
    """Whether many zeros lie between measured points of a column; rows that are empty everywhere do not count."""
    box = found.points[found.rows][:, found.columns]
    between = np.logical_or.accumulate(box) & np.logical_or.accumulate(box[::-1])[::-1]
    return int((between & ~box).sum()) > SCATTERED * int(between.sum())


def lost_warnings(found: Pattern, p: Real) -> tuple[str, ...]:
    """Exact zeros between measured points of acquired lines; p: the power (H, W) of all slices and coils."""
    if found.mask.ndim == 2 or found.held.quantised:
        return ()
    box = p[found.held.rows][:, found.held.columns & found.mask] > 0
    between = np.zeros_like(box)
    for one in (box, box.T):
        inside = np.logical_or.accumulate(one) & np.logical_or.accumulate(one[::-1])[::-1]
        between |= inside if one is box else inside.T
    n = int((between & ~box).sum())
    if n < LOST:
        return ()
    return (f"{n} points between measured ones hold exactly zero (lost samples?) and were taken as measured",)


def rounding_notes(found: Held, rows: Extent, columns: Extent) -> tuple[str, ...]:
    """Lines that hold rounding noise, which were taken as not acquired; a few at the edges are not worth a word."""
    notes = []
    for lines, floor, name, edges in (
        (found.columns, found.column_floor, "lines", columns),
        (found.rows, found.row_floor, "rows", rows),
    ):
        if floor and (edges.padded or not edges.complete):
            R = (edges.stop - edges.start) / lines.sum()
            notes.append(
                f"{int((~lines).sum())} of {lines.size} {name} hold only rounding noise ({_decade(floor)} of the rest) "
                f"and were taken as not acquired" + (f": R = {R:.3g}" if _holes(lines) else "")
            )
    return tuple(notes)


def extent_notes(rows: Extent, columns: Extent) -> tuple[str, ...]:
    """Rows that one edge alone lacks are an asymmetric echo."""
    said = rows.note.replace("partial Fourier", "an asymmetric echo")
    return tuple(note for note in (columns.note, said) if note)


def check_slices(amplitude: NDArray[np.float32], found: Held) -> None:
    """Points that some slices hold are held by all that have any signal. amplitude: (slices, H, W)."""
    if found.quantised:
        return
    for s, a in enumerate(amplitude):
        if not a.any():
            continue
        held = found.points & (a > point_threshold(a[a > 0].astype(np.float64)))
        rows = held.any(axis=1)
        between = np.logical_or.accumulate(held) & np.logical_or.accumulate(held[::-1])[::-1] & rows[:, None]
        lacking = int((between & found.points & ~held).sum())
        if lacking > SCATTERED * int((between & found.points).sum()):
            raise MaskError(
                f"slice {s} lacks {lacking} points of k-space that other slices hold, expected one mask for all slices "
                "and coils; split the file by its masks"
            )


def check_coils(z: NDArray[np.complex64], found: Held) -> None:
    """Points that some coils hold are held by all that have any signal; rounding noise is told in the middle slice."""
    if found.quantised:
        return
    n, middle = int(found.points.sum()), len(z) // 2
    for s, q in np.ndindex(z.shape[:2]):
        a = np.abs(z[s, q])
        least = point_threshold(a[a > 0].astype(np.float64)) if s == middle and a.any() else 0.0
        held = a > least
        rows, columns = (_span(np.asarray(held.any(axis=axis))) for axis in (1, 0))
        inside = rows[:, None] & columns  # zero padding may differ
        lacking = int((found.points & ~held & inside).sum())
        if SCATTERED * n < lacking and a.any():
            raise MaskError(
                f"slice {s}, coil {q} lacks {lacking} of {n} points of k-space that other coils or slices hold, "
                "expected one mask for all slices and coils; split the file by its masks"
            )


def _span(held: Bool) -> Bool:
    """From the first that is held to the last."""
    return np.asarray(np.logical_or.accumulate(held) & np.logical_or.accumulate(held[::-1])[::-1])


def slice_lines(lines: Real, columns: Bool) -> Bool:
    """Which lines hold more than rounding noise in each slice and coil: of their power (slices, Q, W)."""
    found = (lines > 0) & columns
    for s, part in enumerate(lines):
        above, floor = held_lines(np.sqrt(part.sum(axis=0)))
        if floor and lacks(above, columns):  # zero padding may differ
            found[s] &= above
    return found


def _holes(lines: Bool) -> int:
    """How many lines are missing between others."""
    there = np.flatnonzero(lines)
    return 0 if not len(there) else int(there[-1] - there[0] + 1 - len(there))


def _decade(floor: float) -> str:
    return f"1e{round(float(np.log10(floor)))}"
