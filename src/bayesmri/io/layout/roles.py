"""Whether axes are what they were taken for: k-space peaks along rows and columns, not along coils."""

import numpy as np
from numpy.typing import NDArray

from bayesmri.errors import ShapeError
from bayesmri.io.guard import sizes

LEAST = 16  # entries of an axis that may be one of k-space
FLAT = 10.0  # largest energy over the median along an axis: coils have less, k-space 40 and more
STEEPER = 8.0  # times: along which a leading axis must exceed a flat one


def check_roles(array: NDArray[np.complex64], axes: tuple[str, ...]) -> None:
    """Refuses coils or slices among the last two axes, where a leading one looks like k-space instead."""
    if array.ndim < 3 or 0 in array.shape:
        return
    ratios = [peak_ratio(array, axis) for axis in range(array.ndim)]
    leading = [a for a in range(array.ndim - 2) if array.shape[a] >= LEAST and _central(array, a)]
    flat = [a for a in (array.ndim - 1, array.ndim - 2) if ratios[a] < FLAT and array.shape[a] > 1]
    found = [(a, b) for a in leading for b in flat if ratios[a] > max(FLAT, STEEPER * ratios[b])]
    if not found:
        return
    lead, last = found[0]
    others = [a for a in range(array.ndim) if a not in (lead, last)]
    roles = {last: "coil", lead: "row", others[-1]: "column"} | ({others[0]: "slice"} if len(others) > 1 else {})
    words = " ".join(roles[a] for a in range(array.ndim))
    raise ShapeError(
        f"the axes of {sizes(array.shape)} were taken as ({', '.join(axes)}), but the energy peaks along axis {lead} "
        f"and not along axis {last}, as if that were coils or slices; say what each axis is, such as --axes {words!r}"
    )


def profile(array: NDArray[np.complex64], axis: int) -> NDArray[np.float64]:
    """Energy along one axis."""
    parts = (np.abs(part) for part in np.moveaxis(array, axis, 0))
    return np.array([float(np.square(part, dtype=np.float64).sum()) for part in parts])


def peak_ratio(array: NDArray[np.complex64], axis: int) -> float:
    """The largest energy along an axis over the median; lines that hold nothing do not count."""
    energy = profile(array, axis)
    held = energy[energy > 1e-12 * energy.max()] if np.isfinite(energy).all() and energy.max() > 0 else energy
    with np.errstate(invalid="ignore", divide="ignore"):
        return float(np.nan_to_num(held.max() / np.median(held), nan=1.0)) if len(held) else 1.0


def _central(array: NDArray[np.complex64], axis: int) -> bool:
    """Whether the energy along an axis peaks in its middle, or at its ends as after fftshift."""
    n, peak = array.shape[axis], int(np.nan_to_num(profile(array, axis)).argmax())
    return bool(abs(peak - n // 2) <= max(2, n // 16) or min(peak, n - peak) <= 2)
