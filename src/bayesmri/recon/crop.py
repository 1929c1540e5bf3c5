"""Images cut to their centre."""

import numpy as np
from numpy.typing import NDArray

from bayesmri.io.geometry import center_window

Images = NDArray[np.float32]


def common_crop(X: Images, Y: Images) -> tuple[Images, Images]:
    """Both cut to the centre they share: fastMRI's truths are 320x320, its grids larger."""
    if X.ndim != 3 or Y.ndim != 3:
        return X, Y  # the metrics say what is wrong with the shapes
    shape = (min(X.shape[1], Y.shape[1]), min(X.shape[2], Y.shape[2]))
    return crop_to(X, shape), crop_to(Y, shape)


def crop_to(volume: Images, shape: tuple[int, int] | None) -> Images:
    if shape is None:
        return volume
    rows, columns = center_window((volume.shape[1], volume.shape[2]), shape)
    return np.ascontiguousarray(volume[:, rows, columns])
