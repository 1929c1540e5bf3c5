"""U-Net (Ronneberger, Fischer, Brox 2015) as fastMRI's baseline has it: zero-filled magnitude in, magnitude out."""

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bayesmri.baselines.network import Network, check_counts, draw_convolutions_, standardise
from bayesmri.complexes import rss
from bayesmri.physics.fourier import ifft2c

SLOPE = 0.2  # of the leaky rectifiers
CALM = 0.1  # factor of the last convolution's start values


@dataclass(frozen=True)
class UNetConfig:
    """The network; the sizes are fastMRI's own defaults, 7.76 M parameters.

    Q: coils, of which it only sees the root-sum-of-squares. features: of the finest scale, doubled at each of the
    `pools` coarser ones. The 214.16 M of the paper's table belong to an older U-Net of fastMRI with 256 features, which
    enlarged images by interpolation; with 256 features this one has 496 M.
    residual: learn what is to be added to the zero-filled image (a short training needs it); False is fastMRI's.
    """

    Q: int = 1
    features: int = 32
    pools: int = 4
    residual: bool = True

    def __post_init__(self) -> None:
        check_counts("U-Net", self, "Q", "features", "pools")


class UNet(Network):
    """X = X₀ + s u((X₀ − m)/s), with X₀ = RSS(F⁻¹z), its mean m and standard deviation s, and a U-shaped network u.

    With `residual` off it is m + s u(·), as in fastMRI's baseline (without its clamp at 6 s, which cuts off bright
    pixels). Knows neither phase nor k-space: nothing holds the result to the data.
    """

    config: UNetConfig

    def __init__(self, config: UNetConfig) -> None:
        super().__init__()
        self.config = config
        self.hourglass = Hourglass(1, 1, features=config.features, pools=config.pools)
        self.residual = config.residual

    def forward(self, z: Tensor, mask: Tensor) -> Tensor:
        X0 = rss(ifft2c(z)).unsqueeze(-3)
        v, mean, std = standardise(X0, (-2, -1))
        X = (X0 if self.residual else mean) + std * self.hourglass(v)
        return torch.complex(X, torch.zeros_like(X))

    @torch.no_grad()
    def draw_(self, rng: torch.Generator) -> None:
        draw_convolutions_(self, rng)
        if self.residual:  # start as a small change of the zero-filled image
            for parameter in self.hourglass.last.parameters():
                parameter.mul_(CALM)

    def smallest(self) -> int:
        return smallest_image(self.config.pools)


class Hourglass(nn.Module):
    """fastMRI's U-Net, real (B, in, H, W) → (B, out, H, W): number for number `fastmri.models.Unet` without dropout.

    Down: two 3x3 convolutions, keep a copy, average 2x2 pixels. Up: a transposed 2x2 convolution, the copy beside it,
    two 3x3 convolutions. Every convolution is followed by instance normalisation and a leaky rectifier, but for the
    last, 1x1. Weights lie in the order of fastMRI's.
    """

    def __init__(self, channels_in: int, channels_out: int, *, features: int, pools: int) -> None:
        super().__init__()
        widths = [features * 2**i for i in range(pools + 1)]
        self.down = nn.ModuleList(Twice(a, b) for a, b in pairwise([channels_in, *widths]))
        self.up = nn.ModuleList(Twice(2 * w, w) for w in reversed(widths[:-1]))
        self.last = nn.Conv2d(features, channels_out, 1)
        self.grow = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, stride=2, bias=False) for w in reversed(widths[:-1]))

    def forward(self, v: Tensor) -> Tensor:
        copies: list[Tensor] = []
        for block in self.down:
            v = block(F.avg_pool2d(v, 2) if copies else v)
            copies.append(v)
        copies.pop()
        for grow, block in zip(self.grow, self.up, strict=True):
            copy = copies.pop()
            v = _mirrored(_settle(grow(v)), copy)
            v = block(torch.cat((v, copy), dim=1))
        out: Tensor = self.last(v)
        return out


class Twice(nn.Module):
    """Two 3x3 convolutions, each with instance normalisation and a leaky rectifier."""

    def __init__(self, channels_in: int, channels_out: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels_in, channels_out, 3, padding=1, bias=False)
        self.second = nn.Conv2d(channels_out, channels_out, 3, padding=1, bias=False)

    def forward(self, v: Tensor) -> Tensor:
        return _settle(self.second(_settle(self.first(v))))


def smallest_image(pools: int) -> int:
    """Instance normalisation needs two pixels of the coarsest scale in each direction."""
    return int(2 ** (pools + 1))


def _settle(v: Tensor) -> Tensor:
    return F.leaky_relu(F.instance_norm(v), SLOPE, inplace=True)


def _mirrored(v: Tensor, like: Tensor) -> Tensor:
    """One more row or column, mirrored, where averaging 2x2 pixels had dropped an odd one."""
    H, W = (like.shape[i] - v.shape[i] for i in (-2, -1))
    return F.pad(v, (0, W, 0, H), mode="reflect") if H or W else v
