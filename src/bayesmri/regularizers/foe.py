"""Fields of experts: R(x, θ) = Σ_k w_k Σ_i φ((K_k x)_i), φ(u) = ½ log(1 + u²), with zero-mean filters K_k and w ≥ 0."""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn

from bayesmri.errors import ConfigError
from bayesmri.registry import register
from bayesmri.regularizers.base import Bound, Core, ParametricRegularizer, Weights, check_weights
from bayesmri.regularizers.blocks import phi, phi_prime
from bayesmri.regularizers.conv import conv, conv_adjoint


@final
@dataclass(frozen=True)
class FoEConfig:
    """Q: coils. features: filters. kernel_size: o, odd.

    init_scale: every w_k at the start, so it is the start scale of R.
    """

    Q: int = 1
    features: int = 48
    kernel_size: int = 7
    init_scale: float = 1e-2

    def __post_init__(self) -> None:
        for name in ("Q", "features"):
            if getattr(self, name) < 1:
                raise ConfigError(f"got an FoE with {name} = {getattr(self, name)}, expected at least 1")
        if self.kernel_size < 3 or self.kernel_size % 2 == 0:
            raise ConfigError(f"got an FoE with kernel_size = {self.kernel_size}, expected an odd number of at least 3")
        if not 0 < self.init_scale < float("inf"):
            raise ConfigError(f"got an FoE with init_scale = {self.init_scale}, expected a positive number")

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The name and shape of every weight in θ."""
        o, m = self.kernel_size, self.features
        return {"K": (m, 2 * self.Q, o, o), "w": (1, m, 1, 1)}


@final
@dataclass(frozen=True)
class FoECore(Core):
    """r = w φ(K v) and ∇R = K* (wᵀ ⊙ φ'(K v))."""

    def density(self, v: Tensor, theta: Weights) -> Tensor:
        return (theta["w"] * phi(conv(v, theta["K"]))).sum(dim=1, keepdim=True)

    def grad(self, v: Tensor, theta: Weights) -> Tensor:
        u = conv(v.contiguous(memory_format=torch.channels_last), theta["K"])
        return conv_adjoint(theta["w"] * phi_prime(u), theta["K"])


@register("foe", FoEConfig)
@final
class FoE(ParametricRegularizer):
    """The owner of the experts: filters start as N(0, 1/(2Q·o²)) and projected, weights equal."""

    def __init__(self, config: FoEConfig, rng: torch.Generator) -> None:
        super().__init__()
        self.config = config
        shape = config.shapes()["K"]
        n_in = shape[1] * shape[2] * shape[3]
        self.K = nn.Parameter(torch.randn(shape, generator=rng) / n_in**0.5)
        self.w = nn.Parameter(torch.full(config.shapes()["w"], config.init_scale))
        self.project_()

    def weights(self) -> dict[str, Tensor]:
        return {"K": self.K, "w": self.w}

    def bind(self, theta: Weights) -> Bound:
        check_weights(theta, self.config.shapes())
        return Bound(FoECore(), dict(theta), self.config.Q)

    def kernels(self) -> tuple[str, ...]:
        """The filters of the experts."""
        return ("K",)

    @torch.no_grad()
    def project_(self) -> None:
        """Each filter has zero mean over (2Q x o x o); w ≥ 0, so that R ≥ 0."""
        self.K.sub_(self.K.mean(dim=(1, 2, 3), keepdim=True))
        self.w.clamp_min_(0)
