"""What the fully sampled centre of k-space tells about the coils."""

import torch
from torch import Tensor

from bayesmri.complexes import rss
from bayesmri.physics.fourier import ifft2c


def n_central_lines(mask: Tensor) -> Tensor:
    """The acquired lines around the centre without a gap, the same number on both sides, at least 1: int (B,).

    mask: bool (B, 1, 1, W). The centre, column W // 2, counts to the right side.
    """
    lines = mask[:, 0, 0].long()
    W = lines.shape[-1]
    left, right = lines[:, : W // 2].flip(-1), lines[:, W // 2 :]
    run = torch.minimum(left.cumprod(-1).sum(-1), right.cumprod(-1).sum(-1))
    return (2 * run).clamp(min=1)


def central_lines(mask: Tensor) -> Tensor:
    """Those lines as a mask, columns [W // 2 − n // 2, W // 2 − n // 2 + n): bool (B, 1, 1, W)."""
    W = mask.shape[-1]
    n = n_central_lines(mask)[:, None, None, None]
    first = W // 2 - n // 2
    column = torch.arange(W, device=mask.device)
    return (column >= first) & (column < first + n)


def middle_lines(W: int, n: int, device: torch.device | str = "cpu") -> Tensor:
    """The n lines around the centre as a mask, bool (1, 1, 1, W)."""
    column = torch.arange(W, device=device)
    first = W // 2 - n // 2
    return ((column >= first) & (column < first + n)).reshape(1, 1, 1, W)


def sensitivities(z: Tensor, mask: Tensor) -> Tensor:
    """s_q = c_q / (Σ_q |c_q|²)^½ with the coil images c of the central lines, softened by a Hann window: (B, Q, H, W).

    Σ_q |s_q|² = 1 wherever anything was measured, so that the coil images s_q m have |m| as their root-sum-of-squares;
    a single coil has s = 1: its phase belongs to the image. Of the rows, which are all there, the window takes twice as
    many as there are central lines.

    z: zero-filled k-space, complex (B, Q, H, W). mask: bool (B or 1, 1, 1, W).
    """
    if z.shape[-3] == 1:
        return torch.ones_like(z)
    n = n_central_lines(mask)[:, None, None, None]
    rows, columns = _hann(z.shape[-2], 2 * n, z), _hann(z.shape[-1], n, z)
    return unit_rss(ifft2c(z * rows.transpose(-2, -1) * columns * central_lines(mask)))


def unit_rss(c: Tensor) -> Tensor:
    """c / RSS(c), and 0 where RSS(c) is 0."""
    power = rss(c).unsqueeze(-3)
    return c / torch.where(power > 0, power, 1)


def _hann(size: int, n: Tensor, z: Tensor) -> Tensor:
    """cos² from the centre of an axis to 0 just outside its n central samples: real (B, 1, 1, size)."""
    distance = torch.arange(size, device=z.device, dtype=z.real.dtype) - size // 2
    return torch.cos((torch.pi * distance / (n + 2)).clamp(-torch.pi / 2, torch.pi / 2)) ** 2
