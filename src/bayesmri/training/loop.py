"""The loop: batches → gradients → update, with validation, checkpoints and reports at their times."""

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from bayesmri.data.dataset import Batch, Dataset, Validation, generator
from bayesmri.errors import DivergedError
from bayesmri.model import BoundLearned
from bayesmri.regularizers.base import Weights
from bayesmri.training.distributed import World
from bayesmri.training.objective import objective, with_dropout
from bayesmri.training.prefetch import Prefetch
from bayesmri.training.schedule import rate, unrolled_steps
from bayesmri.training.settings import TrainConfig
from bayesmri.training.spread import PREFIX, pull_back, spread_facts
from bayesmri.training.state import State, update, value_of
from bayesmri.training.validation import Scores, validate

Accelerate = Callable[[BoundLearned], BoundLearned]


@dataclass(frozen=True)
class Report:
    """What the loop says about itself every `log_every` steps.

    S, T, rho, momentum: None for a network; rho also where it is T/S, momentum where there is none.
    posterior: H̄, KL, tr LLᵀ, log det LLᵀ and f(L), where θ is drawn; v: by kernel, 1 where L is at its optimum.
    """

    step: int
    S: int | None
    T: float | None
    rho: float | None
    momentum: float | None
    lr: float
    loss: float
    seconds_per_step: float
    elapsed: float
    seconds_left: float
    posterior: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Hooks:
    """Who listens; only the writing process calls them. save gets the scores of this step, where there are any."""

    log: Callable[[Report], None]
    validated: Callable[[int, Scores], None]
    sample: Callable[[int, Scores], None]
    save: Callable[[State, Scores | None], None]


def no_hooks() -> Hooks:
    """For the processes that do not write."""
    return Hooks(log=_ignore, validated=_ignore, sample=_ignore, save=_ignore)


def _ignore(*values: object) -> None:
    """Nobody listens."""


@dataclass
class Clock:
    """Wall time of this session on top of the state's."""

    before: float
    begun: float = field(default_factory=time.monotonic)

    def elapsed(self) -> float:
        return self.before + time.monotonic() - self.begun


def gradients(
    config: TrainConfig, state: State, batches: Sequence[Batch], *, accelerate: Accelerate, world: World, extra: Tensor
) -> tuple[float, dict[str, Tensor], Tensor]:
    """The mean of J over the global batch and the draws of θ, its gradient, and `extra` summed over the processes.

    The gradient is in the weights (μ), and in T and ρ or L (`L.` before the name), whichever is learned. Draws depend
    on seed and step alone, so all processes share them, and what they sum is ∂J/∂θ, a fifth of ∂J/∂L.
    """
    draws = [_draw(config, state, i) for i in range(config.posterior.n_draws)]
    total, per_draw = torch.zeros((), device=state.T.device), []
    for theta in draws:
        J, g = _gradients_at(_leaves(theta), config, state, batches, accelerate, rank=world.rank)
        total = total + J
        per_draw.append(g)
    total, extra, *flat = world.sum([total, extra.to(total.device), *(g for grads in per_draw for g in grads.values())])
    n = len(flat) // len(draws)
    grads: dict[str, Tensor] = {}
    for i, theta in enumerate(draws):
        g = dict(zip(per_draw[i], flat[i * n : (i + 1) * n], strict=True))
        if state.spread is not None:
            g |= {PREFIX + name: gl for name, gl in pull_back(theta, state.spread.L, g).items()}
        grads = {name: grads[name] + g[name] if grads else g[name] for name in g}
    return float(total), grads, extra


