"""Magnitude images, from which k-space can be simulated: the `image` HDF5 layout and the check all readers share."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesmri.errors import DataError
from bayesmri.io.h5_geometry import with_geometry
from bayesmri.io.safe_h5 import open_h5, read_real, text_attribute
from bayesmri.kspace import Header, Images, check_finite, check_grid

# Interpolation rings around edges and leaves small negative values; phase and normalised images go far below.
MAX_UNDERSHOOT = 0.05


def as_images(volume: NDArray[Any], header: Header) -> Images:
    """(slices, H, W) of any real dtype as finite float32 ≥ 0."""
    check_grid(volume.shape, ndim=3, axes="(slices, H, W)")
    with np.errstate(over="ignore"):  # an overflow becomes Inf, which check_finite reports
        magnitude = np.ascontiguousarray(volume, dtype=np.float32)
    check_finite("the image", magnitude)
    low, high = float(magnitude.min()), float(magnitude.max())
    if high <= 0:
        raise DataError(f"the image has no positive value (largest: {high:.4g}), expected magnitudes")
    if low < -MAX_UNDERSHOOT * high:
        raise DataError(
            f"the image goes from {low:.4g} to {high:.4g}, expected magnitudes ≥ 0; "
            "is it a phase, a normalised or a CT image? Take its absolute value or undo the normalisation"
        )
    if low < 0:
        note = f"small negative values (down to {low:.3g} of {high:.3g}) were set to zero"
        return Images(magnitude=np.maximum(magnitude, 0), header=replace(header, notes=(*header.notes, note)))
    return Images(magnitude=magnitude, header=header)


def read_images_h5(path: Path, *, budget: int | None = None) -> Images:
    """Dataset `image` (slices, H, W) or (H, W), integers or floats."""
    with open_h5(path) as file:
        volume = read_real(file, "image", ndim=(2, 3), axes="(rows, columns) or (slices, rows, columns)", budget=budget)
        keys = ("anatomy", "subject", "licence", "source")
        facts = {key: value for key in keys if (value := text_attribute(file, key))}
        header = Header(source="image HDF5", acquisition=facts.get("anatomy", ""), patient_id=facts.get("subject", ""))
        header = with_geometry(replace(header, facts=facts), file)
    return as_images(volume if volume.ndim == 3 else volume[None], header)
