"""What training changes: weights, T or L, Adam's moments, the moving average, and how far it has come."""

from collections.abc import Mapping
from dataclasses import dataclass, field
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
from bayesmri.regularizers.tv import LAMBDA
from bayesmri.solver import Scheme
from bayesmri.training.optimizer import Adam, clip_norm
from bayesmri.training.schedule import MOST_MOMENTUM, moving_average_decay, rate, resets, unrolled_steps
from bayesmri.training.settings import TrainConfig
from bayesmri.training.spread import PREFIX, Spread, spread_facts, start_spread
from bayesmri.training.widen import widen


@dataclass(eq=False)
class State:
    """The moving parts of a run. step counts finished updates, elapsed the seconds they took, over all sessions.

    T: learned where it requires a gradient; 0 for a network, which has none. rho, momentum: ρ and γ,
        alike; None where there are none.
    spread: L and what moves it; None where θ is not drawn.
    pending: losses since the last report.
    """

    reg: Learned
    T: nn.Parameter
    adam: Adam
    average: dict[str, Tensor] | None
    spread: Spread | None = None
    rho: nn.Parameter | None = None
    momentum: nn.Parameter | None = None
    step: int = 0
    elapsed: float = 0.0
    pending: list[float] = field(default_factory=list)

    def steps(self) -> dict[str, Tensor]:
        """T, ρ and γ by name, as far as they are learned."""
        return _learned(self.T, self.rho, self.momentum)

    def scheme(self, config: TrainConfig, S: int) -> Scheme:
        """What is unrolled now."""
        return config.scheme(self.T, S, self.rho, self.momentum)

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


def start(
    config: TrainConfig,
    origin: Model | None = None,
    *,
    origin_of_L: Model | None = None,
    device: torch.device | str = "cpu",
    rho0: float | None = None,
    momentum0: float | None = None,
) -> State:
    """The state before the first update: drawn (on the CPU, whatever the device), or the weights and T of a model.

    origin_of_L: whose L is the start, the origin's own unless given.
    rho0, momentum0: in the place of unroll.rho0 and unroll.momentum0.
    """
    reg = build(config.model, torch.Generator().manual_seed(config.seed))
    T0 = config.unroll.T0 if config.unrolled else 0.0
    if config.unrolled:
        rho0 = config.unroll.rho0 if rho0 is None else rho0
        momentum0 = config.unroll.momentum0 if momentum0 is None else momentum0
    if origin is not None:
        origin = widen(origin, reg, L0=config.posterior.L0)
        _copy(_new_parts(reg) | origin.regularizer.weights(), reg)
        T0 = origin.T if config.unroll.keep == "T" else origin.T / origin.S * config.unroll.S_start
        rho0 = origin.rho if rho0 is None else rho0
        momentum0 = origin.momentum if momentum0 is None else momentum0
    reg.to(device)
    betas, eps, averaged = config.optimizer.betas, config.optimizer.eps, config.optimizer.ema > 0
    spread = start_spread(config.posterior, reg, origin_of_L or origin, betas=betas, eps=eps, averaged=averaged)
    learned = spread is None and config.unrolled
    T, rho, momentum = (
        None if value is None else nn.Parameter(torch.tensor(float(value), device=device), requires_grad=learned)
        for value in (T0, rho0, momentum0)
    )
    assert T is not None
    adam = Adam(reg.weights() | _learned(T, rho, momentum), betas=betas, eps=eps)
    average = {n: w.detach().clone() for n, w in reg.weights().items()} if averaged else None
    return State(reg, T, adam, average, spread, rho, momentum)


