"""BART `.cfl/.hdr`: a text header of dimensions and column-major complex64."""

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bayesmri.errors import DataError, FormatError
from bayesmri.io.acquired import finish
from bayesmri.io.guard import byte_budget, check_bytes, damaged_as_format_error, one_line, regular_file, sizes
from bayesmri.io.layout.array import checked
from bayesmri.io.layout.axes import Arranged, arrange
from bayesmri.io.layout.bart_axes import check_dimensions
from bayesmri.io.layout.given import NOTHING, Given
from bayesmri.io.safe_h5 import to_complex64
from bayesmri.io.three_d import looks_like_slices, slices_of_3d
from bayesmri.kspace import Header, KSpace

READ, PHASE1, PHASE2, COIL, MAPS, SLICE, AVG = 0, 1, 2, 3, 4, 13, 14
AXES = 16
MARK = b"# Dimensions"
MAX_HEADER = 2**20


def cfl_pair(path: Path) -> tuple[Path, Path] | None:
    """(header, data) where `path` is either of the pair or their common name, and the header reads like BART's."""
    base = str(path)
    if path.suffix in (".cfl", ".hdr"):
        base = base[:-4]
    header, data = Path(base + ".hdr"), Path(base + ".cfl")
    try:
        if not header.is_file():  # a pipe would block
            return None
        with header.open("rb") as file:
            return (header, data) if MARK in file.read(4096) else None
    except (OSError, ValueError):
        return None


def read_cfl(path: Path, *, budget: int | None = None, given: Given = NOTHING) -> KSpace:
    """Dimensions (read, phase1, 1, coils) with slices in dimension 13 become (slices, Q, H = read, W = phase1).

    3-D, (read, phase1, phase2, coils), becomes (slices = read, Q, H = phase1, W = phase2): see `three_d`.
    """
    array, dims = _read(path, budget)
    if given.axes is None:
        _refuse_other_layouts(path, dims)
        check_dimensions(array)
        found = Arranged(*_to_slices(array))
    else:
        found = arrange(array, given.axes)
    warnings = _doubts(array) if given.axes is None else ()
    try:
        found = checked(found, given)
    except DataError as error:
        raise DataError(warnings[0]) if warnings else error from None
    facts = {"BART dimensions": sizes(dims[: _last_used(dims) + 1])}
    header = Header(source="BART cfl", facts=facts, notes=found.notes, warnings=warnings)
    return finish(found.z, header, given=given)


def read_maps(path: Path, *, budget: int | None = None) -> NDArray[np.complex64]:
    """Sensitivities as `bart ecalib` writes them, (read, phase1, 1, coils, sets): (slices, sets, Q, H, W).

    3-D ones, (read, phase1, phase2, coils, sets), are of the slices that the readout makes.
    """
    array, dims = _read(path, budget)
    others = [a for a in range(AXES) if a not in (READ, PHASE1, PHASE2, COIL, MAPS, SLICE) and dims[a] > 1]
    if others or (dims[PHASE2] > 1 and dims[SLICE] > 1):
        raise FormatError(
            f"got sensitivities of BART dimensions {sizes(dims)} in {one_line(path)}, expected (read, phase, 1, coils, "
            "sets) and slices in dimension 13"
        )
    keep = (READ, PHASE1, PHASE2, COIL, MAPS, SLICE)
    part = array[tuple(slice(None) if a in keep else 0 for a in range(AXES))]
    if part.shape[PHASE2] > 1:
        return to_complex64(part[..., 0].transpose(0, 4, 3, 1, 2))
    return to_complex64(part[:, :, 0].transpose(4, 3, 2, 0, 1))


def _read(path: Path, budget: int | None) -> tuple[NDArray[np.complex64], tuple[int, ...]]:
    """The array of a pair, all of BART's dimensions, checked before it is read."""
    pair = cfl_pair(path)
    if pair is None:
        raise FormatError(f"{one_line(path)} is no BART file, expected a pair NAME.hdr and NAME.cfl")
    header, data = pair
    dims = _dimensions(header)
    stored = regular_file(data)
    claimed = check_bytes(one_line(data.name), dims, 8, stored=stored, budget=byte_budget(budget))
    if stored != claimed:
        raise FormatError(
            f"{one_line(data)} is damaged or truncated: {header.name} claims {sizes(dims)} values = {claimed} bytes, "
            f"but {stored} are stored"
        )
    if math.prod(dims) == 0:
        raise FormatError(
            f"{one_line(path)} has BART dimensions {sizes(dims)}: an axis is empty, there is nothing to reconstruct"
        )
    with damaged_as_format_error(data):
        return np.fromfile(data, dtype="<c8").reshape(dims, order="F"), dims


