"""A regularizer of which only the density r(v, θ) is written down: ∇R follows by autograd."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from bayesmri.regularizers.base import Bound, Core, ParametricRegularizer, Weights, check_weights


class EnergyRegularizer(ParametricRegularizer):
    """R(x, θ) = Σ_i r(x, θ)_i with r of your own.

    A subclass makes its parameters in `__init__(self, config, rng)`, after `super().__init__(config)`, with start
    values from `rng`, and writes `density`. The o x o kernels that `kernels` names can be drawn from N(μ, LLᵀ).
    """

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config

    @abstractmethod
    def density(self, v: Tensor, theta: Weights) -> Tensor:
        """r(v, θ) of real features v (B, 2Q, H, W), real parts first: real (B, 1, H, W).

        theta: the parameters by their names in this module. Use these, not the module's own.
        """

    def kernels(self) -> tuple[str, ...]:
        """None are drawn, unless a subclass names some."""
        return ()

    def project_(self) -> None:
        """Any weights will do, unless a subclass says otherwise."""

    @final
    def weights(self) -> dict[str, Tensor]:
        return dict(self.named_parameters())

    @final
    def bind(self, theta: Weights) -> Bound:
        check_weights(theta, {name: tuple(w.shape) for name, w in self.weights().items()})
        return Bound(EnergyCore(self), dict(theta), self.config.Q)


@final
@dataclass(frozen=True, eq=False)
class EnergyCore(Core):
    """r as the owner writes it, and ∇R = d(Σ r)/dv by autograd."""

    owner: EnergyRegularizer

    def density(self, v: Tensor, theta: Weights) -> Tensor:
        return self.owner.density(v, theta)

    def grad(self, v: Tensor, theta: Weights) -> Tensor:
        further = torch.is_grad_enabled()
        with torch.enable_grad():
            at = v if v.requires_grad else v.detach().requires_grad_()
            (gradient,) = torch.autograd.grad(self.owner.density(at, theta).sum(), at, create_graph=further)
        return gradient