def resume(config: TrainConfig, checkpoint: Checkpoint, *, device: torch.device | str = "cpu") -> State:
    """The state exactly as it was saved."""
    model, saved = checkpoint.model, checkpoint.state
    state = start(config, device=device, rho0=model.rho, momentum0=model.momentum)
    if state.spread is None and any(name.startswith(PREFIX) for name in saved):
        raise ModelError(f"checkpoint {checkpoint.step} has an L: resume it with posterior.kind = gaussian")
    try:
        with torch.no_grad():
            for name, weight in state.reg.weights().items():
                weight.copy_(saved[f"theta.{name}"])
            state.T.copy_(saved["T"])
            for name, step in (("rho", state.rho), ("momentum", state.momentum)):
                if step is not None:
                    step.copy_(saved[name])
            for name, average in (state.average or {}).items():
                average.copy_(checkpoint.model.regularizer.weights()[name])
        state.adam.restore(saved)
        if state.spread is not None:
            state.spread.restore(saved, model.distribution().blocks)
    except (KeyError, RuntimeError) as error:
        raise ModelError(f"checkpoint {checkpoint.step} does not fit this configuration: {error}") from error
    state.step, state.elapsed = checkpoint.step, float(checkpoint.facts["elapsed"])
    state.pending = [float(loss) for loss in checkpoint.facts.get("pending", ())]
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
    steps = {"rho": state.rho, "momentum": state.momentum}
    saved |= {name: step.detach() for name, step in steps.items() if step is not None}
    if state.spread is not None:
        saved |= state.spread.state()
    return Checkpoint(
        model=as_model(config, state, card),
        step=state.step,
        state=saved,
        facts={**facts, "elapsed": state.elapsed, "pending": list(state.pending)},
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
        v = state.spread.stationarity(config.posterior)
        facts = {"posterior": {**spread_facts(L, config.posterior), **({"v": v} if v else {})}}
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
        rho=value_of(state.rho),
        momentum=value_of(state.momentum),
    )


def value_of(step: Tensor | None) -> float | None:
    """What a 0-dim tensor holds, where there is one."""
    return None if step is None else step.item()


@torch.no_grad()
def update(config: TrainConfig, state: State, grads: dict[str, Tensor], *, progress: float) -> None:
    """One step of Adam, then the projections T, ρ, γ ≥ 0 and θ ∈ Θ, or on L the prox, then the moving averages."""
    optimizer = config.optimizer
    if resets(optimizer, state.step):
        state.reset_moments()
    factor = rate(optimizer, state.step, progress=progress)
    decay = moving_average_decay(optimizer, state.step)
    steps = {name: grads[name] for name in state.steps()}
    gL = {name.removeprefix(PREFIX): g for name, g in grads.items() if name.startswith(PREFIX)}
    grads = clip_norm({name: grads[name] for name in state.reg.weights()}, optimizer.clip) | steps
    rates = dict.fromkeys(grads, optimizer.lr * factor)
    own = {"T": optimizer.lr_T, "rho": optimizer.lr_rho, "momentum": optimizer.lr_momentum}
    rates |= {name: lr * factor for name, lr in own.items()}
    state.adam.step(grads, rates)
    for name, learned in state.steps().items():
        learned.clamp_(min=0, max=MOST_MOMENTUM if name == "momentum" else None)
    state.reg.project_()
    if state.spread is not None:
        state.spread.update(gL, config.posterior, factor=factor, decay=decay)
    if state.average is not None:
        for name, weight in state.reg.weights().items():
            state.average[name].lerp_(weight, 1 - decay)
    state.step += 1


def _learned(T: nn.Parameter, rho: nn.Parameter | None, momentum: nn.Parameter | None) -> dict[str, Tensor]:
    steps = {"T": T, "rho": rho, "momentum": momentum}
    return {name: step for name, step in steps.items() if step is not None and step.requires_grad}


def _new_parts(reg: Learned) -> dict[str, Tensor]:
    """What the model that a run starts from may lack: the weights of a variance, λ of a total variation."""
    return {name: w.detach().clone() for name, w in reg.weights().items() if name.startswith((HEAD, LAMBDA))}


@torch.no_grad()
def _copy(theta: Mapping[str, Tensor], reg: Learned) -> None:
    reg.bind(theta)  # names and shapes
    for name, weight in reg.weights().items():
        weight.copy_(theta[name])
