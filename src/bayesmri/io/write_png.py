"""A slice as an 8-bit grey PNG."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from bayesmri.errors import ShapeError
from bayesmri.io.atomic import atomic_path, check_values


def write_png(path: Path, image: NDArray[np.floating], vmax: float | None = None) -> None:
    """Grey = round(255 · image / vmax), cut to 0…255.

    vmax: what is shown white; the image's maximum unless given.
    """
    if image.ndim != 2:
        raise ShapeError(f"got an image {image.shape}, expected one slice (h, w)")
    check_values(path.name, image)
    white = float(image.max()) if vmax is None else vmax
    grey = np.clip(image.astype(np.float64) / white, 0, 1) if white > 0 else np.zeros(image.shape)
    with atomic_path(path) as temporary:
        Image.fromarray(np.rint(255 * grey).astype(np.uint8)).save(temporary, format="PNG")
