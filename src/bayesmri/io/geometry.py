"""Where pixels lie: centre crops, and affines that map indices (h, w, slice) to RAS+ millimetres."""

import numpy as np
from numpy.typing import NDArray

from bayesmri.errors import ShapeError

OBLIQUE = 0.342  # of a direction, from which on it is named


def center_window(full: tuple[int, int], crop: tuple[int, int]) -> tuple[slice, slice]:
    """The central crop of a grid, cut only where the grid is larger; it starts at (n − m) // 2, as in fastMRI."""
    if min(*full, *crop) < 1:
        raise ShapeError(f"got a crop to {crop} of a grid {full}, expected positive sizes")
    m_h, m_w = min(full[0], crop[0]), min(full[1], crop[1])
    h, w = (full[0] - m_h) // 2, (full[1] - m_w) // 2
    return slice(h, h + m_h), slice(w, w + m_w)


def crop_affine(
    affine: NDArray[np.float64], full_shape: tuple[int, int], crop_shape: tuple[int, int]
) -> NDArray[np.float64]:
    """The affine of the central crop: A' (h, w, s, 1) = A (h + h₀, w + w₀, s, 1), (h₀, w₀) the crop's first pixel."""
    rows, columns = center_window(full_shape, crop_shape)
    shifted = np.array(affine, dtype=np.float64)
    shifted[:, 3] = shifted @ np.array([rows.start, columns.start, 0.0, 1.0])
    return shifted


def voxel_sizes(affine: NDArray[np.float64]) -> tuple[float, float, float]:
    """Millimetres between neighbours along (h, w, slice): the lengths of the affine's columns."""
    h, w, s = np.linalg.norm(np.asarray(affine, dtype=np.float64)[:3, :3], axis=0)
    return float(h), float(w), float(s)


def usable_affine(affine: NDArray[np.float64] | None) -> bool:
    """A finite, invertible 4x4 matrix with the last row (0, 0, 0, 1)."""
    if affine is None or np.shape(affine) != (4, 4) or not np.isfinite(affine).all():
        return False
    if not np.array_equal(affine[3], (0, 0, 0, 1)):
        return False
    sizes = voxel_sizes(affine)
    # the determinant relative to the voxel volume: a test of angles that no unit of length can fool
    return min(sizes) > 0 and abs(float(np.linalg.det(affine[:3, :3] / np.array(sizes)))) > 1e-6


def usable_voxel(voxel_mm: tuple[float, float, float] | None) -> bool:
    """Three finite positive spacings; a zero means that the file did not know."""
    return voxel_mm is not None and len(voxel_mm) == 3 and all(np.isfinite(v) and v > 0 for v in voxel_mm)


def edge_letters(affine: NDArray[np.float64] | None) -> dict[str, str] | None:
    """What lies beyond each edge of an image (h downwards, w to the right): R, L, A, P, S, I, oblique ones as "AR".

    None where the affine does not say it.
    """
    if affine is None or not usable_affine(affine):
        return None
    down, right = (np.asarray(affine)[:3, i] / np.linalg.norm(affine[:3, i]) for i in (0, 1))
    return {
        "top": _letters(-down),
        "bottom": _letters(down),
        "left": _letters(-right),
        "right": _letters(right),
    }


def _letters(direction: NDArray[np.float64]) -> str:
    """The directions of RAS+ that this one leans to, the strongest first; those below sin 20° are not named."""
    pairs = ("LR", "PA", "IS")
    order = np.argsort(-np.abs(direction), kind="stable")
    return "".join(pairs[i][int(direction[i] > 0)] for i in order if abs(direction[i]) > OBLIQUE)
