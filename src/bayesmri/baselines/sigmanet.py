"""Σ-Net (Schlemper et al. 2019, Hammernik et al. 2019): the mean of networks that differ in how they meet the data."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from bayesmri.baselines.down_up import DownUp
from bayesmri.baselines.network import Network, check_counts, draw_convolutions_, to_unit
from bayesmri.complexes import to_complex, to_real
from bayesmri.errors import ConfigError, ShapeError
from bayesmri.physics.centre import sensitivities
from bayesmri.physics.conjugate_gradients import conjugate_gradients
from bayesmri.physics.espirit import espirit
from bayesmri.physics.fidelity import fidelity_grad, prox_data
from bayesmri.physics.fourier import ifft2c
from bayesmri.physics.operator import Operator
from bayesmri.physics.sense import combine
from bayesmri.registry import register

Member = Literal["pcn", "gd", "pm", "vs"]
Maps = Literal["centre", "espirit"]
CALM = 0.1  # factor of the last convolutions' start values
CG_STEPS = 6  # of the proximal map with several coils
MOST = 100  # iterations: every one keeps its activations in training, a mistyped number takes all memory
START = {"pcn": 10.0, "gd": 1.0, "pm": 10.0, "vs": 10.0}  # λ


@dataclass(frozen=True)
class SigmaNetConfig:
    """The ensemble.

    Q: coils. members: the networks, each with weights of its own, shared by its iterations.
        pcn: parallel coil network, coil images as channels, proximal map of the data.
        gd, pm, vs: sensitivity networks, one image m with coil images s_q m, that meet the data by a gradient step, by
        its proximal map, or by variable splitting.
    iterations: unrolled, of each member. features, blocks: of the down-up network in each.
    maps: sensitivities, from the softened central lines alone (centre), or by ESPIRiT, as published.
    """

    Q: int = 1
    members: tuple[Member, ...] = ("pcn", "gd", "pm", "vs")
    iterations: int = 8
    features: int = 64
    blocks: int = 2
    maps: Maps = "centre"

    def __post_init__(self) -> None:
        check_counts("Σ-Net", self, "Q", "iterations", "features", "blocks")
        if self.iterations > MOST:
            raise ConfigError(f"got a Σ-Net with iterations = {self.iterations}, expected at most {MOST}")
        if not self.members or len(set(self.members)) != len(self.members) or set(self.members) - set(get_args(Member)):
            raise ConfigError(
                f"got a Σ-Net with members {', '.join(self.members) or 'none'}, "
                f"expected some of {', '.join(get_args(Member))}, each once"
            )


@register("sigmanet", SigmaNetConfig)
class SigmaNet(Network):
    """x = mean of the members' coil images. Every member repeats v = m − u(m), and then, with weight λ of the data:

        gd: m ← v − λ Sᴴ∇D(S m)                  pm: m ← prox_{λD∘S}(v)
        vs: m ← (α v + Sᴴ prox_{λD}(S v))/(α + 1)    pcn: x ← prox_{λD}(x − u(x))

    (S m)_q = s_q m with sensitivities s from the central lines (`maps`); u is a down-up network; λ, α > 0 are learned.
    All for z of unit size (`to_unit`).
    """

    config: SigmaNetConfig

    def __init__(self, config: SigmaNetConfig) -> None:
        super().__init__()
        self.config = config
        width = {"pcn": 2 * config.Q}
        self.u = nn.ModuleDict(
            {
                name: DownUp(width.get(name, 2), features=config.features, blocks=config.blocks)
                for name in config.members
            }
        )
        self.log_weight = nn.ParameterDict({name: torch.empty(()) for name in config.members})
        self.log_alpha = nn.ParameterDict({name: torch.empty(()) for name in config.members if name == "vs"})

    def forward(self, z: Tensor, mask: Tensor) -> Tensor:
        z, sigma = to_unit(z)
        s = (espirit if self.config.maps == "espirit" else sensitivities)(z, mask)
        return sigma * torch.stack([self.member(name, z, mask, s) for name in self.config.members]).mean(dim=0)

    def member(self, name: Member, z: Tensor, mask: Tensor, s: Tensor) -> Tensor:
        """The coil images of one member, complex (B, Q, H, W)."""
        if name == "pcn" and z.shape[-3] != self.config.Q:
            raise ShapeError(f"got data of {z.shape[-3]} coils for a Σ-Net of {self.config.Q}; compress the coils")
        x = ifft2c(z)
        m = x if name == "pcn" else combine(s, x)
        for _ in range(self.config.iterations):
            v = m - to_complex(self.u[name](to_real(m)))
            m = self._meet(name, m, v, z, mask, s)
        return m if name == "pcn" else s * m

    def _meet(self, name: Member, m: Tensor, v: Tensor, z: Tensor, mask: Tensor, s: Tensor) -> Tensor:
        weight: Tensor = self.log_weight[name].exp()
        if name == "pcn":
            return prox_data(v, z, mask, weight)
        if name == "gd":
            return v - weight * combine(s, fidelity_grad(s * m, z, mask))
        if name == "pm":
            return _prox(v, z, mask, s, weight)
        alpha: Tensor = self.log_alpha[name].exp()
        return (alpha * v + combine(s, prox_data(s * v, z, mask, weight))) / (alpha + 1)

    @torch.no_grad()
    def draw_(self, rng: torch.Generator) -> None:
        draw_convolutions_(self, rng)
        for layer in self.modules():
            if isinstance(layer, nn.PReLU):
                layer.weight.fill_(0.25)
            if isinstance(layer, DownUp):
                for parameter in layer.last.parameters():
                    parameter.mul_(CALM)
        for name, weight in self.log_weight.items():
            weight.fill_(math.log(START[name]))
        for weight in self.log_alpha.values():
            weight.zero_()

    def smallest(self) -> int:
        """Images are padded."""
        return 1


def _prox(v: Tensor, z: Tensor, mask: Tensor, s: Tensor, weight: Tensor) -> Tensor:
    """argmin_m ½‖m − v‖² + λ D(S m, z), from (1 + λ SᴴA*A S) m = v + λ SᴴA*z; in closed form for a single coil."""
    if z.shape[-3] == 1:
        return prox_data(v, z, mask, weight)
    A = Operator(mask)

    def normal(m: Tensor) -> Tensor:
        return m + weight * combine(s, A.adjoint(A.forward(s * m)))

    return conjugate_gradients(normal, v + weight * combine(s, A.adjoint(z)), v, steps=CG_STEPS)
