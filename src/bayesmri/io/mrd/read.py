"""Read an MRD file: its lines chosen, prewhitened, placed, averaged; with the coils' reference and geometry."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from bayesmri.errors import DataError, FormatError
from bayesmri.io.acquired import check_scale, finish
from bayesmri.io.guard import one_line
from bayesmri.io.ismrmrd_xml import Encoding, parse_header
from bayesmri.io.layout.turn import NOTE, turned
from bayesmri.io.mrd.choice import FIRST, Choice, separate
from bayesmri.io.mrd.fill import Shape, fill, shape_of
from bayesmri.io.mrd.geometry import described
from bayesmri.io.mrd.grid import Placing, encoded_grid, place
from bayesmri.io.mrd.noise import Whitening, read_whitening
from bayesmri.io.mrd.sampled import sampled
from bayesmri.io.mrd.table import Ints, imaging_lines, read_heads, reference_lines
from bayesmri.io.mrd.trajectory import check_trajectory, straight_lines
from bayesmri.io.safe_h5 import member, names, open_h5, read_text, where
from bayesmri.kspace import KSpace, check_finite
from bayesmri.messages import Messages, noted, warned

Complex = NDArray[np.complex64]
LARGEST = 1e15  # beyond, squares leave single precision


def mrd_group(file: Any) -> str | None:
    """The top-level group that holds `xml` and `data`; None where there is none."""
    found = [name for name in names(file) if _is_mrd(file, name)]
    if len(found) > 1 and "dataset" not in found:
        raise FormatError(
            f"the MRD file holds the groups {one_line(', '.join(found))}, expected one group; split it with h5copy"
        )
    return "dataset" if "dataset" in found else found[0] if found else None


def read_mrd(path: Path, *, budget: int | None = None, choice: Choice = FIRST) -> KSpace:
    """z (slices, Q, H, W): the steps `center` land on the middle of their axes, and so does the echo.

    2-D: H is the readout, W the phase encoding. 3-D: slices lie along the readout, H and W are the phase encodings.
    """
    with open_h5(path) as file:
        name = mrd_group(file)
        if name is None:
            raise FormatError(f"{one_line(path)} is no MRD file, expected a group with `xml` and `data`")
        group = member(file, name)
        encoding = parse_header(read_text(group, "xml"), name=where(group, "xml"))
        check_trajectory(encoding)
        head = read_heads(group, budget=budget)
        lines = imaging_lines(group, head, calibration=encoding.calibration, choice=choice)
        said = lines.said + straight_lines(group, head, lines)
        grid, more = encoded_grid(encoding, lines)
        placing, told = place(lines, encoding, grid)
        shape = shape_of(lines, placing, budget)
        whitening, measured = read_whitening(group, head, lines, encoding, wanted=choice.prewhiten)
        filled = fill(group, lines, placing, shape, whitening)
        reference, of_coils = _reference(group, head, encoding, placing, shape, whitening, choice)
    check_finite("k-space", filled.z)
    mask, missing = sampled(filled, grid)
    said += measured + more + told + of_coils + missing
    header = described(encoding, lines, placing, said)
    if mask.ndim == 1:
        return replace(finish(filled.z, header, mask=mask), reference=reference)
    check_scale(filled.z)
    kspace = KSpace(z=filled.z, mask=mask, header=header, reference=reference)
    return by_lines(kspace) if grid.three_d else kspace


def by_lines(kspace: KSpace) -> KSpace:
    """A 3-D scan whose second encoding is complete is turned, and has a mask of columns as if its first were."""
    mask, reference = kspace.mask, kspace.reference
    if mask.ndim == 1 or not (mask == mask[:, :1]).all():
        return kspace
    side = turned(replace(kspace, reference=None), mask=mask[:, 0].copy())
    coils = None if reference is None else np.ascontiguousarray(reference.swapaxes(-1, -2))
    return replace(side, reference=coils, header=replace(side.header, notes=(*side.header.notes, NOTE)))


def _reference(
    group: Any,
    head: NDArray[Any],
    encoding: Encoding,
    imaging: Placing,
    shape: Shape,
    whitening: Whitening | None,
    choice: Choice,
) -> tuple[Complex | None, Messages]:
    """K-space of separate calibration scans, on the grid of the image, where there are any that fit."""
    n = int(separate(head, encoding.calibration).sum())
    if n == 0:
        return None, Messages()
    try:
        lines = reference_lines(head, calibration=encoding.calibration, choice=choice)
        placing, _ = place(lines, encoding, imaging.grid)
        fits = len(placing.slices) == len(imaging.slices) and lines.channels == shape[1]
        if fits and np.array_equal(np.sort(placing.slices), np.sort(imaging.slices)):
            found = _in_order(fill(group, lines, placing, shape, whitening).z, placing, imaging)
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


def _is_mrd(file: Any, name: str) -> bool:
    hard = isinstance(file.get(name, getlink=True), h5py.HardLink)
    group = file[name] if hard else None
    return isinstance(group, h5py.Group) and {"xml", "data"} <= set(names(group))
