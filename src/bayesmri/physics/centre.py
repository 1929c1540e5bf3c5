"""What the fully sampled centre of k-space tells about the coils."""

import torch
from torch import Tensor

from bayesmri.complexes import rss
from bayesmri.physics.fourier import ifft2c


def n_central_lines(mask: Tensor) -> Tensor:
    """The acquired lines around the centre without a gap, the same number on both sides, at least 1: int (B,).

    Of points (B, 1, H, W) the shorter side of their central block.

    mask: bool (B, 1, 1, W). The centre, column W // 2, counts to the right side.
    """
    if mask.shape[-2] > 1:
        return torch.minimum(*central_block(mask, mask.shape[-2]))
    return (2 * _runs(mask[:, 0, 0])).clamp(min=1)


def central_block(mask: Tensor, H: int) -> tuple[Tensor, Tensor]:
    """Rows and columns of the fully sampled block around (H // 2, W // 2), at least 1: int (B,) each.

    Of all such blocks of points the one with the longest shorter side, and among those the largest; all H rows, where
    whole columns were acquired. Half of either side lies before the centre, as for `n_central_lines`.

    mask: bool (B, 1, 1 or H, W).
    """
    if mask.shape[-2] == 1:
        n = n_central_lines(mask)
        return torch.full_like(n, H), n
    runs = _runs(mask[:, 0])
    half = H // 2
    least = torch.minimum(runs[:, :half].flip(-1), runs[:, half : 2 * half]).cummin(-1).values
    rows = torch.arange(1, half + 1, device=mask.device).expand_as(least)
    best = (torch.minimum(rows, least) * (H * mask.shape[-1]) + rows * least).argmax(-1, keepdim=True)
    columns = least.gather(-1, best)[:, 0]
    return torch.where(columns > 0, 2 * (best[:, 0] + 1), 1), (2 * columns).clamp(min=1)


def central_lines(mask: Tensor) -> Tensor:
    """Those lines as a mask, columns [W // 2 − n // 2, W // 2 − n // 2 + n): bool (B, 1, 1, W); of points the block."""
    rows, columns = central_block(mask, mask.shape[-2])
    inside = _middle(mask.shape[-1], columns, mask.device)
    return inside if mask.shape[-2] == 1 else inside & _middle(mask.shape[-2], rows, mask.device).transpose(-2, -1)


def centre_acquired(mask: Tensor) -> bool:
    """Whether every mask of a batch, bool (B, 1, 1 or H, W), has the zero frequency."""
    return bool(mask[..., mask.shape[-2] // 2, mask.shape[-1] // 2].all())


def middle_lines(W: int, n: int, device: torch.device | str = "cpu") -> Tensor:
    """The n lines around the centre as a mask, bool (1, 1, 1, W)."""
    column = torch.arange(W, device=device)
    first = W // 2 - n // 2
    return ((column >= first) & (column < first + n)).reshape(1, 1, 1, W)


def sensitivities(z: Tensor, mask: Tensor) -> Tensor:
    """s_q = c_q / (Σ_q |c_q|²)^½ with the coil images c of the central lines, softened by a Hann window: (B, Q, H, W).

    Σ_q |s_q|² = 1 wherever anything was measured, so that the coil images s_q m have |m| as their root-sum-of-squares;
    a single coil has s = 1: its phase belongs to the image. Of the rows, which are all there, the window takes twice as
    many as there are central lines; of points it takes the block, no side more than twice the other.

    z: zero-filled k-space, complex (B, Q, H, W). mask: bool (B or 1, 1, 1 or H, W).
    """
    if z.shape[-3] == 1:
        return torch.ones_like(z)
    n_rows, n = (side[:, None, None, None] for side in central_block(mask, z.shape[-2]))
    if mask.shape[-2] == 1:
        n_rows = 2 * n
    else:
        n_rows, n = torch.minimum(n_rows, 2 * n), torch.minimum(n, 2 * n_rows)
    rows, columns = _hann(z.shape[-2], n_rows, z), _hann(z.shape[-1], n, z)
    return unit_rss(ifft2c(z * rows.transpose(-2, -1) * columns * central_lines(mask)))


def _runs(lines: Tensor) -> Tensor:
    """How many entries on both sides of the centre of the last axis are True without a gap: int (...)."""
    W = lines.shape[-1]
    left, right = lines[..., : W // 2].flip(-1).long(), lines[..., W // 2 :].long()
    return torch.minimum(left.cumprod(-1).sum(-1), right.cumprod(-1).sum(-1))


def _middle(size: int, n: Tensor, device: torch.device) -> Tensor:
    """The n central entries of an axis, bool (B, 1, 1, size)."""
    place, first = torch.arange(size, device=device), size // 2 - n[:, None, None, None] // 2
    return (place >= first) & (place < first + n[:, None, None, None])


def unit_rss(c: Tensor) -> Tensor:
    """c / RSS(c), and 0 where RSS(c) is 0."""
    power = rss(c).unsqueeze(-3)
    return c / torch.where(power > 0, power, 1)


def _hann(size: int, n: Tensor, z: Tensor) -> Tensor:
    """cos² from the centre of an axis to 0 just outside its n central samples: real (B, 1, 1, size)."""
    distance = torch.arange(size, device=z.device, dtype=z.real.dtype) - size // 2
    return torch.cos((torch.pi * distance / (n + 2)).clamp(-torch.pi / 2, torch.pi / 2)) ** 2
