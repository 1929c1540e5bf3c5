"""Where the slices of an image lie, as DICOM says it: one position a slice, two directions for all."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayesmri.io.geometry import usable_affine, usable_voxel
from bayesmri.io.lps import LPS_TO_RAS, is_frame
from bayesmri.kspace import Header
from bayesmri.messages import NOTHING, Messages, warned

Array = NDArray[np.float64]
NOWHERE = "at made-up places (axial, around the origin), which fit no other series"


@dataclass(frozen=True)
class Planes:
    """LPS millimetres.

    orientation: direction of increasing column, then of increasing row. positions: (slices, 3), the middle of the first
    pixel. spacing: between rows, between columns. between: from slice to slice along the normal. known: not made up.
    """

    orientation: Array
    positions: Array
    spacing: tuple[float, float]
    between: float
    known: bool


def planes_of(header: Header, shape: tuple[int, int, int]) -> tuple[Planes, Messages]:
    """Of images (slices, h, w) whose affine the header has; made up, and said so, where DICOM has none for it."""
    if header.affine is None or not usable_affine(header.affine):
        return _made_up(header, shape), warned(
            f"where the slices lie is not known: the DICOM files have them {NOWHERE}"
        )
    lps = LPS_TO_RAS @ header.affine
    along_h, along_w, step, origin = lps[:3].T
    h, w = float(np.linalg.norm(along_h)), float(np.linalg.norm(along_w))
    if not is_frame(along_h / h, along_w / w):
        sheared = "rows and columns of the images are not at right angles in space, which DICOM cannot say: the files"
        return _made_up(header, shape), warned(f"{sheared} have the slices {NOWHERE}")
    rows, columns = _orthonormal(along_w / w, along_h / h)
    between = abs(float(step @ np.cross(rows, columns)))
    positions = origin + np.arange(shape[0])[:, None] * step
    return Planes(np.concatenate([rows, columns]), positions, (h, w), between, known=True), NOTHING


def _orthonormal(first: Array, second: Array) -> tuple[Array, Array]:
    """Headers have three digits, validators want six."""
    rest = second - (second @ first) * first
    return first, rest / np.linalg.norm(rest)


def _made_up(header: Header, shape: tuple[int, int, int]) -> Planes:
    """Axial, its middle at the origin."""
    known = header.voxel_mm if header.voxel_mm is not None and usable_voxel(header.voxel_mm) else (1.0, 1.0, 1.0)
    n, H, W = shape
    h, w, s = known
    first = np.array([-(W - 1) / 2 * w, -(H - 1) / 2 * h, -(n - 1) / 2 * s])
    positions = first + np.arange(n)[:, None] * np.array([0.0, 0.0, s])
    return Planes(np.array([1.0, 0, 0, 0, 1, 0]), positions, (h, w), s, known=False)
