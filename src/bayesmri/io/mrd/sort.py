"""Acquisitions as k-space: lines chosen, prewhitened, placed, averaged; with the coils' reference and geometry."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bayesmri.errors import DataError, FormatError
from bayesmri.io.acquired import check_scale, finish
from bayesmri.io.ismrmrd_xml import Encoding
from bayesmri.io.layout.turn import NOTE, turned
from bayesmri.io.mrd.choice import FIRST, Choice, separate
from bayesmri.io.mrd.fill import Shape, fill, shape_of
from bayesmri.io.mrd.geometry import described
from bayesmri.io.mrd.grid import Placing, encoded_grid, place
from bayesmri.io.mrd.noise import Whitening, read_whitening
from bayesmri.io.mrd.sampled import sampled
from bayesmri.io.mrd.source import Acquisitions, Ints
from bayesmri.io.mrd.table import Lines, imaging_lines, reference_lines
from bayesmri.io.mrd.trajectory import straight_lines
from bayesmri.kspace import KSpace, check_finite
from bayesmri.messages import Messages, noted, warned

Complex = NDArray[np.complex64]
LARGEST = 1e15  # beyond, squares leave single precision


@dataclass(frozen=True, eq=False)
class Sorted:
    """k-space, the lines that it was made of, and where they went."""

    kspace: KSpace
    lines: Lines
    placing: Placing


def sort_lines(
    source: Acquisitions, encoding: Encoding, *, budget: int | None = None, choice: Choice = FIRST
) -> Sorted:
    """z (slices, Q, H, W): the steps `center` land on the middle of their axes, and so does the echo.

    2-D: H is the readout, W the phase encoding. 3-D: slices lie along the readout, H and W are the phase encodings.
    """
    lines = imaging_lines(source, calibration=encoding.calibration, choice=choice)
    said = lines.said + straight_lines(source, lines)
    grid, more = encoded_grid(encoding, lines)
    placing, told = place(lines, encoding, grid)
    shape = shape_of(lines, placing, budget)
    whitening, measured = read_whitening(source, lines, encoding, wanted=choice.prewhiten)
    filled = fill(source, lines, placing, shape, whitening)
    reference, of_coils = _reference(source, encoding, placing, shape, whitening, choice)
    check_finite("k-space", filled.z)
    mask, missing = sampled(filled, grid)
    said += measured + more + told + of_coils + missing
    header = described(encoding, lines, placing, said)
    if mask.ndim == 1:
        return Sorted(replace(finish(filled.z, header, mask=mask), reference=reference), lines, placing)
    check_scale(filled.z)
    kspace = KSpace(z=filled.z, mask=mask, header=header, reference=reference)
    return Sorted(by_lines(kspace) if grid.three_d else kspace, lines, placing)


def by_lines(kspace: KSpace) -> KSpace:
    """A 3-D scan whose second encoding is complete is turned, and has a mask of columns as if its first were."""
    mask, reference = kspace.mask, kspace.reference
    if mask.ndim == 1 or not (mask == mask[:, :1]).all():
        return kspace
    side = turned(replace(kspace, reference=None), mask=mask[:, 0].copy())
    coils = None if reference is None else np.ascontiguousarray(reference.swapaxes(-1, -2))
    return replace(side, reference=coils, header=replace(side.header, notes=(*side.header.notes, NOTE)))


def _reference(
    source: Acquisitions,
    encoding: Encoding,
    imaging: Placing,
    shape: Shape,
    whitening: Whitening | None,
    choice: Choice,
) -> tuple[Complex | None, Messages]:
    """K-space of separate calibration scans, on the grid of the image, where there are any that fit."""
    n = int(separate(source.head, encoding.calibration).sum())
    if n == 0:
        return None, Messages()
    try:
        lines = reference_lines(source, calibration=encoding.calibration, choice=choice)
        placing, _ = place(lines, encoding, imaging.grid)
        fits = len(placing.slices) == len(imaging.slices) and lines.channels == shape[1]
        if fits and np.array_equal(np.sort(placing.slices), np.sort(imaging.slices)):
            found = _in_order(fill(source, lines, placing, shape, whitening).z, placing, imaging)
            if 0 < np.abs(found).max() < LARGEST:  # NaN is neither
                return found, noted(f"{n} separate calibration lines were read for the sensitivities")
            return None, warned(
                f"separate calibration scans hold nothing, NaN, Inf or huge values and were skipped ({n} lines)"
            )
    except (FormatError, DataError):
        pass
    return None, warned(f"separate calibration scans do not fit the image's grid and were skipped ({n} lines)")


def _in_order(z: Complex, found: Placing, wanted: Placing) -> Complex:
    """Slices in the order of the image, by the file's counters."""
    order: Ints = np.array([int(np.flatnonzero(found.slices == counter)[0]) for counter in wanted.slices])
    if (order == np.arange(len(order))).all():
        return z
    slabs = z.reshape(len(order), -1, *z.shape[1:])
    return slabs[order].reshape(z.shape)
