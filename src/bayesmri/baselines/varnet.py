"""E2E-VarNet (Sriram et al. 2020): unrolled gradient steps in k-space, each with a U-Net; learned sensitivities."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bayesmri.baselines.network import Network, check_counts, draw_convolutions_, standardise
from bayesmri.baselines.unet import Hourglass, smallest_image
from bayesmri.complexes import to_complex, to_real
from bayesmri.errors import ConfigError
from bayesmri.physics.centre import central_block, unit_rss
from bayesmri.physics.fourier import fft2c, ifft2c
from bayesmri.registry import register

CALM = 0.1  # factor of the last convolutions' start values: the steps start as small changes of k
GRID = 16  # images are padded to multiples of this, whatever the number of pools


@dataclass(frozen=True)
class VarNetConfig:
    """The network; the defaults are the published 29.94 M parameters.

    Q: coils. cascades: unrolled steps. features, pools: of the U-Net of each step.
    sens_features, sens_pools: of the U-Net that finds the sensitivities. With sens_features = 0 there is none and the
        sensitivities are one: for a single coil.
    """

    Q: int = 1
    cascades: int = 12
    features: int = 18
    pools: int = 4
    sens_features: int = 8
    sens_pools: int = 4

    def __post_init__(self) -> None:
        check_counts("E2E-VarNet", self, "Q", "cascades", "features", "pools", "sens_pools")
        if self.sens_features < 0 or (self.sens_features == 0 and self.Q > 1):
            raise ConfigError(
                f"got an E2E-VarNet with sens_features = {self.sens_features} for Q = {self.Q} coils, "
                "expected at least 1, since several coils have sensitivities to find"
            )


@register("varnet", VarNetConfig)
class VarNet(Network):
    """k ← k − η M(k − z) − F S u(Sᴴ F⁻¹ k) from k = z, with a learned η and U-Net u per step; x = F⁻¹k at the end.

    (S m)_q = s_q m and Sᴴ x = Σ_q s̄_q x_q. Number for number `fastmri.models.VarNet`, except where half of k-space is
    fully sampled (R = 1), of which fastMRI takes one line as the centre.
    """

    config: VarNetConfig

    def __init__(self, config: VarNetConfig) -> None:
        super().__init__()
        self.config = config
        self.sens = NormalisedUNet(config.sens_features, config.sens_pools) if config.sens_features else None
        self.eta = nn.ParameterList(torch.empty(1) for _ in range(config.cascades))
        self.steps = nn.ModuleList(NormalisedUNet(config.features, config.pools) for _ in range(config.cascades))

    def forward(self, z: Tensor, mask: Tensor) -> Tensor:
        s = self.sensitivities(z, mask)
        k = z
        for eta, u in zip(self.eta, self.steps, strict=True):
            m = (s.conj() * ifft2c(k)).sum(dim=-3, keepdim=True)
            k = k - eta * (mask * (k - z)) - fft2c(s * u(m))
        return ifft2c(k)

    def sensitivities(self, z: Tensor, mask: Tensor) -> Tensor:
        """s = c / RSS(c), where c_q is what a U-Net makes of each coil's image of the central lines."""
        if self.sens is None:
            return torch.ones_like(z)
        B, Q, H, W = z.shape
        coils = ifft2c(z * _fastmri_lines(mask)).reshape(B * Q, 1, H, W)
        return unit_rss(self.sens(coils).reshape(B, Q, H, W))

    @torch.no_grad()
    def draw_(self, rng: torch.Generator) -> None:
        draw_convolutions_(self, rng)
        for eta in self.eta:
            eta.fill_(1.0)
        for module in self.steps.modules():
            if isinstance(module, Hourglass):
                for parameter in module.last.parameters():
                    parameter.mul_(CALM)

    def smallest(self) -> int:
        """Images are padded to multiples of 16 first, so the smallest is the least that pads to enough."""
        pools = max(self.config.pools, self.config.sens_pools if self.sens is not None else 0)
        return max(1, smallest_image(pools) - GRID + 1)


class NormalisedUNet(nn.Module):
    """A U-Net of one complex image: real and imaginary part standardised, padded with zeros, and all that undone."""

    def __init__(self, features: int, pools: int) -> None:
        super().__init__()
        self.hourglass = Hourglass(2, 2, features=features, pools=pools)

    def forward(self, x: Tensor) -> Tensor:
        """Complex (B, 1, H, W) → the same."""
        v, mean, std = standardise(to_real(x), (-2, -1))
        H, W = v.shape[-2:]
        top, bottom = _margins(H)
        left, right = _margins(W)
        v = self.hourglass(F.pad(v, (left, right, top, bottom)))[..., top : top + H, left : left + W]
        return to_complex(v * std + mean)


def _fastmri_lines(mask: Tensor) -> Tensor:
    """The central lines as fastMRI cuts them, columns [(W − n + 1) // 2, (W − n + 1) // 2 + n): bool (B, 1, 1, W).

    Of an odd W that is one column to the right of `central_lines`; its network, and weights trained with it, see those.
    Of points the central block, (B, 1, H, W).
    """
    H, W = mask.shape[-2:]
    n_rows, n = central_block(mask, H)
    columns = _fastmri_middle(W, n)
    return columns if H == 1 else columns & _fastmri_middle(H, n_rows).transpose(-2, -1)


def _fastmri_middle(size: int, n: Tensor) -> Tensor:
    n = n[:, None, None, None]
    first, place = (size - n + 1) // 2, torch.arange(size, device=n.device)
    return (place >= first) & (place < first + n)


def _margins(n: int) -> tuple[int, int]:
    """Zeros before and after n samples to reach a multiple of 16."""
    missing = -n % GRID
    return math.floor(missing / 2), math.ceil(missing / 2)
