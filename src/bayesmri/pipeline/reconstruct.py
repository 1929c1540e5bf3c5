"""From k-space to an image, slice by slice, whatever the method."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from bayesmri.complexes import rss
from bayesmri.data.kspace import Header, KSpace
from bayesmri.errors import DataError
from bayesmri.geometry import center_window
from bayesmri.metrics import Metrics, volume_metrics
from bayesmri.physics.fourier import ifft2c
from bayesmri.pipeline.methods import Method, check_device, make_method
from bayesmri.pipeline.options import Options

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


@dataclass(frozen=True)
class Reconstruction:
    """Magnitude images, float32 (slices, h, w), in the units of the input.

    zero_filled: X₀ of the same data. truth: the fully sampled image, where it is known. grid: (H, W) before the crop.
    """

    image: NDArray[np.float32]
    zero_filled: NDArray[np.float32]
    truth: NDArray[np.float32] | None
    mask: NDArray[np.bool_]
    header: Header
    grid: tuple[int, int]
    method: str
    seconds: float

    def metrics(self, truth: "ArrayLike | None" = None) -> Metrics:
        """NMSE, PSNR and SSIM of the image against the truth given, or else the one that came with the data."""
        return volume_metrics(*self._pair(self.image, truth))

    def zero_filled_metrics(self, truth: "ArrayLike | None" = None) -> Metrics:
        return volume_metrics(*self._pair(self.zero_filled, truth))

    def _pair(
        self, image: NDArray[np.float32], truth: "ArrayLike | None"
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        Y = self.truth if truth is None else np.asarray(truth, dtype=np.float32)
        if Y is None:
            raise DataError("no fully sampled image is known: give the truth to compare with")
        return common_crop(image, Y)


def reconstruct(
    kspace: KSpace, options: Options | Method, *, on_slice: Callable[[], None] | None = None
) -> Reconstruction:
    """X for every slice of a volume.

    z is divided by one number taken from the volume's zero-filled image, reconstructed, and multiplied back.

    options: what to do, or a method that was made before.
    on_slice: called after each slice, for a progress bar.
    """
    began = time.perf_counter()
    method = options if isinstance(options, Method) else make_method(options)
    asked = Options() if isinstance(options, Method) else options
    device = check_device(asked.device)
    volume = torch.from_numpy(kspace.z)
    start = np.stack([rss(ifft2c(z)).numpy() for z in volume])
    if not start.max() > 0:
        raise DataError("k-space is zero everywhere: there is nothing to reconstruct")
    volume = method.prepare(volume)
    factor = method.scaling.factor(volume)
    mask = torch.from_numpy(kspace.mask).to(device)
    images = []
    for z in volume:
        x = method.solve(z[None].to(device) / factor, mask)
        images.append((rss(x)[0] * factor).cpu().numpy())
        if on_slice is not None:
            on_slice()
    crop = None if asked.full_fov else kspace.header.recon_shape
    return Reconstruction(
        image=_crop(np.stack(images), crop),
        zero_filled=_crop(start, crop),
        truth=None if kspace.truth is None else _crop(kspace.truth, crop),
        mask=kspace.mask,
        header=kspace.header,
        grid=(kspace.z.shape[2], kspace.z.shape[3]),
        method=method.name,
        seconds=time.perf_counter() - began,
    )


def common_crop(X: NDArray[np.float32], Y: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Both cut to the centre they share: fastMRI's truths are 320x320, its grids larger."""
    if X.ndim != 3 or Y.ndim != 3:
        return X, Y  # the metrics say what is wrong with the shapes
    shape = (min(X.shape[1], Y.shape[1]), min(X.shape[2], Y.shape[2]))
    return _crop(X, shape), _crop(Y, shape)


def _crop(volume: NDArray[np.float32], shape: tuple[int, int] | None) -> NDArray[np.float32]:
    if shape is None:
        return volume
    rows, columns = center_window((volume.shape[1], volume.shape[2]), shape)
    return np.ascontiguousarray(volume[:, rows, columns])
