"""NIfTI-1 and -2, plain or gzipped: magnitude volumes with their affine."""

import gzip
import zlib
from pathlib import Path
from typing import IO, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from bayesmri.errors import FormatError
from bayesmri.io.geometry import usable_affine, usable_voxel, voxel_sizes
from bayesmri.io.guard import byte_budget, check_bytes, damaged_as_format_error, one_line, regular_file
from bayesmri.io.images import as_images
from bayesmri.kspace import Header, Images

GZIP = b"\x1f\x8b"
MAX_TAIL = 16 * 2**20
MILLIMETRES = {"meter": 1000.0, "micron": 0.001}


def nifti_version(start: bytes) -> int | None:
    """1 or 2 for the first 352 bytes of a (decompressed) NIfTI file, else None."""
    for size in (int.from_bytes(start[:4], "little"), int.from_bytes(start[:4], "big")):
        if size == 348 and start[344:348] in (b"n+1\0", b"ni1\0"):
            return 1
        if size == 540 and start[4:8] in (b"n+2\0", b"ni2\0"):
            return 2
    return None


def nifti_start(path: Path) -> bytes:
    """The first 352 bytes, decompressed where the file is gzipped; b"" where that fails."""
    try:
        with open_plain(path) as stream:
            return stream.read(352)
    except (OSError, EOFError, ValueError, zlib.error):
        return b""


def open_plain(path: Path) -> IO[bytes]:
    with path.open("rb") as stream:
        zipped = stream.read(2) == GZIP
    return cast(IO[bytes], gzip.open(path, "rb")) if zipped else path.open("rb")


def read_nifti(path: Path, *, budget: int | None = None) -> Images:
    """Stored axes (i, j, k) become slice = k, h = J − 1 − j, w = i: rows run down and columns right, as in DICOM."""
    import nibabel  # it costs 0.4 s, which other formats need not pay
    from nibabel.imageglobals import LoggingOutputSuppressor

    stored = regular_file(path)
    start = nifti_start(path)
    version = nifti_version(start)
    if version is None:
        raise FormatError(f"{one_line(path)} is no NIfTI file or is truncated")
    if b"i" in (start[345:346] if version == 1 else start[5:6]):
        raise FormatError(
            f"{one_line(path)} is half of a NIfTI pair (.hdr/.img), expected a single .nii or .nii.gz file"
        )
    _check_offset(start, version, one_line(path))
    kind = nibabel.Nifti1Image if version == 1 else nibabel.Nifti2Image
    with damaged_as_format_error(path), LoggingOutputSuppressor(), open_plain(path) as stream:
        image = kind.from_stream(stream)
        shape = tuple(int(n) for n in image.shape)
        dtype = image.get_data_dtype()
        if dtype.kind not in "uifc" or dtype.itemsize > 16:
            raise FormatError(
                f"{one_line(path)} has dtype {one_line(dtype, limit=60)}, expected a grey-scale image of numbers"
            )
        check_bytes(one_line(path.name), shape, dtype.itemsize, stored=stored, budget=byte_budget(budget))
        volume, notes = _first_volume(image, shape)
        if len(stream.read(MAX_TAIL)) == MAX_TAIL:  # the end of a gzip stream holds the checksum
            notes = (*notes, "the file goes on after the image")
        header = _header(image, version, shape, notes)
    if volume.dtype.kind == "c":
        volume = np.abs(volume)
    return as_images(volume[:, ::-1].transpose(2, 1, 0), header)


def _check_offset(start: bytes, version: int, shown: str) -> None:
    """What lies before the image is read or skipped, unpacked: no more than anybody writes there."""
    order: Literal["little", "big"] = "little" if start[0] in (348 % 256, 540 % 256) else "big"
    if version == 1:
        begin = float(np.frombuffer(start[108:112], "<f4" if order == "little" else ">f4")[0])
    else:
        begin = float(int.from_bytes(start[168:176], order, signed=True))
    if not 0 <= begin <= MAX_TAIL:
        raise FormatError(f"{shown} has its image {begin:g} bytes after its start, expected at most {MAX_TAIL}")


def _first_volume(image: Any, shape: tuple[int, ...]) -> tuple[NDArray[Any], tuple[str, ...]]:
    if len(shape) < 2:
        raise FormatError(
            f"the NIfTI image has shape {shape}, expected 2, 3 or 4 axes (columns, rows, slices, volumes)"
        )
    if len(shape) == 2:
        return np.asarray(image.dataobj)[:, :, None], ()
    extra = shape[3:]
    if 0 in shape:
        raise FormatError(f"the NIfTI image has shape {shape}: an axis is empty")
    notes = (f"of {int(np.prod(extra))} volumes the first was taken",) if np.prod(extra, initial=1) > 1 else ()
    if image.get_data_dtype().kind == "c":
        notes = (*notes, "the complex image was read as its magnitude")
    return np.asarray(image.dataobj[(slice(None),) * 3 + (0,) * len(extra)]), notes


def _header(image: Any, version: int, shape: tuple[int, ...], notes: tuple[str, ...]) -> Header:
    info = image.header
    unit = MILLIMETRES.get(info.get_xyzt_units()[0], 1.0)
    zooms = [abs(float(n)) * unit for n in info.get_zooms()[:3]] + [1.0] * max(0, 3 - len(shape))
    affine = None
    known = int(info["sform_code"]) > 0 or int(info["qform_code"]) > 0
    stored = np.asarray(image.affine, dtype=np.float64)
    if known and usable_affine(stored):
        affine = np.diag([unit, unit, unit, 1.0]) @ stored @ index_map(shape[1])
    elif known:
        notes = (*notes, "the affine of the file is singular and was left out")
    voxel = (zooms[1], zooms[0], zooms[2])
    if affine is None and not usable_voxel(voxel):
        return Header(source=f"NIfTI-{version}", notes=(*notes, "the voxel sizes of the file are not positive"))
    words = one_line(bytes(info["descrip"].tobytes()).rstrip(b"\0").decode("latin-1"), limit=80)
    return Header(
        source=f"NIfTI-{version}",
        affine=affine,
        voxel_mm=voxel if affine is None else voxel_sizes(affine),
        facts={"description": words} if words else {},
        notes=notes,
    )


def index_map(J: int) -> NDArray[np.float64]:
    """(h, w, slice, 1) → (i, j, k, 1) with i = w, j = J − 1 − h, k = slice."""
    return np.array([[0, 1, 0, 0], [-1, 0, 0, J - 1], [0, 0, 1, 0], [0, 0, 0, 1]], dtype=np.float64)
