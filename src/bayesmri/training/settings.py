"""The whole of a training run as one typed value; the defaults are the paper's single-coil R=4."""

from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

from bayesmri.data.augment import Augment
from bayesmri.data.dataset import DataConfig, Recipe, Simulation
from bayesmri.errors import ConfigError
from bayesmri.model import Coils, LearnedConfig, unrolls
from bayesmri.physics.coils import CoilMode
from bayesmri.physics.mask import MaskSpec
from bayesmri.physics.scaling import Scaling
from bayesmri.registry import CONFIGS, of_config
from bayesmri.regularizers.tdv import TDVConfig
from bayesmri.solver import Scheme
from bayesmri.training.loss import LossConfig
from bayesmri.training.schedule import OptimizerConfig, UnrollConfig
from bayesmri.training.spread import PosteriorConfig


@dataclass(frozen=True)
class CoilSettings:
    """mode: the model's Q coils are the scanner's own (raw) or the Q virtual ones of largest energy (virtual), both as
        channels of R; or any number of coils is in the forward operator (sensitivities) and R sees one image, Q = 1.
    most: virtual coils that are made of larger arrays, with sensitivities.
    """

    mode: CoilMode = "raw"
    most: int = 8


@dataclass(frozen=True)
class RunConfig:
    """How long, how often, and on how much of the machine.

    iterations: updates. batch: elements per update, over all processes.
    max_minutes: wall clock after which the run ends with a checkpoint; None is no limit.
    clock: a cosine schedule follows max_minutes where that comes before `iterations`; such runs do not repeat in bits.
    init_from: run or model whose weights, T and, where it has one, L are the start (R=8 continues from R=4, a
        stochastic run from a deterministic one; a narrower TDV is widened); None draws the weights.
    init_L_from: run or model whose L is the start, instead of that of init_from: with optimizer.lr = 0 it is learned on
        around weights that stay.
    recompute: keep only the states x_s and compute the rest again on the way back: memory flat in S, a third slower.
    compile: of ∇R: auto, where the run is long enough to pay for it.
    device: auto, cpu, cuda or cuda:N; auto takes CUDA where there is any.
    threads: 0 leaves the number to torch. keep: checkpoints besides the best.
    """

    iterations: int = 120_000
    batch: int = 8
    max_minutes: float | None = None
    clock: bool = False
    init_from: str | None = None
    init_L_from: str | None = None
    recompute: bool = True
    compile: Literal["auto", "on", "off"] = "auto"
    device: str = "auto"
    threads: int = 0
    log_every: int = 50
    val_every: int = 1000
    sample_every: int = 5000
    checkpoint_every: int = 1000
    keep: int = 3

    def __post_init__(self) -> None:
        for name in ("iterations", "batch", "log_every", "val_every", "sample_every", "checkpoint_every", "keep"):
            if getattr(self, name) < 1:
                raise ConfigError(f"got train.{name} = {getattr(self, name)}, expected at least 1")
        if self.threads < 0 or (self.max_minutes is not None and self.max_minutes <= 0):
            raise ConfigError("train: expected threads of at least 0 and max_minutes above 0")
        if self.clock and self.max_minutes is None:
            raise ConfigError("train.clock needs train.max_minutes: the clock must know when the run ends")


@dataclass(frozen=True)
class TrainConfig:
    """One training run."""

    data: DataConfig
    name: str = "model"
    seed: int = 1
    model: LearnedConfig = field(default_factory=TDVConfig, metadata={"kinds": CONFIGS})
    coils: CoilSettings = field(default_factory=CoilSettings)
    scaling: Scaling = field(default_factory=Scaling)
    mask: MaskSpec = field(default_factory=MaskSpec)
    augment: Augment = field(default_factory=Augment)
    simulation: Simulation = field(default_factory=Simulation)
    unroll: UnrollConfig = field(default_factory=UnrollConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    posterior: PosteriorConfig = field(default_factory=PosteriorConfig)
    train: RunConfig = field(default_factory=RunConfig)

    def __post_init__(self) -> None:
        if not self.unrolled and self.posterior.kind != "delta":
            raise ConfigError(
                f"posterior.kind = {self.posterior.kind} with a {self._kind}, whose weights are not drawn: "
                'leave [posterior] out, or take model.kind = "tdv"'
            )
        if not self.unrolled and self.unroll != UnrollConfig():
            raise ConfigError(f"got [unroll] with a {self._kind}, which has neither T nor S; leave it out")
        if (self.loss.kind == "nll") != bool(getattr(self.model, "variance", False)):
            raise ConfigError(
                f"got loss.kind = {self.loss.kind} with a {self._kind} "
                f'{"with" if self.loss.kind == "l1" else "without"} variance, expected loss.kind = "nll" and '
                'model.kind = "unet" with variance = true, or neither'
            )
        if self.coils.mode == "sensitivities" and (not self.unrolled or self.model.Q != 1):
            raise ConfigError(
                f'got coils.mode = "sensitivities" with a {self._kind} of Q = {self.model.Q}, expected a regularizer '
                "of Q = 1, which sees the combined image"
            )

    @property
    def unrolled(self) -> bool:
        """Whether the model is a regularizer in the unrolled scheme; a network has no T, no S and no posterior."""
        return unrolls(self.model)

    @property
    def _kind(self) -> str:
        return of_config(self.model).name

    def recipe(self) -> Recipe:
        """How slices become elements for this model."""
        coils = self.coil_convention()
        return Recipe(coils.Q, coils.mode, self.mask, self.scaling, self.augment, self.simulation)

    def coil_convention(self) -> Coils:
        return Coils(self.coils.mode, self.coils.most if self.coils.mode == "sensitivities" else self.model.Q)

    def scheme(
        self, T: Tensor | float, S: int, rho: Tensor | float | None = None, momentum: Tensor | float | None = None
    ) -> Scheme:
        """What is unrolled, with these numbers."""
        return Scheme(T, S, rho, self.unroll.start, self.coils.mode, momentum)
