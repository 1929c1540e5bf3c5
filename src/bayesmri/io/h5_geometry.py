"""The attributes `affine`, `voxel_mm` and `dicom` with which our own HDF5 files carry their geometry and origin."""

import json
from dataclasses import replace
from typing import Any

from bayesmri.io.geometry import usable_affine, usable_voxel, voxel_sizes
from bayesmri.io.guard import one_line
from bayesmri.io.safe_h5 import number_attribute, text_attribute
from bayesmri.kspace import Header

MOST, LONGEST = 100, 2**16  # values by keyword, and characters of all


def with_geometry(header: Header, file: Any) -> Header:
    """`header` with the affine and the voxel sizes that the file's attributes give, where they are usable."""
    affine = number_attribute(file, "affine", shape=(4, 4))
    if affine is not None and usable_affine(affine):
        return replace(header, affine=affine, voxel_mm=voxel_sizes(affine))
    stored = number_attribute(file, "voxel_mm", shape=(3,))
    if stored is None:
        return header
    voxel = float(stored[0]), float(stored[1]), float(stored[2])
    return replace(header, voxel_mm=voxel) if usable_voxel(voxel) else header


def stored_dicom(file: Any) -> dict[str, str]:
    """What the scan's own header said of patient, study and machine; {} where the file has nothing of the kind."""
    try:
        found = json.loads(text_attribute(file, "dicom", limit=LONGEST) or "{}")
    except (ValueError, RecursionError):
        return {}
    pairs = list(found.items())[:MOST] if isinstance(found, dict) else []
    return {one_line(name, limit=64): one_line(value) for name, value in pairs if isinstance(value, str)}
