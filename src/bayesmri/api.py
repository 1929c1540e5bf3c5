"""The few functions a script or a notebook needs."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesmri.data.kspace import Header, KSpace, acquired_lines, check_finite
from bayesmri.errors import DataError, ShapeError
from bayesmri.pipeline.options import MethodName, Options
from bayesmri.pipeline.sampling import Sampling
from bayesmri.pipeline.sampling import undersample as _undersample

if TYPE_CHECKING:
    from bayesmri.pipeline.reconstruct import Reconstruction


def as_kspace(z: ArrayLike, mask: ArrayLike | None = None) -> KSpace:
    """K-space from an array: (H, W), (coils, H, W) or (slices, coils, H, W), complex, zero frequency in the centre.

    mask: one bool per column; the columns that hold signal unless given.
    """
    array = np.asarray(z)
    if array.dtype.kind != "c":
        raise DataError(f"an array of {array.dtype} came: k-space is complex; for magnitude images simulate it first")
    if not 2 <= array.ndim <= 4:
        raise ShapeError(f"an array of shape {array.shape} came: want (H, W), (coils, H, W) or (slices, coils, H, W)")
    volume: NDArray[np.complex64] = array.reshape((1,) * (4 - array.ndim) + array.shape).astype(np.complex64)
    check_finite("k-space", volume)
    lines = acquired_lines(volume) if mask is None else np.asarray(mask, dtype=bool)
    if lines.shape == volume.shape[-1:]:
        volume = volume * lines
    return KSpace(z=volume, mask=lines, header=Header(source="array"))


def undersample(
    kspace: KSpace | ArrayLike,
    acceleration: float = 4.0,
    *,
    center_fraction: float | None = None,
    mask: str = "random",
    seed: int = 0,
) -> KSpace:
    """Exactly round(W/R) lines of fully sampled data; `truth` of the result is the fully sampled image."""
    return _undersample(_as_kspace(kspace), Sampling(acceleration, center_fraction, mask, None, seed))


def reconstruct(
    kspace: KSpace | ArrayLike, method: MethodName = "tv", *, device: str = "cpu", tv_weight: float | None = None
) -> "Reconstruction":
    """A value with `image`, `zero_filled`, `mask` and `metrics(truth)`; images are float32 (slices, h, w)."""
    from bayesmri.pipeline.reconstruct import reconstruct as run

    return run(_as_kspace(kspace), Options(method=method, device=device, tv_weight=tv_weight))


def _as_kspace(value: KSpace | ArrayLike) -> KSpace:
    return value if isinstance(value, KSpace) else as_kspace(value)
