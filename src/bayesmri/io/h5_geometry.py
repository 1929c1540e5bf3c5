"""The attributes `affine` and `voxel_mm` with which our own HDF5 files carry their geometry."""

from dataclasses import replace
from typing import Any

from bayesmri.io.geometry import usable_affine, usable_voxel, voxel_sizes
from bayesmri.io.safe_h5 import number_attribute
from bayesmri.kspace import Header


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