def _draw(config: TrainConfig, state: State, i: int) -> dict[str, Tensor]:
    """The i-th θ of this update; the second of a pair is the mirror image of the first."""
    pairs, posterior = config.posterior.antithetic, state.posterior()
    theta = posterior.sample(generator(config.seed, "weights", state.step, i // 2 if pairs else i))
    if state.spread is None or not pairs or i % 2 == 0:
        return theta
    mu = posterior.mean()
    return {name: 2 * mu[name] - w if name in state.spread.L else w for name, w in theta.items()}


def _leaves(theta: Weights) -> dict[str, Tensor]:
    """The same numbers, cut from the graph of their draw: one way back through it per update, not per batch."""
    return {name: w if w.is_leaf else w.detach().requires_grad_() for name, w in theta.items()}


def _gradients_at(
    theta: Weights, config: TrainConfig, state: State, batches: Sequence[Batch], accelerate: Accelerate, *, rank: int
) -> tuple[Tensor, dict[str, Tensor]]:
    """This process's part of the mean of J, from one θ, and its gradient in θ and T.

    What is dropped depends on seed, step, process and batch alone, so that a resumed run drops the same.
    """
    S = unrolled_steps(config.unroll, state.step)
    params = dict(theta) | state.steps()
    device = state.T.device
    total, grads = torch.zeros((), device=device), [torch.zeros_like(p) for p in params.values()]
    for i, batch in enumerate(batches):
        reg = with_dropout(accelerate(state.reg.bind(theta)), generator(config.seed, "dropout", state.step, rank, i))
        each = objective(config, reg, batch, scheme=state.scheme(config, S), checkpoint=config.train.recompute)
        J = each.sum() / (config.train.batch * config.posterior.n_draws)
        torch._foreach_add_(grads, torch.autograd.grad(J, list(params.values())))
        total = total + J.detach()
    return total, dict(zip(params, grads, strict=True))


def run(
    config: TrainConfig,
    state: State,
    dataset: Dataset,
    volumes: Sequence[Validation],
    hooks: Hooks,
    *,
    accelerate: Accelerate,
    world: World,
) -> str:
    """Trains to the end, the time limit or a signal; returns which: finished, time, signal.

    A DivergedError says what and when, not what to do.
    """
    clock = Clock(state.elapsed)
    window = _Window(state.step, state.pending)
    indices = world.share(config.train.batch)
    ended = "finished"
    with (
        _signals() as asked,
        Prefetch(dataset, indices, first=state.step, last=config.train.iterations) as ahead,
    ):
        for batches in ahead:
            # the first process's clock and every process's signals decide for all
            flags = _flags(config, clock, asked, world)
            J, grads, flags = gradients(config, state, batches, accelerate=accelerate, world=world, extra=flags)
            _check_finite(J, grads, state.step)
            progress = max(state.step / config.train.iterations, float(flags[2]))
            update(config, state, grads, progress=progress)
            state.elapsed = clock.elapsed()
            window.add(J)
            stopped = "signal" if flags[0] > 0 else "time" if flags[1] > 0 else ""
            last = bool(stopped) or state.step == config.train.iterations
            ended = stopped or "finished"
            if world.writes:
                _after(config, state, volumes, hooks, window, last=last, hurry=ended == "signal", progress=progress)
            if last:
                break
    return ended


def _after(
    config: TrainConfig,
    state: State,
    volumes: Sequence[Validation],
    hooks: Hooks,
    window: "_Window",
    *,
    last: bool,
    hurry: bool,
    progress: float,
) -> None:
    """What is due after an update: log, validation, pictures, checkpoint."""
    every = config.train
    if last or state.step % every.log_every == 0:
        hooks.log(window.report(config, state, progress))
    scores = None
    save = last or state.step % every.checkpoint_every == 0
    # the last model is judged, else the best of the run would be an older one; after a signal there is no time for it
    if state.step % every.val_every == 0 or (last and not hurry):
        scores = _validate(config, state, volumes)
        if scores is not None:
            hooks.validated(state.step, scores)
            if state.step % every.sample_every == 0 or last:
                hooks.sample(state.step, scores)
        window.restart(state.step)
    if save:
        hooks.save(state, scores)
        window.restart(state.step)


def _validate(config: TrainConfig, state: State, volumes: Sequence[Validation]) -> Scores | None:
    """At μ, and where it is asked for also at one draw."""
    scheme, posterior = state.scheme(config, unrolled_steps(config.unroll, state.step - 1)), state.distribution()
    judge = partial(validate, volumes, scheme=scheme, device=state.T.device, step=state.step)
    scores = judge(state.reg.bind(posterior.mean()))
    if scores is None or state.spread is None or not config.posterior.val_sample:
        return scores
    with torch.no_grad():
        theta = posterior.sample(generator(config.seed, "validation weights"))
    drawn = judge(state.reg.bind(theta))
    return scores if drawn is None else replace(scores, psnr_sample=drawn.psnr, ssim_sample=drawn.ssim)


@dataclass
class _Window:
    """Losses since the last report that was due, and time since any; validation and saving do not count."""

    first: int
    losses: list[float]
    begun: float = field(default_factory=time.monotonic)
    spent: float = 0.0
    counted: int = 0

    def add(self, J: float) -> None:
        self.losses.append(J)
        self.counted += 1

    def restart(self, step: int) -> None:
        self.first, self.begun, self.counted = step, time.monotonic(), 0

    def report(self, config: TrainConfig, state: State, progress: float) -> Report:
        pace = (time.monotonic() - self.begun) / max(1, self.counted)
        left = (config.train.iterations - state.step) * pace
        if config.train.max_minutes is not None:
            left = min(left, 60 * config.train.max_minutes - state.elapsed)
        mean = sum(self.losses) / len(self.losses)
        if state.step % config.train.log_every == 0:  # a run that goes on from here reports as if it had not ended
            self.losses.clear()
        self.restart(state.step)
        return Report(
            step=state.step,
            S=unrolled_steps(config.unroll, state.step - 1) if config.unrolled else None,
            T=state.T.item() if config.unrolled else None,
            rho=value_of(state.rho),
            momentum=value_of(state.momentum),
            lr=config.optimizer.lr * rate(config.optimizer, state.step - 1, progress=progress),
            loss=mean,
            seconds_per_step=pace,
            elapsed=state.elapsed,
            seconds_left=max(0.0, left),
            posterior={}
            if state.spread is None
            else {**spread_facts(state.spread.L, config.posterior), "v": state.spread.stationarity(config.posterior)},
        )


def _flags(config: TrainConfig, clock: Clock, asked: threading.Event, world: World) -> Tensor:
    """(signals, time is up, share of the clock), the last two from the first process only."""
    minutes = config.train.max_minutes
    share = clock.elapsed() / (60 * minutes) if minutes is not None and world.writes else 0.0
    followed = share if config.train.clock else 0.0
    return torch.tensor([float(asked.is_set()), float(share >= 1), followed])


def _check_finite(J: float, grads: dict[str, Tensor], step: int) -> None:
    """Before the update, which would spoil the weights."""
    if math.isfinite(J) and all(bool(g.isfinite().all()) for g in grads.values()):
        return
    bad = next((name for name, g in grads.items() if not bool(g.isfinite().all())), "")
    what = f"the gradient in {bad} holds NaN or Inf, at a loss of {J:.5g}," if math.isfinite(J) else f"the loss is {J}"
    raise DivergedError(f"{what} at step {step + 1}: training diverged")


@contextmanager
def _signals() -> Iterator[threading.Event]:
    """An event that SIGINT and SIGTERM set; a second signal acts as usual."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before: dict[int, Any] = {number: signal.getsignal(number) for number in numbers}

    def ask(number: int, frame: Any) -> None:
        asked.set()
        signal.signal(number, before[number])

    for number in numbers:
        signal.signal(number, ask)
    try:
        yield asked
    finally:
        for known, handler in before.items():
            signal.signal(known, handler)
