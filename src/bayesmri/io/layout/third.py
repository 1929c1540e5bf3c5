"""A third encoded axis: the energy of 3-D k-space peaks along coils or slices too, if they were taken for such."""

import numpy as np
from numpy.typing import NDArray

from bayesmri.errors import ShapeError
from bayesmri.io.guard import sizes
from bayesmri.io.layout.roles import LEAST, peak_ratio, profile

STEEP = 20.0  # largest energy over the median: 3-D k-space of 16 entries has 47 and more, 32 measured coils have 4
BESIDE = 0.4  # of the energy in the middle, an eighth of the axis beside it: slices have more, k-space has less


def encoded(array: NDArray[np.complex64], axis: int) -> bool:
    """Whether the energy along an axis peaks in its middle as steeply as k-space does, and slices do not."""
    energy = profile(array, axis)
    n, peak = len(energy), int(np.nan_to_num(energy).argmax())
    if n < LEAST or not np.isfinite(energy).all() or abs(peak - n // 2) > 1:
        return False
    d = max(2, n // 8)
    beside = max(float(energy[peak - d]), float(energy[(peak + d) % n]))
    return beside < BESIDE * float(energy[peak]) and peak_ratio(array, axis) > STEEP


def check_coils(array: NDArray[np.complex64], axes: tuple[str, ...]) -> None:
    """Refuses coils along which k-space peaks: a 3-D scan."""
    if "coil" not in axes or 0 in array.shape or not encoded(array, axes.index("coil")):
        return
    words = " ".join({"slice": "coil", "coil": "readout"}.get(axis, axis) for axis in axes)
    raise ShapeError(
        f"the axes of {sizes(array.shape)} were taken as ({', '.join(axes)}), but k-space peaks along the coils as "
        f"along an encoded axis: a 3-D scan? say what each axis is, such as --axes {words!r}"
    )
