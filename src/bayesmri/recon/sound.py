"""Images are finite numbers, or there are none."""

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from bayesmri.complexes import rss
from bayesmri.errors import DataError, DivergedError
from bayesmri.kspace import KSpace
from bayesmri.physics.fourier import ifft2c
from bayesmri.recon.method import Method

Images = NDArray[np.float32]


def check_finite(what: str, values: "Tensor | ArrayLike", method: Method, s: int) -> None:
    """Slice by slice, so that a method that diverges does not go on for hours."""
    bad = int(torch.as_tensor(values).isfinite().logical_not().sum())
    if bad:
        raise DivergedError(
            f"{what} of slice {s} by {method.name} holds {bad} NaN or Inf values, expected finite numbers; the method "
            "diverges on this data, take another model (bayesmri models), or tv"
        )


def zero_filled(kspace: KSpace) -> Images:
    """X₀ = RSS(F⁻¹z) of every slice, of all coils."""
    start = np.empty((len(kspace.z), *kspace.z.shape[2:]), np.float32)
    for s, z in enumerate(kspace.z):
        start[s] = rss(ifft2c(torch.from_numpy(z))).numpy()
    if not start.max() > 0:
        raise DataError("k-space is zero everywhere: there is nothing to reconstruct")
    if not np.isfinite(start).all():
        raise DataError(
            f"got k-space of values up to {np.abs(kspace.z).max():.1e}, whose image is beyond single precision, "
            "expected values below 1e15; divide all by one number"
        )
    return start
