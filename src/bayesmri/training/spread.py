"""The learned spread L of a stochastic run: how it starts, how it moves, what is said about it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from bayesmri.errors import ConfigError
from bayesmri.model import Learned, Model
from bayesmri.posterior.block_gaussian import check_L, initial_L
from bayesmri.posterior.kl import divergence, entropy, log_det, penalty, trace
from bayesmri.posterior.prox import prox_divergence
from bayesmri.posterior.triangular import diagonal
from bayesmri.training.block_adam import BlockAdam

PREFIX = "L."  # of L's gradients and values beside those of θ
PULL = "pull."  # of what is gathered of ⟨∂J/∂L, L⟩
MEMORY = 0.995  # of that: about 200 updates, for one is mostly noise


@dataclass(frozen=True)
class PosteriorConfig:
    """Which distribution of θ is learned.

    kind: delta, one θ, and T with it; gaussian, N(μ, LLᵀ) over the regularizer's kernels, with T fixed at its start:
        the T of train.init_from, or unroll.T0.
    alpha: the prior of L is α^(−1/2) Id.
    beta: of f(L) = β(α tr LLᵀ − log det LLᵀ), a sum over all kernels, that stands beside the mean of J over the batch.
        J follows loss.reduction, and so must β. "sum": ‖·‖₁ sums over the pixels of an image, and β is the paper's.
        "mean": J is smaller by the number n of pixels of one training image X (H·W; patch_rows · patch_cols where
        patches are cut; coils do not count), so that β is the paper's divided by n: 1e-4 on patches of 96 x 368
        becomes 2.8e-9. With images of several sizes the sum keeps the paper's balance only on average.
    L0: L starts as L0 · Id, unless train.init_from has an L.
    lr: the learning rate of L; it follows the schedule of optimizer.lr. Gradients of L are never clipped, which would
        change their balance with f.
    draws: how many θ an update averages over; the paper draws one.
    antithetic: draws come in pairs μ ± Lε. The part of ∂J/∂L that is ∂J/∂μ of the minibatch times noise cancels
        within a pair: it is most of ∂J/∂L where L is small, and about half of it at L0.
    val_sample: validate one θ ~ N(μ, LLᵀ) besides μ.
    """

    kind: Literal["delta", "gaussian"] = "delta"
    alpha: float = 10.0
    beta: float = 1e-4
    L0: float = 1e-3**0.5
    lr: float = 1e-4
    draws: int = 1
    antithetic: bool = False
    val_sample: bool = False

    def __post_init__(self) -> None:
        if not (0 < self.alpha < float("inf") and 0 <= self.beta < float("inf") and 0 < self.L0 < float("inf")):
            raise ConfigError(
                f"got a posterior with alpha = {self.alpha}, beta = {self.beta}, L0 = {self.L0}, expected "
                "alpha and L0 above 0, beta of at least 0"
            )
        if not self.lr >= 0 or self.draws < 1:
            raise ConfigError(
                f"got a posterior with lr = {self.lr}, draws = {self.draws}, expected lr ≥ 0 and at least 1 draw"
            )
        if self.antithetic and self.draws % 2:
            raise ConfigError(f"got posterior.antithetic with draws = {self.draws}, expected an even number, for pairs")

    @property
    def n_draws(self) -> int:
        """θ per update; a delta gives the same one again."""
        return self.draws if self.kind == "gaussian" else 1


@dataclass(eq=False)
class Spread:
    """L by kernel, its optimiser and its moving average, where there is one.

    pull: moving average of ⟨∂J/∂L, L⟩ by kernel, and under "" the weight that it has gathered.
    """

    L: dict[str, Tensor]
    adam: BlockAdam
    average: dict[str, Tensor] | None
    pull: dict[str, Tensor] = field(default_factory=dict)

    def best(self) -> dict[str, Tensor]:
        """The L to validate and to save."""
        return self.L if self.average is None else self.average

    @torch.no_grad()
    def update(self, grads: Mapping[str, Tensor], config: PosteriorConfig, *, factor: float, decay: float) -> None:
        """One step on J and the prox of f, then the moving average; factor is the schedule's."""

        self._gather(grads)

        def prox(l: Tensor, h: Tensor) -> Tensor:
            return prox_divergence(l, h, alpha=config.alpha, beta=config.beta)

        self.adam.step(grads, config.lr * factor, prox)
        for name, average in (self.average or {}).items():
            average.lerp_(self.L[name], 1 - decay)  # triangles with positive diagonal stay such

    def _gather(self, grads: Mapping[str, Tensor]) -> None:
        found = {name: (grads[name] * l).sum().double().cpu() for name, l in self.L.items()}
        for name, value in (*found.items(), ("", torch.ones((), dtype=torch.float64))):
            self.pull[name] = torch.lerp(self.pull.get(name, torch.zeros_like(value)), value, 1 - MEMORY)

    def stationarity(self, config: PosteriorConfig) -> dict[str, float]:
        """v = ⟨∂J/∂L, L⟩ / [2β(p − α tr LLᵀ)] by kernel, of the last few hundred updates: 1 where L is at its optimum.

        Above 1 the data pull L together, below 1 the penalty still widens it. Nothing before the first update or
        without β.
        """
        if not self.pull or not config.beta:
            return {}
        gathered = float(self.pull[""])
        found = {}
        for name, l in self.L.items():
            room = diagonal(l).numel() - config.alpha * float(l.detach().double().square().sum())
            found[name] = float(self.pull[name]) / gathered / (2 * config.beta * room) if room else 0.0
        return found

    def state(self) -> dict[str, Tensor]:
        """L, its moments and the pull on it by name; the average is in the model."""
        pull = {PULL + name: value for name, value in self.pull.items()}
        return {PREFIX + name: l.detach() for name, l in self.L.items()} | self.adam.state() | pull

    @torch.no_grad()
    def restore(self, state: Mapping[str, Tensor], average: Mapping[str, Tensor]) -> None:
        """The inverse of `state`."""
        for name, l in self.L.items():
            l.copy_(state[PREFIX + name])
        self.adam.restore(state)
        self.pull = {name.removeprefix(PULL): t.clone() for name, t in state.items() if name.startswith(PULL)}
        for name, tensor in (self.average or {}).items():
            tensor.copy_(average[name])


