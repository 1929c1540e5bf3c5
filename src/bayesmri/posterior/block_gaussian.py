"""θ ~ N(μ, LLᵀ) over the kernels of a regularizer, one block of L per kernel."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, final

import torch
from torch import Tensor

from bayesmri.errors import ModelError
from bayesmri.posterior.base import Posterior
from bayesmri.posterior.triangular import dense, diagonal, n_entries, scaled_identity


@final
@dataclass(frozen=True, eq=False)
class BlockGaussian(Posterior):
    """θ = μ + Lε, ε ~ N(0, Id).

    Kernels (out, in, o, o) that L names are drawn, all other weights are μ. Different (out, in) are independent; the
    o² entries of one share a lower-triangular block l with positive diagonal, Cov = llᵀ.

    mu: all weights. L: by kernel's name (out, in, o²(o²+1)/2), the entries of l row by row.
    """

    stochastic: ClassVar[bool] = True
    mu: Mapping[str, Tensor] = field(repr=False)
    L: Mapping[str, Tensor] = field(repr=False)

    @property
    def blocks(self) -> Mapping[str, Tensor]:
        return self.L

    def mean(self) -> dict[str, Tensor]:
        return dict(self.mu)

    def sample(self, rng: torch.Generator) -> dict[str, Tensor]:
        """Differentiable in μ and L. Noise is taken in the order of μ's names, one kernel after the other."""
        return {name: self._draw(name, mu, rng) if name in self.L else mu for name, mu in self.mu.items()}

    def _draw(self, name: str, mu: Tensor, rng: torch.Generator) -> Tensor:
        l = self.L[name]
        eps = torch.randn(*mu.shape[:2], mu[0, 0].numel(), 1, generator=rng, dtype=mu.dtype).to(mu.device)
        return mu + (dense(l) @ eps).view(mu.shape)

    def isotropic(self) -> "BlockGaussian":
        """N(μ, s² Id) with s² = tr LLᵀ / p: as wide on the whole, and nothing learned of where and how."""
        power = sum(float(l.double().square().sum()) for l in self.L.values())
        s = math.sqrt(power / sum(diagonal(l).numel() for l in self.L.values()))
        return BlockGaussian(self.mu, initial_L(self.mu, tuple(self.L), s)).to(next(iter(self.mu.values())).device)

    def to(self, device: torch.device | str) -> "BlockGaussian":
        mu = {name: weight.to(device) for name, weight in self.mu.items()}
        return BlockGaussian(mu, {name: l.to(device) for name, l in self.L.items()})

    @property
    def n_parameters(self) -> int:
        """Of μ and of L."""
        return sum(t.numel() for part in (self.mu, self.L) for t in part.values())


def initial_L(theta: Mapping[str, Tensor], kernels: tuple[str, ...], scale: float) -> dict[str, Tensor]:
    """L = scale · Id for the named kernels."""
    shapes = {name: theta[name].shape for name in kernels}
    return {name: scaled_identity((s[0], s[1]), s[2] * s[3], scale) for name, s in shapes.items()}


def check_L(L: Mapping[str, Tensor], theta: Mapping[str, Tensor], kernels: tuple[str, ...]) -> None:
    """L has one block of the right size for every kernel and no other, finite and with a positive diagonal."""
    if set(L) != set(kernels):
        missing, unknown = sorted(set(kernels) - set(L)), sorted(set(L) - set(kernels))
        raise ModelError(
            f"L lacks the kernels {missing[:3]} and holds unknown {unknown[:3]} ({len(missing)} and {len(unknown)} in "
            f"all), expected the {len(kernels)} stochastic kernels of this configuration"
        )
    for name, l in L.items():
        out, n_in, o = theta[name].shape[:3]
        expected = (out, n_in, n_entries(o * o))
        if tuple(l.shape) != expected or l.dtype != theta[name].dtype:
            raise ModelError(
                f"L of kernel {name} is {l.dtype} of shape {tuple(l.shape)}, expected {theta[name].dtype} of "
                f"{expected}; it was made with another configuration"
            )
        if not (l.isfinite().all() and (diagonal(l) > 0).all()):
            raise ModelError(
                f"L of kernel {name} is not a Cholesky factor, expected finite numbers with a positive diagonal; copy "
                "the model again"
            )
