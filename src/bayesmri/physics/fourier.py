"""F, the centred unitary 2-D discrete Fourier transform of each coil."""

import torch
from torch import Tensor

AXES = (-2, -1)


def fft2c(x: Tensor) -> Tensor:
    """u = F x: image → k-space, complex (..., H, W), zero frequency at (H // 2, W // 2)."""
    out: Tensor = torch.fft.fftshift(torch.fft.fft2(torch.fft.ifftshift(x, dim=AXES), norm="ortho"), dim=AXES)
    return out


def ifft2c(u: Tensor) -> Tensor:
    """x = F⁻¹ u = F* u: k-space → image."""
    out: Tensor = torch.fft.fftshift(torch.fft.ifft2(torch.fft.ifftshift(u, dim=AXES), norm="ortho"), dim=AXES)
    return out
