"""What an MRD file says about its acquisition, and where its voxels lie."""

import numpy as np
from numpy.typing import NDArray

from bayesmri.io.geometry import voxel_sizes
from bayesmri.io.ismrmrd_xml import Encoding
from bayesmri.io.lps import is_frame, lps_affine, slice_step
from bayesmri.io.mrd.grid import Placing, shown
from bayesmri.io.mrd.table import Lines
from bayesmri.io.three_d import affine_of_3d, voxel_of_3d
from bayesmri.kspace import Header
from bayesmri.messages import Messages, noted

Voxel = tuple[float, float, float]
Affine = NDArray[np.float64] | None


def described(encoding: Encoding, lines: Lines, placing: Placing, said: Messages) -> Header:
    """The header of k-space, with all that was said."""
    facts = dict(encoding.facts)
    if encoding.n_encodings > 1:
        said = noted(f"of {encoding.n_encodings} encodings the first was read") + said
    g = placing.grid
    if g.three_d:
        full, part = (g.W, g.P), (shown(g.W, 1, encoding), shown(g.P, 2, encoding))
    else:
        full, part = (g.H, g.W), (g.H, shown(g.W, 1, encoding))
    voxel = _voxel(encoding, placing)
    affine = None if voxel is None else (_affine_3d if g.three_d else _affine)(lines, placing, voxel)
    return Header(
        source="ISMRMRD/MRD HDF5",
        acquisition=facts.get("protocol", ""),
        patient_id=encoding.dicom.get("PatientID", ""),
        dicom={name: value for name, value in encoding.dicom.items() if not (g.three_d and name == "SliceThickness")},
        recon_shape=part if part != full and min(part) >= 1 else None,
        affine=affine,
        voxel_mm=voxel if affine is None else voxel_sizes(affine),
        facts=facts,
        notes=said.notes,
        warnings=said.warnings,
    )


def _voxel(encoding: Encoding, placing: Placing) -> Voxel | None:
    """Along (h, w, slice)."""
    if encoding.fov_mm is None:
        return None
    g = placing.grid
    if g.three_d:
        return voxel_of_3d(encoding.fov_mm, (g.X, g.W, g.P))
    return encoding.fov_mm[0] / g.X, encoding.fov_mm[1] / g.W, encoding.fov_mm[2]


def _affine_3d(lines: Lines, placing: Placing, voxel: Voxel) -> Affine:
    """One slab: `position` is its middle."""
    if len(placing.slices) > 1:
        return None
    g = placing.grid
    return affine_of_3d(
        lines.read_dir[0],
        lines.phase_dir[0],
        lines.slice_dir[0],
        position=lines.position[0],
        voxel_mm=voxel,
        shape=(g.W, g.P, g.H),
    )


def _affine(lines: Lines, placing: Placing, voxel: Voxel) -> Affine:
    """`position` is the middle of the slice, where the centred FFT puts pixel (H//2, W//2)."""
    first = np.array([np.flatnonzero(lines.slice == s)[0] for s in placing.slices])
    read, phase, normal = lines.read_dir[first[0]], lines.phase_dir[first[0]], lines.slice_dir[first[0]]
    positions = lines.position[first]
    if not is_frame(read, phase, normal) or not np.isfinite(positions).all():
        return None
    step = slice_step(positions, normal, voxel[2])
    if step is None:
        return None
    along_h, along_w = read * voxel[0], phase * voxel[1]
    origin = positions[0] - along_h * (placing.grid.H // 2) - along_w * (placing.grid.W // 2)
    return lps_affine(along_h, along_w, step, origin)
