"""NumPy `.npy` and `.npz`: complex k-space (H, W), (coils, H, W) of one slice, or (slices, coils, H, W)."""

import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from bayesmri.errors import FormatError
from bayesmri.io.acquired import as_slices, finish, mask_from_file
from bayesmri.io.guard import byte_budget, check_bytes, damaged_as_format_error, one_line, regular_file
from bayesmri.io.safe_h5 import to_complex64
from bayesmri.kspace import Header, KSpace


def read_npy(path: Path, *, budget: int | None = None) -> KSpace:
    """One complex array; three axes mean (coils, H, W) of a single slice."""
    stored = regular_file(path)
    with damaged_as_format_error(path), path.open("rb") as stream:
        array = read_array(stream, one_line(path.name), length=stored, stored=stored, budget=byte_budget(budget))
    return _kspace(array, None, source="NumPy npy", name=one_line(path.name))


def read_npz(path: Path, *, budget: int | None = None) -> KSpace:
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
    return _kspace(array, mask, source="NumPy npz", name=f"`{one_line(key)}` in {one_line(path.name)}")


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
    if dtype.kind not in "buifc":
        raise FormatError(f"{name} has dtype {one_line(dtype, limit=60)}, expected complex64 or complex128 k-space")
    claimed = check_bytes(name, shape, dtype.itemsize, stored=stored, budget=budget)
    rest = length - stream.tell()
    if rest != claimed:
        raise FormatError(
            f"{name} is damaged or truncated: shape {shape} of {dtype} needs {claimed} bytes, {rest} are there"
        )
    flat = np.frombuffer(bytearray(stream.read(claimed)), dtype=dtype)
    return flat.reshape(shape, order="F" if fortran else "C")


def _kspace(array: NDArray[Any], mask: NDArray[Any] | None, *, source: str, name: str) -> KSpace:
    if array.dtype.kind != "c" or array.dtype.itemsize not in (8, 16):
        raise FormatError(
            f"{name} has dtype {array.dtype}, expected complex64 or complex128 k-space (re + 1j * im); "
            "magnitude images are read from NIfTI, DICOM or an `image` HDF5"
        )
    notes = ("three axes were read as (coils, H, W) of one slice",) if array.ndim == 3 else ()
    z = as_slices(to_complex64(array), three="coils")
    pattern = None if mask is None else mask_from_file(mask, z.shape[-1])
    return finish(z, Header(source=source, notes=notes), mask=pattern)
