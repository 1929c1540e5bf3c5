"""A U-shaped network of eight convolutions on three scales that says one number per pixel, for maps of any size."""

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bayesmri.regularizers.conv import conv


def pyramid_layers(n_in: int, C: int, rng: torch.Generator) -> nn.ModuleDict:
    """Of n_in input maps, with C features on the finest scale."""
    channels = {
        "fine": (n_in, C, C),
        "middle": (C, 2 * C, 2 * C),
        "coarse": (2 * C, 2 * C, 2 * C),
        "up_middle": (4 * C, C),
        "up_fine": (2 * C, C),
    }
    return nn.ModuleDict({name: _layers(sizes, rng) for name, sizes in channels.items()})


def pyramid(layers: nn.ModuleDict, out: Tensor, inputs: Tensor) -> Tensor:
    """(B, n_in, H, W) → (B, 1, H, W). out: weights of the last features, (1, C, 1, 1)."""
    fine = layers["fine"](inputs.contiguous(memory_format=torch.channels_last))
    middle = layers["middle"](_half(fine))
    coarse = layers["coarse"](_half(middle))
    middle = layers["up_middle"](_join(coarse, middle))
    fine = layers["up_fine"](_join(middle, fine))
    said: Tensor = (out * fine).sum(dim=1, keepdim=True)
    return said


class _Layer(nn.Module):
    """silu(k ∗ x + b), edges repeated; the convolution of the regularizers, for its fast derivative."""

    def __init__(self, n_in: int, n_out: int, rng: torch.Generator) -> None:
        super().__init__()
        self.k = nn.Parameter(torch.randn(n_out, n_in, 3, 3, generator=rng) / (9 * n_in) ** 0.5)
        self.b = nn.Parameter(torch.zeros(n_out, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        return F.silu(conv(x, self.k) + self.b)


def _layers(channels: tuple[int, ...], rng: torch.Generator) -> nn.Sequential:
    return nn.Sequential(*(_Layer(a, b, rng) for a, b in pairwise(channels)))


def _half(x: Tensor) -> Tensor:
    return F.avg_pool2d(x, 2, ceil_mode=True)


def _join(coarse: Tensor, fine: Tensor) -> Tensor:
    size = (fine.shape[-2], fine.shape[-1])
    return torch.cat([F.interpolate(coarse, size=size, mode="bilinear", align_corners=False), fine], dim=1)
