"""NIfTI-1 with a true affine where the input knows one, and an honest "unknown" where it does not."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesmri.errors import OutputError, ShapeError
from bayesmri.io.atomic import atomic_path, check_values
from bayesmri.io.geometry import crop_affine, usable_affine, usable_voxel
from bayesmri.kspace import Header

SCANNER, UNKNOWN = 1, 0  # codes of sform and qform


def write_nifti(
    path: Path,
    volume: NDArray[np.float32],
    header: Header,
    *,
    full_shape: tuple[int, int] | None = None,
    told: str = "",
) -> None:
    """The volume (slices, h, w) as float32, stored in the order (h, w, slice) of the header's affine.

    path: ends in .nii or .nii.gz.
    full_shape: (H, W) of the grid the affine speaks of, where the volume is its central crop.
    told: what a reader must know, before all else in the 79 characters of the description.
    """
    if not path.name.endswith((".nii", ".nii.gz")):
        raise OutputError(f"got {path.name} as the name of a NIfTI file, expected one that ends in .nii or .nii.gz")
    if volume.ndim != 3:
        raise ShapeError(f"got a volume {volume.shape}, expected (slices, h, w)")
    data = np.ascontiguousarray(np.moveaxis(volume, 0, -1), dtype=np.float32)
    check_values(path.name, data)
    content = _image(data, header, full_shape or data.shape[:2], told).to_bytes()
    if path.name.endswith(".gz"):
        content = gzip.compress(content, compresslevel=3, mtime=0)  # no time of day: equal volumes, equal bytes
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)


def _image(data: NDArray[np.float32], header: Header, full_shape: tuple[int, int], told: str) -> Any:
    import nibabel  # it costs 0.2 s, which other formats need not pay

    image = nibabel.Nifti1Image(data, None)
    image.header.set_xyzt_units("mm")
    description = f"bayesmri, from {header.source}"
    if header.affine is not None and usable_affine(header.affine):
        affine = crop_affine(header.affine, full_shape, data.shape[:2])
        image.set_sform(affine, code=SCANNER)
        image.set_qform(affine, code=SCANNER)
    else:
        known = usable_voxel(header.voxel_mm)
        image.header.set_zooms(header.voxel_mm if known else (1.0, 1.0, 1.0))
        image.set_sform(None, code=UNKNOWN)
        image.set_qform(None, code=UNKNOWN)
        description = "bayesmri: only voxel sizes in the input" if known else "bayesmri: no geometry in the input"
    description = f"{told}; {description}" if told else description
    image.header["descrip"] = description.encode("ascii", "replace")[:79]
    return image
