"""What changes along the way: the learning rate, the number of unrolled steps, the resets of Adam's moments."""

import math
from dataclasses import dataclass
from typing import Literal

from bayesmri.errors import ConfigError
from bayesmri.solver import Start

MOST_MOMENTUM = 0.95


@dataclass(frozen=True)
class UnrollConfig:
    """S = min(S_max, S_start + step // S_every); T starts at T0 and is learned, unless θ is drawn.

    rho0, momentum0: where ρ, the step on R, and γ, the momentum, start; both are learned like T. None keeps those of
        train.init_from, or else the paper's scheme: ρ = h = T/S and no γ.
    keep: what a run that goes on from a model (train.init_from) keeps of it in the place of T0: T, its time; or h, its
        step T/S, so that more steps reach further, T = h · S_start.
    start: x₀, the zero-filled images of the paper, or for several coils the linear SENSE reconstruction.
    """

    T0: float = 1.0
    S_start: int = 2
    S_every: int = 7500
    S_max: int = 15
    keep: Literal["T", "h"] = "T"
    rho0: float | None = None
    momentum0: float | None = None
    start: Start = "zero-filled"

    def __post_init__(self) -> None:
        if self.rho0 is not None and not 0 <= self.rho0 < math.inf:
            raise ConfigError(f"got unroll.rho0 = {self.rho0}, expected a number of at least 0")
        if self.momentum0 is not None and not 0 <= self.momentum0 <= MOST_MOMENTUM:
            raise ConfigError(f"got unroll.momentum0 = {self.momentum0}, expected a number from 0 to {MOST_MOMENTUM}")
        if not (self.T0 >= 0 and 1 <= self.S_start <= self.S_max and self.S_every >= 1):
            raise ConfigError(
                f"got unroll with T0 = {self.T0}, S from {self.S_start} every {self.S_every} to {self.S_max}, "
                "expected T0 ≥ 0, 1 ≤ S_start ≤ S_max, S_every ≥ 1"
            )


@dataclass(frozen=True)
class OptimizerConfig:
    """Adam as in the paper, and what a short run wants instead.

    lr_T, lr_rho, lr_momentum: the learning rates of T, ρ and γ; they follow the same schedule.
    schedule: halving, lr · 2^−(step // halve_every); cosine, from lr down to lr · final.
    warmup: steps of linear growth at the start.
    reset_every: Adam's moments start anew after so many updates; 0 never.
    clip: largest 2-norm of θ's gradient; 0 is none.
    ema: decay of the moving average of θ that is validated and saved; 0 is none.
    """

    lr: float = 1e-4
    lr_T: float = 1e-4
    lr_rho: float = 1e-4
    lr_momentum: float = 1e-4
    betas: tuple[float, float] = (0.5, 0.9)
    eps: float = 1e-8
    schedule: Literal["halving", "cosine"] = "halving"
    halve_every: int = 50_000
    final: float = 0.01
    warmup: int = 0
    reset_every: int = 50_000
    clip: float = 0.0
    ema: float = 0.0

    def __post_init__(self) -> None:
        if not (min(self.lr, self.lr_T, self.lr_rho, self.lr_momentum) >= 0 and self.eps > 0):
            raise ConfigError(
                f"got an optimizer with lr = {self.lr}, lr_T = {self.lr_T}, eps = {self.eps}, expected rates ≥ 0"
            )
        if not all(0 <= b < 1 for b in (*self.betas, self.ema)):
            raise ConfigError(
                f"got an optimizer with betas = {self.betas}, ema = {self.ema}, expected numbers in [0, 1)"
            )
        if self.halve_every < 1 or min(self.warmup, self.reset_every, self.clip) < 0:
            raise ConfigError("optimizer: expected halve_every ≥ 1, and warmup, reset_every and clip of at least 0")


def unrolled_steps(config: UnrollConfig, step: int) -> int:
    """S during update number `step`, counted from 0."""
    return min(config.S_max, config.S_start + step // config.S_every)


def rate(config: OptimizerConfig, step: int, *, progress: float) -> float:
    """The factor of the learning rates during update `step`; progress in [0, 1] is the share of the run done."""
    warm = min(1.0, (step + 1) / config.warmup) if config.warmup else 1.0
    if config.schedule == "halving":
        return float(warm * 0.5 ** (step // config.halve_every))
    return warm * (config.final + (1 - config.final) * 0.5 * (1 + math.cos(math.pi * min(1.0, progress))))


def resets(config: OptimizerConfig, step: int) -> bool:
    """Whether Adam's moments start anew before update `step`."""
    return config.reset_every > 0 and step > 0 and step % config.reset_every == 0


def moving_average_decay(config: OptimizerConfig, step: int) -> float:
    """min(ema, (1 + step)/(10 + step)): short memory while the weights still run."""
    return min(config.ema, (1 + step) / (10 + step))
