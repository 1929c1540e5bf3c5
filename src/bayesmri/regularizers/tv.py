"""Smoothed total variation: R(x) = λ Σ_i (√(Σ_{d,q} |∂_d x_{i,q}|² + ε²) − ε), isotropic and joint over the coils."""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn

from bayesmri.errors import ConfigError
from bayesmri.registry import register
from bayesmri.regularizers.base import Bound, Core, ParametricRegularizer, Weights, check_weights

LAMBDA = "lam"  # λ among the weights


@final
@dataclass(frozen=True)
class TVConfig:
    """Q: coils, of which any number will do. weight: λ at the start, one weight to learn.

    epsilon: ε > 0; edges below it cost like their square.
    """

    Q: int = 1
    weight: float = 1e-2
    epsilon: float = 1e-3

    def __post_init__(self) -> None:
        if not 0 <= self.weight < float("inf"):
            raise ConfigError(f"got TV with weight = {self.weight}, expected a number of at least 0")
        if not 0 < self.epsilon < float("inf"):
            raise ConfigError(f"got TV with epsilon = {self.epsilon}, expected a positive number, such as 1e-3")


@final
@dataclass(frozen=True)
class TVCore(Core):
    """Coils, real and imaginary parts are channels alike: |∂x|² sums over all of them."""

    epsilon: float

    def density(self, v: Tensor, theta: Weights) -> Tensor:
        """r_i = λ (√(‖∂v_i‖² + ε²) − ε)."""
        return theta[LAMBDA] * (self._magnitude(differences(v)).squeeze(-4) - self.epsilon)

    def grad(self, v: Tensor, theta: Weights) -> Tensor:
        """∇R = λ ∂* (∂v / √(‖∂v‖² + ε²))."""
        d = differences(v)
        return theta[LAMBDA] * differences_adjoint(d / self._magnitude(d))

    def _magnitude(self, d: Tensor) -> Tensor:
        return (d.square().sum(dim=(-4, -3), keepdim=True) + self.epsilon**2).sqrt()


@register("tv", TVConfig)
@final
class TV(ParametricRegularizer):
    """The owner of λ, for any number of coils."""

    def __init__(self, config: TVConfig, rng: torch.Generator | None = None) -> None:
        super().__init__()
        self.config = config
        self.lam = nn.Parameter(torch.tensor(config.weight))

    def weights(self) -> dict[str, Tensor]:
        return {LAMBDA: self.lam}

    def bind(self, theta: Weights) -> Bound:
        check_weights(theta, {LAMBDA: ()})
        return Bound(TVCore(self.config.epsilon), dict(theta))

    def kernels(self) -> tuple[str, ...]:
        """None: the differences are fixed."""
        return ()

    @torch.no_grad()
    def project_(self) -> None:
        """λ ≥ 0."""
        self.lam.clamp_min_(0)


def differences(x: Tensor) -> Tensor:
    """∂x, forward and periodic, along H then W: real or complex (..., Q, H, W) → (..., 2, Q, H, W)."""
    return torch.stack((x.roll(-1, -2) - x, x.roll(-1, -1) - x), dim=-4)


def differences_adjoint(d: Tensor) -> Tensor:
    """∂* d, minus the divergence: (..., 2, Q, H, W) → (..., Q, H, W)."""
    dh, dw = d.unbind(-4)
    return dh.roll(1, -2) - dh + dw.roll(1, -1) - dw
