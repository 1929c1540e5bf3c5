"""The deterministic case: all mass at one θ."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, final

import torch
from torch import Tensor

from bayesmri.posterior.base import Posterior


@final
@dataclass(frozen=True, eq=False)
class Delta(Posterior):
    """θ = μ, always: a draw takes nothing from the generator and returns the very tensors."""

    stochastic: ClassVar[bool] = False
    theta: Mapping[str, Tensor] = field(repr=False)

    @property
    def blocks(self) -> Mapping[str, Tensor]:
        return {}

    def mean(self) -> dict[str, Tensor]:
        return dict(self.theta)

    def sample(self, rng: torch.Generator) -> dict[str, Tensor]:
        return dict(self.theta)

    def to(self, device: torch.device | str) -> "Delta":
        return Delta({name: weight.to(device) for name, weight in self.theta.items()})

    @property
    def n_parameters(self) -> int:
        return sum(weight.numel() for weight in self.theta.values())
