"""What in a file identifies a patient, or may: `bayesmri inspect --privacy`."""

from pathlib import Path
from typing import Any

from bayesmri.io.apart.reading import reading
from bayesmri.io.cfl import cfl_pair
from bayesmri.io.dicom_frames import dicom_files, is_dicom
from bayesmri.io.formats import HDF5
from bayesmri.io.guard import is_folder, one_line, regular_file
from bayesmri.io.nifti import nifti_start, nifti_version
from bayesmri.io.privacy.find_dicom import in_dicom
from bayesmri.io.privacy.find_h5 import in_h5
from bayesmri.io.privacy.find_other import PNG, in_cfl, in_json, in_nifti, in_page, in_png
from bayesmri.io.privacy.finding import Finding, finding

ALWAYS = (
    "the name of the file and of its folders was given by somebody: look at it yourself",
    "images of a head show the face, whatever stands beside them",
)


def privacy(path: Path, *, trusted: bool = True) -> dict[str, Any]:
    """JSON values: the kind of the file, what identifies, what may, and what no program can tell."""
    kind, found = reading(lambda: _found(path), path, trusted=trusted)
    return {
        "file": one_line(path.name),
        "kind": kind,
        "findings": [one.as_json() for one in found],
        "identifies": sum(one.sure == "identifies" for one in found),
        "notes": list(ALWAYS),
    }


def _found(path: Path) -> tuple[str, list[Finding]]:
    pair = cfl_pair(path)
    if pair is not None:
        return "BART", in_cfl(path.with_suffix(".hdr"))
    if is_folder(path) and any(is_dicom(file) for file in dicom_files(path)):
        return "DICOM", in_dicom(path)
    regular_file(path)
    with path.open("rb") as stream:
        start = stream.read(4096)
    if any(start[offset : offset + 8] == HDF5 for offset in (0, 512, 1024, 2048)):
        return "HDF5", in_h5(path)
    if is_dicom(path):
        return "DICOM", in_dicom(path)
    if start.startswith(PNG):
        return "PNG", in_png(path)
    if start.startswith((b"\x93NUMPY", b"PK\x03\x04")):
        return "NumPy", []
    if nifti_version(nifti_start(path)) is not None:
        return "NIfTI", in_nifti(path)
    text = start.lstrip().lower()
    if text.startswith((b"<!doctype html", b"<html")):
        return "page", in_page(path)
    if text.startswith((b"{", b"[")):
        return "JSON", in_json(path)
    return "unknown", [finding("may identify", "content", "of no known format: look at it yourself")]
