"""What one reconstruction and its data say of its own error, as maps: all that needs no draws and no truth."""

from typing import NamedTuple

import torch
from torch import Tensor

from bayesmri.complexes import rss
from bayesmri.physics.fourier import fft2c, ifft2c


class Evidence(NamedTuple):
    """Of slices at the mean of θ, with x_μ their coil images; maps are (B, H, W), numbers (B,).

    at_mean, zero_filled: X_μ and X₀. changed: RSS(x_μ − F⁻¹z). filled: RSS(F⁻¹(1 − M)F x_μ), which no measurement
    carries. residual: RSS(F⁻¹(M F x_μ − z)), what was measured and is not in the image.
    noise: standard deviation of k-space noise of one coil. missing: share of k-space that was not acquired. coils: Q.
    """

    at_mean: Tensor
    zero_filled: Tensor
    changed: Tensor
    filled: Tensor
    residual: Tensor
    noise: Tensor
    missing: Tensor
    coils: Tensor

    def to(self, device: torch.device | str) -> "Evidence":
        return Evidence(*(part.to(device) for part in self))

    def flip(self, axes: list[int]) -> "Evidence":
        """The maps turned over along these of the axes −2 and −1."""
        return Evidence(*(part.flip(axes) if part.ndim > 1 else part for part in self))


def evidence(x: Tensor, z: Tensor, mask: Tensor) -> Evidence:
    """x: x_μ, z: the zero-filled k-space it was made of, complex (B, Q, H, W) each. mask: bool, broadcast against z."""
    acquired = mask.expand(z.shape[0], 1, *z.shape[-2:])
    u, x0 = fft2c(x), ifft2c(z)
    numbers = x.real.new_empty(len(z))
    return Evidence(
        at_mean=rss(x),
        zero_filled=rss(x0),
        changed=rss(x - x0),
        filled=rss(ifft2c(~acquired * u)),
        residual=rss(ifft2c(acquired * u - z)),
        noise=noise_level(z, acquired),
        missing=1 - acquired.flatten(1).to(numbers.dtype).mean(dim=1),
        coils=torch.full_like(numbers, z.shape[1]),
    )


def noise_level(z: Tensor, acquired: Tensor) -> Tensor:
    """σ of the complex noise from the outskirts of k-space, where little else is: (B,).

    The median of |z|² is σ² ln 2 of complex Gaussian noise, and structures that reach that far move it little. Taken
    over the rows beyond half of the way out and the acquired samples beyond two thirds of the columns' way, or over all
    acquired ones where there are none so far out.

    acquired: bool (B, 1, H, W).
    """
    H, W = z.shape[-2:]
    rows = (torch.arange(H, device=z.device) - H // 2).abs() > H / 4
    columns = (torch.arange(W, device=z.device) - W // 2).abs() > W / 3
    outer = acquired & rows[:, None] & columns
    found = []
    for part, far, all_of_it in zip(z, outer, acquired, strict=True):
        where = far if bool(far.any()) else all_of_it
        power = part.abs().square()[where.expand_as(part)]
        found.append((power.median() / 0.6931).sqrt() if power.numel() else part.abs().sum() * 0)
    return torch.stack(found)