def start_spread(
    config: PosteriorConfig,
    reg: Learned,
    origin: Model | None,
    *,
    betas: tuple[float, float],
    eps: float,
    averaged: bool,
) -> Spread | None:
    """L0 · Id, or the L of another stochastic model; None where θ is not drawn."""
    if config.kind == "delta":
        return None
    if not reg.kernels():
        raise ConfigError(
            "got posterior.kind = gaussian with a regularizer that has no kernels to draw, expected delta"
        )
    L = initial_L(reg.weights(), reg.kernels(), config.L0)
    if origin is not None and origin.stochastic:
        blocks = origin.distribution().blocks
        check_L(blocks, reg.weights(), reg.kernels())
        L = {name: blocks[name].detach().clone() for name in L}
    L = {name: l.to(reg.weights()[name].device) for name, l in L.items()}
    average = {name: l.clone() for name, l in L.items()} if averaged else None
    L = {name: l.requires_grad_() for name, l in L.items()}
    return Spread(L, BlockAdam(L, betas=betas, eps=eps), average)


@torch.no_grad()
def spread_facts(L: Mapping[str, Tensor], config: PosteriorConfig) -> dict[str, float]:
    """H̄, and KL, tr LLᵀ, log det LLᵀ and f(L) summed over the kernels."""
    return {
        "entropy": float(entropy(L)),
        "kl": float(divergence(L, alpha=config.alpha)),
        "trace": float(trace(L)),
        "log_det": float(log_det(L)),
        "penalty": float(penalty(L, alpha=config.alpha, beta=config.beta)),
    }


def pull_back(theta: Mapping[str, Tensor], L: Mapping[str, Tensor], g: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """∂J/∂L of θ = μ + Lε from g = ∂J/∂θ: per kernel the lower triangle of g εᵀ. (∂J/∂μ is g itself.)

    theta: as drawn, with its graph.
    """
    names = list(L)
    grads = torch.autograd.grad([theta[n] for n in names], [L[n] for n in names], [g[n] for n in names])
    return dict(zip(names, grads, strict=True))
