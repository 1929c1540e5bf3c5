"""What training changes: weights, T or L, Adam's moments, the moving average, and how far it has come."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from bayesmri.baselines.unet import HEAD
from bayesmri.checkpoint import Checkpoint
from bayesmri.errors import ModelError
from bayesmri.model import Learned, Model, build
from bayesmri.posterior.base import Posterior
from bayesmri.posterior.block_gaussian import BlockGaussian
from bayesmri.posterior.delta import Delta
from bayesmri.training.optimizer import Adam, clip_norm
from bayesmri.training.schedule import moving_average_decay, rate, resets, unrolled_steps
from bayesmri.training.settings import TrainConfig
from bayesmri.training.spread import PREFIX, Spread, spread_facts, start_spread
from bayesmri.training.widen import widen


@dataclass(eq=False)
class State:
    """The moving parts of a run. step counts finished updates, elapsed the seconds they took, over all sessions.

    T: learned where it requires a gradient; 0 for a network, which has none.
    spread: L and what moves it; None where θ is not drawn.
    """

    reg: Learned
    T: nn.Parameter
    adam: Adam
    average: dict[str, Tensor] | None
    spread: Spread | None = None
    step: int = 0
    elapsed: float = 0.0

    def theta(self) -> dict[str, Tensor]:
        """The weights to validate and to save: the moving average where there is one."""
        return self.reg.weights() if self.average is None else self.average

    def posterior(self) -> Posterior:
        """The distribution that updates draw from: of the weights and L as they are now, which the draws follow."""
        theta = self.reg.weights()
        return Delta(theta) if self.spread is None else BlockGaussian(theta, self.spread.L)

    def distribution(self) -> Posterior:
        """The distribution to validate and to save: of the moving averages where there are any."""
        theta = self.theta()
        return Delta(theta) if self.spread is None else BlockGaussian(theta, self.spread.best())

    def reset_moments(self) -> None:
        """Adam starts anew."""
        self.adam.reset()
        if self.spread is not None:
            self.spread.adam.reset()


def start(config: TrainConfig, origin: Model | None = None, *, device: torch.device | str = "cpu") -> State:
    """The state before the first update: drawn (on the CPU, whatever the device), or the weights and T of a model."""
    reg = build(config.model, torch.Generator().manual_seed(config.seed))
    T0 = config.unroll.T0 if config.unrolled else 0.0
    if origin is not None:
        origin = widen(origin, reg, L0=config.posterior.L0)
        _copy(_new_head(reg) | origin.regularizer.weights(), reg)
        T0 = origin.T if config.unroll.keep == "T" else origin.T / origin.S * config.unroll.S_start
    reg.to(device)
    betas, eps, averaged = config.optimizer.betas, config.optimizer.eps, config.optimizer.ema > 0
    spread = start_spread(config.posterior, reg, origin, betas=betas, eps=eps, averaged=averaged)
    T = nn.Parameter(torch.tensor(float(T0), device=device), requires_grad=spread is None and config.unrolled)
    adam = Adam(reg.weights() | ({"T": T} if T.requires_grad else {}), betas=betas, eps=eps)
    average = {n: w.detach().clone() for n, w in reg.weights().items()} if averaged else None
    return State(reg, T, adam, average, spread)


def resume(config: TrainConfig, checkpoint: Checkpoint, *, device: torch.device | str = "cpu") -> State:
    """The state exactly as it was saved."""
    state, saved = start(config, device=device), checkpoint.state
    if state.spread is None and any(name.startswith(PREFIX) for name in saved):
        raise ModelError(f"checkpoint {checkpoint.step} has an L: resume it with posterior.kind = gaussian")
    try:
        with torch.no_grad():
            for name, weight in state.reg.weights().items():
                weight.copy_(saved[f"theta.{name}"])
            state.T.copy_(saved["T"])
            for name, average in (state.average or {}).items():
                average.copy_(checkpoint.model.regularizer.weights()[name])
        state.adam.restore(saved)
        if state.spread is not None:
            posterior = checkpoint.model.posterior
            state.spread.restore(saved, posterior.L if isinstance(posterior, BlockGaussian) else {})
    except (KeyError, RuntimeError) as error:
        raise ModelError(f"checkpoint {checkpoint.step} does not fit this configuration: {error}") from error
    state.step, state.elapsed = checkpoint.step, float(checkpoint.facts["elapsed"])
    return state


def snapshot(
    config: TrainConfig,
    state: State,
    *,
    metrics: Mapping[str, float] | None,
    facts: Mapping[str, Any],
    card: Mapping[str, Any],
) -> Checkpoint:
    """The state as a checkpoint."""
    saved = {f"theta.{n}": w.detach() for n, w in state.reg.weights().items()}
    saved |= {"T": state.T.detach(), **state.adam.state()}
    if state.spread is not None:
        saved |= state.spread.state()
    return Checkpoint(
        model=as_model(config, state, card),
        step=state.step,
        state=saved,
        facts={**facts, "elapsed": state.elapsed},
        metrics=metrics,
    )


def as_model(config: TrainConfig, state: State, card: Mapping[str, Any]) -> Model:
    """The model as it would reconstruct now, with a copy of the weights and of L."""
    reg = build(config.model, torch.Generator().manual_seed(0))
    _copy(state.theta(), reg)
    posterior, facts = None, {}
    if state.spread is not None:
        L = {name: l.detach().cpu().clone() for name, l in state.spread.best().items()}
        posterior = BlockGaussian({name: w.detach() for name, w in reg.weights().items()}, L)
        facts = {"posterior": spread_facts(L, config.posterior)}
    S = unrolled_steps(config.unroll, max(0, state.step - 1)) if config.unrolled else 1
    return Model(
        regularizer=reg,
        T=state.T.item(),
        S=S,
        coils=config.coil_convention(),
        scaling=config.scaling,
        acceleration=config.mask.acceleration,
        also=config.mask.also,
        card={**card, "step": state.step, **facts},
        posterior=posterior,
        start=config.unroll.start,
    )


@torch.no_grad()
def update(config: TrainConfig, state: State, grads: dict[str, Tensor], *, progress: float) -> None:
    """One step of Adam, then the projections T ≥ 0 and θ ∈ Θ, or on L the prox, then the moving averages."""
    optimizer = config.optimizer
    if resets(optimizer, state.step):
        state.reset_moments()
    factor = rate(optimizer, state.step, progress=progress)
    decay = moving_average_decay(optimizer, state.step)
    gT = {"T": grads["T"]} if "T" in grads else {}
    gL = {name.removeprefix(PREFIX): g for name, g in grads.items() if name.startswith(PREFIX)}
    grads = clip_norm({name: grads[name] for name in state.reg.weights()}, optimizer.clip) | gT
    rates = dict.fromkeys(grads, optimizer.lr * factor) | {"T": optimizer.lr_T * factor}
    state.adam.step(grads, rates)
    state.T.clamp_(min=0)
    state.reg.project_()
    if state.spread is not None:
        state.spread.update(gL, config.posterior, factor=factor, decay=decay)
    if state.average is not None:
        for name, weight in state.reg.weights().items():
            state.average[name].lerp_(weight, 1 - decay)
    state.step += 1


def _new_head(reg: Learned) -> dict[str, Tensor]:
    """The weights of a variance, which the plain U-Net that a run may start from does not have."""
    return {name: w.detach().clone() for name, w in reg.weights().items() if name.startswith(HEAD)}


@torch.no_grad()
def _copy(theta: Mapping[str, Tensor], reg: Learned) -> None:
    reg.bind(theta)  # names and shapes
    for name, weight in reg.weights().items():
        weight.copy_(theta[name])
