"""U-Net (Ronneberger, Fischer, Brox 2015) as fastMRI's baseline has it: zero-filled magnitude in, magnitude out."""

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bayesmri.baselines.network import BoundNetwork, Network, check_counts, draw_convolutions_, standardise
from bayesmri.complexes import rss
from bayesmri.errors import ConfigError
from bayesmri.physics.fourier import ifft2c
from bayesmri.registry import register

SLOPE = 0.2  # of the leaky rectifiers
CALM = 0.1  # factor of the last convolution's start values
FLOOR = 1e-2  # least σ of a predicted variance, in standard deviations of the zero-filled image
START = -2.0  # ln σ² that the variance starts with, in the same units
HEAD = "doubt."  # of the weights of the variance, which a U-Net without it lacks


@dataclass(frozen=True)
class UNetConfig:
    """The network; the sizes are fastMRI's own defaults, 7.76 M parameters.

    Q: coils, of which it only sees the root-sum-of-squares. features: of the finest scale, doubled at each of the
    `pools` coarser ones. The 214.16 M of the paper's table belong to an older U-Net of fastMRI with 256 features, which
    enlarged images by interpolation; with 256 features this one has 496 M.
    residual: learn what is to be added to the zero-filled image (a short training needs it); False is fastMRI's.
    dropout: the probability of dropping a channel after a rectifier, as in fastMRI: always in training; later only in
        the random passes that samples are (Gal and Ghahramani 2016).
    variance: a second output, σ² of every pixel (Kendall and Gal 2017), learned with loss.kind = "nll".
    """

    Q: int = 1
    features: int = 32
    pools: int = 4
    residual: bool = True
    dropout: float = 0.0
    variance: bool = False

    def __post_init__(self) -> None:
        check_counts("U-Net", self, "Q", "features", "pools")
        if not 0 <= self.dropout < 1:
            raise ConfigError(
                f"got a U-Net with dropout = {self.dropout}, expected a probability from 0 to below 1, such as 0.1"
            )
        if self.dropout and self.variance:
            raise ConfigError(
                "got a U-Net with dropout and variance, expected one of the two, so that σ̂ has one meaning"
            )