def _dimensions(header: Path) -> tuple[int, ...]:
    if regular_file(header) > MAX_HEADER:
        raise FormatError(f"{one_line(header)} is larger than 1 MB, expected a BART header of a few lines")
    with damaged_as_format_error(header):
        lines = header.read_text("ascii", "replace").splitlines()
    marked = [i for i, line in enumerate(lines) if line.strip() == MARK.decode()]
    words = lines[marked[0] + 1].split() if marked and marked[0] + 1 < len(lines) else []
    plain = all(word.isascii() and word.isdecimal() and len(word) < 16 for word in words)
    if not words or len(words) > AXES or not plain:
        raise FormatError(
            f"{one_line(header)} is damaged, expected up to {AXES} positive integers after '# Dimensions'"
        )
    return tuple(int(word) for word in words) + (1,) * (AXES - len(words))


def _refuse_other_layouts(path: Path, dims: tuple[int, ...]) -> None:
    name = one_line(path)
    if dims[PHASE2] > 1 and dims[SLICE] > 1:
        raise FormatError(
            f"{name} has {dims[PHASE2]} steps in BART's dimension 2 (3-D) and {dims[SLICE]} slices in dimension 13, "
            "expected one of them; take one slab: `bart slice 13 0 IN OUT`"
        )
    if dims[READ] == 1:
        raise FormatError(
            f"{name} has BART's readout dimension 0 of length 1 (non-Cartesian or already transformed), "
            "expected Cartesian k-space (read, phase, 1, coils)"
        )
    if dims[MAPS] > 1:
        raise FormatError(f"{name} has {dims[MAPS]} maps in BART's dimension 4 (coil sensitivities?), expected k-space")


def _to_slices(array: NDArray[np.complex64]) -> tuple[NDArray[np.complex64], tuple[str, ...]]:
    """(slices, Q, H, W) and notes: averages are averaged, of every further axis the first entry is taken."""
    notes = []
    if array.shape[AVG] > 1:
        notes.append(f"{array.shape[AVG]} averages (BART dimension {AVG}) were averaged")
    others = [a for a in range(AXES) if a not in (READ, PHASE1, PHASE2, COIL, SLICE, AVG) and array.shape[a] > 1]
    notes += [f"of the {array.shape[a]} entries along BART dimension {a} the first was taken" for a in others]
    keep = (READ, PHASE1, PHASE2, COIL, SLICE, AVG)
    part = array[tuple(slice(None) if a in keep else 0 for a in range(AXES))]
    with np.errstate(over="ignore", invalid="ignore"):  # Inf and NaN pass through to check_finite
        mean = part.mean(axis=5)
    if mean.shape[PHASE2] == 1:
        return to_complex64(mean[:, :, 0].transpose(3, 2, 0, 1)), tuple(notes)
    notes.append(
        f"3-D: the readout of {mean.shape[READ]} was transformed, which makes as many slices of "
        f"{mean.shape[PHASE1]} x {mean.shape[PHASE2]} (phase encodings, BART dimensions 1 and 2)"
    )
    return slices_of_3d(to_complex64(mean[..., 0].transpose(3, 0, 1, 2))), tuple(notes)


def _doubts(array: NDArray[np.complex64]) -> tuple[str, ...]:
    """A sentence where slices seem to lie in the place of the second phase encoding."""
    k = array[(slice(None),) * 4 + (0,) * (AXES - 4)].transpose(3, 0, 1, 2)
    if array.shape[PHASE2] == 1 or not looks_like_slices(k):
        return ()
    return (
        f"the {array.shape[PHASE2]} entries of BART's dimension 2 were read as a second phase encoding (3-D) and look "
        "like slices; if they are: `bart transpose 2 13 IN OUT`",
    )


def _last_used(dims: tuple[int, ...]) -> int:
    return max((i for i, n in enumerate(dims) if n > 1), default=0)
