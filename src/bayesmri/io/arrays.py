"""NumPy `.npy` and `.npz`: complex k-space (H, W), (coils, H, W) of one slice, (slices, coils, H, W), or as is said."""

import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from bayesmri.errors import FormatError
from bayesmri.io.guard import byte_budget, check_bytes, damaged_as_format_error, one_line, regular_file
from bayesmri.io.layout.array import kspace_of_array
from bayesmri.io.layout.given import NOTHING, Given
from bayesmri.io.layout.numbers import is_number
from bayesmri.kspace import KSpace


def read_npy(path: Path, *, budget: int | None = None, given: Given = NOTHING) -> KSpace:
    """One complex array; three axes mean (coils, H, W) of a single slice unless the user says otherwise."""
    stored = regular_file(path)
    with damaged_as_format_error(path), path.open("rb") as stream:
        array = read_array(stream, one_line(path.name), length=stored, stored=stored, budget=byte_budget(budget))
    return kspace_of_array(array, source="NumPy npy", name=one_line(path.name), given=given)


def read_npz(path: Path, *, budget: int | None = None, given: Given = NOTHING) -> KSpace:
    """`kspace` and, where present, `mask`; or a single array, whatever its name."""
    regular_file(path)
    limit = byte_budget(budget)
    with damaged_as_format_error(path), zipfile.ZipFile(path) as archive:
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        key = "kspace" if "kspace" in members else next(iter(members)) if len(members) == 1 else None
        if key is None:
            found = one_line(", ".join(members) or "nothing", limit=120)
            raise FormatError(f"{one_line(path)} holds {found}, expected an array named `kspace`, or one array alone")
        array = _member(archive, members[key], limit)
        mask = _member(archive, members["mask"], limit) if "mask" in members and key != "mask" else None
    name = f"`{one_line(key)}` in {one_line(path.name)}"
    return kspace_of_array(array, mask=mask, source="NumPy npz", name=name, given=given)


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, budget: int) -> NDArray[Any]:
    name = f"`{one_line(info.filename)}`"
    check_bytes(name, (info.file_size,), 1, stored=info.compress_size, budget=budget)
    with archive.open(info) as stream:
        array = read_array(stream, name, length=info.file_size, stored=info.compress_size, budget=budget)
        stream.read(1)  # reaches the end, where the checksum is compared
    return array


def read_header(stream: IO[bytes], name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """(shape, whether in Fortran's order, dtype) of an npy stream, which then stands at the values."""
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(stream)
    if version == (2, 0):
        return np.lib.format.read_array_header_2_0(stream)
    raise FormatError(f"{name} is of npy version {version}, expected 1.0 or 2.0, as np.save writes for numbers")


def read_array(stream: IO[bytes], name: str, *, length: int, stored: int, budget: int) -> NDArray[Any]:
    """The array behind an npy header, whose shape and dtype are checked first; pickled objects never."""
    shape, fortran, dtype = read_header(stream, name)
    if dtype.kind != "b" and not is_number(dtype):
        raise FormatError(f"{name} has dtype {one_line(dtype, limit=60)}, expected complex64 or complex128 k-space")
    claimed = check_bytes(name, shape, dtype.itemsize, stored=stored, budget=budget)
    rest = length - stream.tell()
    if rest != claimed:
        raise FormatError(
            f"{name} is damaged or truncated: shape {shape} of {dtype} needs {claimed} bytes, {rest} are there"
        )
    flat = np.frombuffer(bytearray(stream.read(claimed)), dtype=dtype)
    return flat.reshape(shape, order="F" if fortran else "C")
