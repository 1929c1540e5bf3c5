"""Affines: index (h, w, slice) → RAS+ millimetres, from the scanner's LPS directions and positions."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
LPS_TO_RAS = np.diag([-1.0, -1.0, 1.0, 1.0])


def is_frame(*directions: Array) -> bool:
    """Unit length and mutually orthogonal, to the precision headers have."""
    D = np.stack(directions)
    return bool(np.isfinite(D).all() and np.allclose(D @ D.T, np.eye(len(D)), atol=1e-2))


def slice_step(positions: Array, normal: Array, thickness: float) -> Array | None:
    """The vector from one slice to the next of sorted `positions` (n, 3); None where they are not equidistant."""
    if len(positions) == 1:
        return normal * thickness
    steps = np.diff(positions, axis=0)
    mean = steps.mean(axis=0)
    spread = float(np.abs(steps - mean).max())
    return mean if np.linalg.norm(mean) > 1e-3 and spread <= max(0.02 * float(np.linalg.norm(mean)), 1e-2) else None


def lps_affine(along_h: Array, along_w: Array, along_slices: Array, origin: Array) -> Array:
    """[along_h along_w along_slices origin] of LPS millimetres per index, as RAS+."""
    affine = np.eye(4)
    affine[:3] = np.column_stack([along_h, along_w, along_slices, origin])
    return LPS_TO_RAS @ affine


def crop_start(size: int, kept: int) -> int:
    """First index of a centred window: index size//2 stays on kept//2, where the centred FFT has its origin."""
    return size // 2 - kept // 2
