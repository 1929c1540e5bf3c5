"""From k-space to an image, slice by slice, whatever the method."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bayesmri.baselines.tv import TotalVariation
from bayesmri.baselines.zero_filled import ZeroFilled
from bayesmri.complexes import rss
from bayesmri.data.kspace import Header, KSpace
from bayesmri.errors import ConfigError, DataError
from bayesmri.geometry import center_window
from bayesmri.metrics import Metrics, volume_metrics
from bayesmri.physics.coils import coil_gram, compress_coils, compression_matrix
from bayesmri.physics.fourier import ifft2c
from bayesmri.pipeline.options import Options

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Method = Callable[[Tensor, Tensor], Tensor]


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


def reconstruct(kspace: KSpace, options: Options, *, on_slice: Callable[[], None] | None = None) -> Reconstruction:
    """X for every slice of a volume.

    z is divided by the maximum of the volume's zero-filled image, reconstructed, and multiplied back.

    on_slice: called after each slice, for a progress bar.
    """
    began = time.perf_counter()
    device = check_device(options.device)
    method = make_method(options)
    mask = torch.from_numpy(kspace.mask).to(device)
    matrix = None if options.coils is None else _compression(kspace)
    start = np.stack([rss(ifft2c(torch.from_numpy(z))).numpy() for z in kspace.z])
    scale = float(start.max())
    if not scale > 0:
        raise DataError("k-space is zero everywhere: there is nothing to reconstruct")
    images = []
    for part in kspace.z:
        z = torch.from_numpy(part)[None]
        if matrix is not None and options.coils is not None:
            z = compress_coils(z, options.coils, matrix)
        x = method(z.to(device) / scale, mask)
        images.append((rss(x)[0] * scale).cpu().numpy())
        if on_slice is not None:
            on_slice()
    crop = None if options.full_fov else kspace.header.recon_shape
    return Reconstruction(
        image=_crop(np.stack(images), crop),
        zero_filled=_crop(start, crop),
        truth=None if kspace.truth is None else _crop(kspace.truth, crop),
        mask=kspace.mask,
        header=kspace.header,
        grid=(kspace.z.shape[2], kspace.z.shape[3]),
        method=options.method,
        seconds=time.perf_counter() - began,
    )


def make_method(options: Options) -> Method:
    """The callable (z, mask) → x of a method's name."""
    if options.method == "zero-filled":
        return ZeroFilled()
    if options.method == "tv":
        return TotalVariation() if options.tv_weight is None else TotalVariation(weight=options.tv_weight)
    raise ConfigError(f"method {options.method!r}: want zero-filled or tv")


def check_device(name: str) -> torch.device:
    """The device of that name, if this machine has it."""
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(f"device {name!r}: want cpu, cuda or cuda:0") from error
    if device.type not in ("cpu", "cuda"):
        raise ConfigError(f"device {name!r}: want cpu, cuda or cuda:0")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ConfigError(f"device {name!r}: this machine has {torch.cuda.device_count()} CUDA devices; use cpu")
    return device


def common_crop(X: NDArray[np.float32], Y: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Both cut to the centre they share: fastMRI's truths are 320x320, its grids larger."""
    if X.ndim != 3 or Y.ndim != 3:
        return X, Y  # the metrics say what is wrong with the shapes
    shape = (min(X.shape[1], Y.shape[1]), min(X.shape[2], Y.shape[2]))
    return _crop(X, shape), _crop(Y, shape)


def _compression(kspace: KSpace) -> Tensor:
    """Of the whole volume, so that all slices share their virtual coils."""
    Q = kspace.z.shape[1]
    gram = torch.zeros(Q, Q, dtype=torch.complex64)
    for z in kspace.z:
        gram += coil_gram(torch.from_numpy(z))
    return compression_matrix(gram)


def _crop(volume: NDArray[np.float32], shape: tuple[int, int] | None) -> NDArray[np.float32]:
    if shape is None:
        return volume
    rows, columns = center_window((volume.shape[1], volume.shape[2]), shape)
    return np.ascontiguousarray(volume[:, rows, columns])
