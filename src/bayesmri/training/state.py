"""What training changes: weights, T, Adam's moments, the moving average, and how far it has come."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from bayesmri.checkpoint import Checkpoint
from bayesmri.errors import ModelError
from bayesmri.model import Model, build_regularizer
from bayesmri.regularizers.base import ParametricRegularizer
from bayesmri.training.optimizer import Adam, clip_norm
from bayesmri.training.schedule import moving_average_decay, rate, resets, unrolled_steps
from bayesmri.training.settings import TrainConfig


@dataclass(eq=False)
class State:
    """The moving parts of a run. step counts finished updates, elapsed the seconds they took, over all sessions."""

    reg: ParametricRegularizer
    T: nn.Parameter
    adam: Adam
    average: dict[str, Tensor] | None
    step: int = 0
    elapsed: float = 0.0

    def theta(self) -> dict[str, Tensor]:
        """The weights to validate and to save: the moving average where there is one."""
        return self.reg.weights() if self.average is None else self.average


def start(config: TrainConfig, origin: Model | None = None) -> State:
    """The state before the first update: drawn, or the weights and T of another model."""
    reg = build_regularizer(config.model, torch.Generator().manual_seed(config.seed))
    T0 = config.unroll.T0
    if origin is not None:
        _copy(origin.regularizer.weights(), reg)
        T0 = origin.T
    T = nn.Parameter(torch.tensor(float(T0)))
    adam = Adam(reg.weights() | {"T": T}, betas=config.optimizer.betas, eps=config.optimizer.eps)
    average = {n: w.detach().clone() for n, w in reg.weights().items()} if config.optimizer.ema else None
    return State(reg, T, adam, average)


def resume(config: TrainConfig, checkpoint: Checkpoint) -> State:
    """The state exactly as it was saved."""
    state, saved = start(config), checkpoint.state
    try:
        with torch.no_grad():
            for name, weight in state.reg.weights().items():
                weight.copy_(saved[f"theta.{name}"])
            state.T.copy_(saved["T"])
            for name, average in (state.average or {}).items():
                average.copy_(checkpoint.model.regularizer.weights()[name])
        state.adam.restore(saved)
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
    return Checkpoint(
        model=as_model(config, state, card),
        step=state.step,
        state=saved,
        facts={**facts, "elapsed": state.elapsed},
        metrics=metrics,
    )


def as_model(config: TrainConfig, state: State, card: Mapping[str, Any]) -> Model:
    """The model as it would reconstruct now, with a copy of the weights."""
    reg = build_regularizer(config.model, torch.Generator().manual_seed(0))
    _copy(state.theta(), reg)
    S = unrolled_steps(config.unroll, max(0, state.step - 1))
    return Model(
        regularizer=reg,
        T=state.T.item(),
        S=S,
        coils=config.coil_convention(),
        scaling=config.scaling,
        acceleration=config.mask.acceleration,
        card={**card, "step": state.step},
    )


@torch.no_grad()
def update(config: TrainConfig, state: State, grads: dict[str, Tensor], *, progress: float) -> None:
    """One step of Adam, then the projections T ≥ 0 and θ ∈ Θ, then the moving average."""
    optimizer = config.optimizer
    if resets(optimizer, state.step):
        state.adam.reset()
    factor = rate(optimizer, state.step, progress=progress)
    gT = grads.pop("T")
    grads = clip_norm(grads, optimizer.clip) | {"T": gT}
    rates = dict.fromkeys(grads, optimizer.lr * factor) | {"T": optimizer.lr_T * factor}
    state.adam.step(grads, rates)
    state.T.clamp_(min=0)
    state.reg.project_()
    if state.average is not None:
        decay = moving_average_decay(optimizer, state.step)
        for name, weight in state.reg.weights().items():
            state.average[name].lerp_(weight, 1 - decay)
    state.step += 1


@torch.no_grad()
def _copy(theta: Mapping[str, Tensor], reg: ParametricRegularizer) -> None:
    reg.bind(theta)  # names and shapes
    for name, weight in reg.weights().items():
        weight.copy_(theta[name])
