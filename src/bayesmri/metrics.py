"""NMSE, PSNR and SSIM per volume as fastMRI defines them: central 320x320 pixels, the truth's maximum as range."""

import math
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bayesmri.errors import DataError, ShapeError
from bayesmri.io.geometry import center_window

CROP = (320, 320)
WINDOW = 7
K1, K2 = 0.01, 0.03
PSNR_CAP = 200.0  # dB; identical images have an infinite PSNR, which JSON cannot hold

Volume = Tensor | npt.ArrayLike


@dataclass(frozen=True)
class Metrics:
    """One volume against its truth: nmse ≥ 0, psnr in dB (at most PSNR_CAP), ssim in [−1, 1]."""

    nmse: float
    psnr: float
    ssim: float


def volume_metrics(X: Volume, Y: Volume) -> Metrics:
    """All three on the central 320x320 crop of X, against the truth Y: real (slices, H, W)."""
    X, Y = (center_crop(V, CROP) for V in _checked(X, Y))
    return Metrics(nmse=nmse(X, Y), psnr=psnr(X, Y), ssim=ssim(X, Y))


def slice_metrics(X: Volume, Y: Volume) -> list[Metrics]:
    """Of every slice by itself, with the range of the whole volume, so that slices compare and SSIM averages to its.

    The NMSE of a slice whose truth is 0 everywhere is NaN: there is nothing to relate to.
    """
    X, Y = (center_crop(V, CROP) for V in _checked(X, Y))
    peak, found = Y.max(), []
    for x, y in zip(X, Y, strict=True):
        power, error = float(y.square().sum()), float((x - y).square().sum())
        relative = error / y.numel() / float(peak) ** 2
        decibel = PSNR_CAP if relative == 0 else min(PSNR_CAP, -10 * math.log10(relative))
        found.append(Metrics(error / power if power else math.nan, decibel, float(ssim_batch(x, y, peak))))
    return found


def center_crop(X: Tensor, shape: tuple[int, int]) -> Tensor:
    """The central (..., h, w) of (..., H, W); an axis that is already as small stays as it is."""
    H, W = X.shape[-2:]
    rows, columns = center_window((H, W), shape)
    return X[..., rows, columns]


def nmse(X: Volume, Y: Volume) -> float:
    """‖X − Y‖² / ‖Y‖² over the whole volume."""
    X, Y = _checked(X, Y)
    return float((X - Y).square().sum() / Y.square().sum())


def psnr(X: Volume, Y: Volume) -> float:
    """10 log₁₀(max(Y)² / mean (X − Y)²) over the whole volume; at most PSNR_CAP."""
    X, Y = _checked(X, Y)
    error = float(((X - Y) / Y.max()).square().mean())
    return PSNR_CAP if error == 0 else min(PSNR_CAP, -10 * math.log10(error))


def ssim(X: Volume, Y: Volume) -> float:
    """The mean over slices of SSIM(X, Y) with the range max(Y) of the whole volume."""
    X, Y = _checked(X, Y)
    peak = Y.max()
    # one slice at a time: the maps of a whole volume in float64 would take ten times its memory
    return float(torch.stack([ssim_batch(x, y, peak) for x, y in zip(X, Y, strict=True)]).mean())


def ssim_batch(X: Tensor, Y: Tensor, data_range: Tensor | float) -> Tensor:
    """The mean of `ssim_map` over pixels: (..., H, W) → (...); differentiable, for the loss."""
    return ssim_map(X, Y, data_range).mean(dim=(-2, -1))


def ssim_map(X: Tensor, Y: Tensor, data_range: Tensor | float) -> Tensor:
    """SSIM of every 7x7 window that lies inside the image: (..., H, W) → (..., H − 6, W − 6).

        (2 μ_X μ_Y + C₁)(2 σ_XY + C₂) / ((μ_X² + μ_Y² + C₁)(σ_X² + σ_Y² + C₂)),   C_i = (K_i · range)²

    with window means μ and sample covariances σ (n − 1 in the denominator).

    data_range: positive, broadcastable against X.
    """
    # SSIM does not change when images and range are divided by the range; C₁ C₂ then cannot underflow in float32
    X, Y = X / data_range, Y / data_range
    C1, C2 = K1**2, K2**2
    mx, my, mxx, myy, mxy = _window_mean(torch.stack((X, Y, X * X, Y * Y, X * Y))).unbind()
    sample = WINDOW**2 / (WINDOW**2 - 1)
    vx, vy, vxy = sample * (mxx - mx * mx), sample * (myy - my * my), sample * (mxy - mx * my)
    return ((2 * mx * my + C1) * (2 * vxy + C2)) / ((mx * mx + my * my + C1) * (vx + vy + C2))


def _window_mean(V: Tensor) -> Tensor:
    """The mean of every 7x7 window, over columns and then over rows."""
    # sums of shifted views: on CPUs several times faster than pooling or convolution, forward and backward
    h, w = V.shape[-2] - WINDOW + 1, V.shape[-1] - WINDOW + 1
    sums = reduce(torch.add, (V[..., i : i + w] for i in range(WINDOW)))
    sums = reduce(torch.add, (sums[..., i : i + h, :] for i in range(WINDOW)))
    return sums / WINDOW**2


def _checked(X: Volume, Y: Volume) -> tuple[Tensor, Tensor]:
    """Both as float64, of one shape (slices, H, W), finite, and a truth with something in it."""
    X, Y = _float64(X), _float64(Y)
    if X.shape != Y.shape or Y.ndim != 3:
        raise ShapeError(
            f"got a reconstruction {tuple(X.shape)} with a truth {tuple(Y.shape)}, "
            "expected two volumes of one shape (slices, H, W)"
        )
    if 0 in Y.shape or min(Y.shape[-2:]) < WINDOW:
        raise ShapeError(
            f"got a volume {tuple(Y.shape)}, expected slices of at least {WINDOW}x{WINDOW} pixels for SSIM"
        )
    if not (X.isfinite().all() and Y.isfinite().all()):
        raise DataError("the reconstruction or the truth holds NaN or Inf, expected finite numbers for metrics")
    if Y.max() <= 0:
        raise DataError("the truth has no positive pixel: metrics are relative to its maximum; give one with signal")
    return X, Y


def _float64(V: Volume) -> Tensor:
    """On the CPU, where float64 exists on every machine."""
    array = V.detach().cpu().numpy() if isinstance(V, Tensor) else np.asarray(V)
    if np.iscomplexobj(array):
        raise DataError(
            "got complex images, expected magnitudes, which metrics compare; take the root-sum-of-squares first"
        )
    return torch.from_numpy(array.astype(np.float64))
