"""Open any file by its content: k-space (fastMRI, MRD, BART, NumPy) or magnitude images (HDF5, NIfTI, DICOM)."""

from collections.abc import Callable, Iterator
from pathlib import Path

from bayesmri.errors import FormatError
from bayesmri.io.apart.reading import reading
from bayesmri.io.arrays import read_npy, read_npz
from bayesmri.io.cfl import cfl_pair, read_cfl
from bayesmri.io.dicom import read_dicom
from bayesmri.io.dicom_frames import dicom_files, is_dicom
from bayesmri.io.fastmri import read_fastmri
from bayesmri.io.guard import is_folder, one_line, regular_file
from bayesmri.io.images import read_images_h5
from bayesmri.io.inputs import input_files
from bayesmri.io.layout.given import NOTHING, Given
from bayesmri.io.mrd.choice import FIRST, Choice
from bayesmri.io.mrd.read import mrd_group, read_mrd
from bayesmri.io.nifti import nifti_start, nifti_version, read_nifti
from bayesmri.io.safe_h5 import names, open_h5
from bayesmri.kspace import Images, KSpace

HDF5 = b"\x89HDF\r\n\x1a\n"
KSPACE: dict[str, Callable[..., KSpace]] = {
    "fastmri": read_fastmri,
    "mrd": read_mrd,
    "cfl": read_cfl,
    "npy": read_npy,
    "npz": read_npz,
}
IMAGES: dict[str, Callable[..., Images]] = {
    "images-h5": read_images_h5,
    "nifti": read_nifti,
    "dicom": read_dicom,
}
KNOWN = (
    "k-space as fastMRI HDF5 (`kspace`), ISMRMRD/MRD HDF5, BART .cfl/.hdr or NumPy .npy/.npz, "
    "or images as HDF5 (`image`), NIfTI or DICOM"
)


def sniff(path: Path | str) -> str:
    """The format of `path`, from its content: a key of KSPACE or IMAGES."""
    path = Path(path)
    if cfl_pair(path) is not None:
        return "cfl"
    if is_folder(path):
        return _sniff_folder(path)
    size = regular_file(path)
    if size == 0:
        raise FormatError(f"{one_line(path)} is empty: copy or export it again")
    with path.open("rb") as stream:
        start = stream.read(4096)
    if any(start[offset : offset + 8] == HDF5 for offset in (0, 512, 1024, 2048)):
        return _sniff_hdf5(path)
    if start.startswith(b"\x93NUMPY"):
        return "npy"
    if start.startswith(b"PK\x03\x04"):
        return "npz"
    if start[128:132] == b"DICM":
        return "dicom"
    if nifti_version(nifti_start(path)) is not None:
        return "nifti"
    raise FormatError(f"{one_line(path)} is of no known format or is damaged, expected {KNOWN}")


def read_kspace(
    path: Path | str, *, budget: int | None = None, choice: Choice = FIRST, given: Given = NOTHING
) -> KSpace:
    """Raw k-space, checked and finite.

    budget: the most bytes one array may claim; BAYESMRI_MAX_BYTES or 8 GiB unless given.
    choice: which of an MRD file's images; refused for other formats.
    given: what the user says of an array; refused for formats that know it themselves.
    """
    kind = sniff(path)
    if kind in IMAGES:
        raise FormatError(
            f"{one_line(path)} holds magnitude images ({kind}), no k-space: "
            "run `bayesmri simulate` first, which makes k-space of them"
        )
    if kind == "mrd":
        given.refused(f"{one_line(path)} ({kind})")
        return read_mrd(Path(path), budget=budget, choice=choice)
    choice.refused(f"{one_line(path)} ({kind})")
    return KSPACE[kind](Path(path), budget=budget, given=given)


def read_images(path: Path | str, *, budget: int | None = None) -> Images:
    """Magnitude images, finite and ≥ 0. budget: as in `read_kspace`."""
    kind = sniff(path)
    if kind in KSPACE:
        raise FormatError(
            f"{one_line(path)} holds k-space ({kind}), expected magnitude images (HDF5 `image`, NIfTI or DICOM)"
        )
    return IMAGES[kind](Path(path), budget=budget)


def read(
    path: Path | str,
    *,
    axes: str | None = None,
    shifted: bool | None = None,
    images: bool | None = None,
    budget: int | None = None,
    repetition: int | None = None,
    contrast: int | None = None,
    phase: int | None = None,
    set: int | None = None,
    prewhiten: bool = True,
    trusted: bool = True,
) -> KSpace | Images:
    """Whatever the file holds.

    axes: what each axis of an array is, such as "slice coil row column", in any order; - for one to drop.
    shifted: its zero frequency lies in the corners. images: it holds complex coil images, to be transformed.
    budget: as in `read_kspace`. repetition, contrast, phase, set: which image of an MRD file, by the file's counters;
    the first unless given. prewhiten: by an MRD file's noise scans, where it has any.
    trusted: read in this process; otherwise in a child process with limits, which a damaged or hostile file may crash.
    """
    choice = Choice(repetition, contrast, phase, set, prewhiten)
    given = Given.of(axes, shifted=shifted, images=images)
    return reading(lambda: read_any(path, budget=budget, choice=choice, given=given), Path(path), trusted=trusted)


def read_any(
    path: Path | str, *, budget: int | None = None, choice: Choice = FIRST, given: Given = NOTHING
) -> KSpace | Images:
    """K-space or images. budget, choice, given: as in `read_kspace`."""
    kind = sniff(path)
    if kind in KSPACE:
        return read_kspace(path, budget=budget, choice=choice, given=given)
    choice.refused(f"{one_line(path)} ({kind})")
    given.refused(f"{one_line(path)} ({kind})")
    return IMAGES[kind](Path(path), budget=budget)


def volume_paths(folder: Path) -> Iterator[Path]:
    """What `read` takes, at any depth: files, one name for a BART pair, one folder for the DICOM slices in it."""
    folders = set()
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and not p.name.startswith(".")):
        if path.suffix == ".hdr" and len(input_files(path)) == 2:
            continue  # the .cfl stands for both
        if not is_dicom(path):
            yield path
        elif path.parent not in folders:
            folders.add(path.parent)
            yield path.parent


def _sniff_folder(path: Path) -> str:
    if any(is_dicom(file) for file in dicom_files(path)):
        return "dicom"
    raise FormatError(
        f"{one_line(path)} is a folder without DICOM files, expected a file or a DICOM folder; known are {KNOWN}"
    )


def _sniff_hdf5(path: Path) -> str:
    with open_h5(path) as file:
        present = names(file)
        if "kspace" in present:
            return "fastmri"
        if mrd_group(file) is not None:
            return "mrd"
        if "image" in present:
            return "images-h5"
    found = one_line(", ".join(present) or "nothing", limit=120)
    hint = "; a `reconstruction` is a result, reconstruct from its k-space file" if "reconstruction" in present else ""
    raise FormatError(f"{one_line(path)} is HDF5 with {found}, expected {KNOWN}{hint}")