@register("unet", UNetConfig)
class UNet(Network):
    """X = X₀ + s u((X₀ − m)/s), with X₀ = RSS(F⁻¹z), its mean m and standard deviation s, and a U-shaped network u.

    With `residual` off it is m + s u(·), as in fastMRI's baseline (without its clamp at 6 s, which cuts off bright
    pixels). Knows neither phase nor k-space: nothing holds the result to the data.

    With `variance` the features before the last convolution also give σ² = s² (FLOOR² + exp v(·)).
    """

    config: UNetConfig

    def __init__(self, config: UNetConfig) -> None:
        super().__init__()
        self.config = config
        self.hourglass = Hourglass(1, 1, features=config.features, pools=config.pools, dropout=config.dropout)
        self.doubt = nn.Conv2d(config.features, 1, 1) if config.variance else None
        self.residual = config.residual
        self.drops, self.doubts = config.dropout > 0, config.variance

    def forward(self, z: Tensor, mask: Tensor, rng: torch.Generator | None = None) -> Tensor:
        return self._image(z, rng)[0]

    def moments(self, z: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """x as `forward` gives it, and σ² of every pixel, real (B, H, W); only with `variance`."""
        assert self.doubt is not None
        x, features, std = self._image(z, None)
        return x, (std.square() * (FLOOR**2 + self.doubt(features).exp()))[:, 0]

    def _image(self, z: Tensor, rng: torch.Generator | None) -> tuple[Tensor, Tensor, Tensor]:
        """x, the features it was made of, and s."""
        X0 = rss(ifft2c(z)).unsqueeze(-3)
        v, mean, std = standardise(X0, (-2, -1))
        features = self.hourglass.features(v, rng)
        X = (X0 if self.residual else mean) + std * self.hourglass.last(features)
        return torch.complex(X, torch.zeros_like(X)), features, std

    @torch.no_grad()
    def draw_(self, rng: torch.Generator) -> None:
        draw_convolutions_(self, rng)
        if self.residual:  # start as a small change of the zero-filled image
            for parameter in self.hourglass.last.parameters():
                parameter.mul_(CALM)
        if self.doubt is not None:
            self.doubt.weight.mul_(CALM)
            assert self.doubt.bias is not None
            self.doubt.bias.fill_(START)

    def smallest(self) -> int:
        return smallest_image(self.config.pools)


def moments(bound: BoundNetwork, z: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """x, complex (B, 1, H, W), and σ² of its pixels, (B, H, W), of a U-Net with `variance`; z, mask as for `bound`."""
    mask = bound.checked(z, mask)
    theta = {f"network.{name}": w for name, w in bound.theta.items()}
    x, variance = torch.func.functional_call(_Moments(bound.network), theta, (z, mask))
    return x, variance


class _Moments(nn.Module):
    """The second door of a network as the first of a module, since only that can be called with other weights."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        assert isinstance(network, UNet)
        self.network = network

    def forward(self, z: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        return self.network.moments(z, mask)


class Hourglass(nn.Module):
    """fastMRI's U-Net, real (B, in, H, W) → (B, out, H, W): number for number `fastmri.models.Unet`, dropout included.

    Down: two 3x3 convolutions, keep a copy, average 2x2 pixels. Up: a transposed 2x2 convolution, the copy beside it,
    two 3x3 convolutions. Every convolution is followed by instance normalisation and a leaky rectifier, but for the
    last, 1x1. Weights lie in the order of fastMRI's. Channels are dropped where a generator comes with the image.
    """

    def __init__(self, channels_in: int, channels_out: int, *, features: int, pools: int, dropout: float = 0.0) -> None:
        super().__init__()
        widths = [features * 2**i for i in range(pools + 1)]
        self.down = nn.ModuleList(Twice(a, b, dropout) for a, b in pairwise([channels_in, *widths]))
        self.up = nn.ModuleList(Twice(2 * w, w, dropout) for w in reversed(widths[:-1]))
        self.last = nn.Conv2d(features, channels_out, 1)
        self.grow = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, stride=2, bias=False) for w in reversed(widths[:-1]))

    def forward(self, v: Tensor, rng: torch.Generator | None = None) -> Tensor:
        out: Tensor = self.last(self.features(v, rng))
        return out

    def features(self, v: Tensor, rng: torch.Generator | None = None) -> Tensor:
        """What the last convolution sees, real (B, features, H, W)."""
        copies: list[Tensor] = []
        for block in self.down:
            v = block(F.avg_pool2d(v, 2) if copies else v, rng)
            copies.append(v)
        copies.pop()
        for grow, block in zip(self.grow, self.up, strict=True):
            copy = copies.pop()
            v = _mirrored(_settle(grow(v)), copy)
            v = block(torch.cat((v, copy), dim=1), rng)
        return v


class Twice(nn.Module):
    """Two 3x3 convolutions, each with instance normalisation, a leaky rectifier and dropout."""

    def __init__(self, channels_in: int, channels_out: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = dropout
        self.first = nn.Conv2d(channels_in, channels_out, 3, padding=1, bias=False)
        self.second = nn.Conv2d(channels_out, channels_out, 3, padding=1, bias=False)

    def forward(self, v: Tensor, rng: torch.Generator | None = None) -> Tensor:
        v = drop(_settle(self.first(v)), self.dropout, rng)
        return drop(_settle(self.second(v)), self.dropout, rng)


def drop(v: Tensor, p: float, rng: torch.Generator | None) -> Tensor:
    """Every channel of every image, (B, C, H, W), is 0 with probability p and divided by 1 − p else; v without rng.

    Drawn on the generator's device, the CPU, so that all devices drop the same.
    """
    if rng is None or p == 0:
        return v
    kept = torch.empty((*v.shape[:2], 1, 1), dtype=v.dtype).bernoulli_(1 - p, generator=rng)
    return v * kept.div_(1 - p).to(v.device)


def smallest_image(pools: int) -> int:
    """Instance normalisation needs two pixels of the coarsest scale in each direction."""
    return int(2 ** (pools + 1))


def _settle(v: Tensor) -> Tensor:
    return F.leaky_relu(F.instance_norm(v), SLOPE, inplace=True)


def _mirrored(v: Tensor, like: Tensor) -> Tensor:
    """One more row or column, mirrored, where averaging 2x2 pixels had dropped an odd one."""
    H, W = (like.shape[i] - v.shape[i] for i in (-2, -1))
    return F.pad(v, (0, W, 0, H), mode="reflect") if H or W else v
