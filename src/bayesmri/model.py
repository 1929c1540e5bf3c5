"""A trained model as one value: regularizer, T, S, input scaling and coil convention, with its card."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

import torch
from torch import Tensor, nn

from bayesmri.baselines.irim import IRIM
from bayesmri.baselines.network import BoundNetwork, Network, build_network
from bayesmri.baselines.plain import plain_network
from bayesmri.baselines.sigmanet import SigmaNet
from bayesmri.baselines.unet import UNet
from bayesmri.baselines.varnet import VarNet
from bayesmri.bounds.bound import Calibration
from bayesmri.bounds.expected import ErrorScale
from bayesmri.bounds.familiar import Familiar
from bayesmri.errors import ConfigError, ModelError
from bayesmri.io.provenance import Seen
from bayesmri.physics.coils import CoilMode, coil_gram, compress_coils, compression_matrix
from bayesmri.physics.scaling import Scaling
from bayesmri.posterior.base import Posterior
from bayesmri.posterior.delta import Delta
from bayesmri.posterior.error_head import ErrorHead
from bayesmri.posterior.predictor import Predictor
from bayesmri.registry import of_config
from bayesmri.regularizers.base import Bound, ParametricRegularizer, Regularizer
from bayesmri.regularizers.foe import FoE
from bayesmri.regularizers.tdv import TDV
from bayesmri.regularizers.tv import TV
from bayesmri.solver import Callback, Scheme, Start

# importing them registers what they are called
OWN = (TDV, FoE, TV, UNet, VarNet, IRIM, SigmaNet)
# what owns weights, and the same with one θ: R of the unrolled scheme, or a network that stands for the whole of it
Learned = ParametricRegularizer | Network
BoundLearned = Bound | BoundNetwork


@dataclass(frozen=True)
class Coils:
    """What the model takes as its coils.

    mode: raw, the scanner's own Q coils in their order, as channels of R; virtual, the Q coils of largest energy of any
        array (SVD), as channels; sensitivities, any number of coils in the forward operator, of which the Q of largest
        energy are used: R sees one combined image.
    """

    mode: CoilMode = "raw"
    Q: int = 1

    def __post_init__(self) -> None:
        if self.Q < 1:
            raise ConfigError(f"got a model of Q = {self.Q} coils, expected at least 1")

    def prepare(self, z: Tensor) -> Tensor:
        """k-space of one volume as the model takes it: (..., Q', H, W) → (..., Q, H, W)."""
        if self.mode == "virtual":
            return compress_coils(z, self.Q)
        if self.mode == "sensitivities":
            return z if z.shape[-3] == 1 else compress_coils(z, min(self.Q, z.shape[-3]))
        if z.shape[-3] != self.Q:
            raise ModelError(
                f"got data of {z.shape[-3]} coil{'s' * (z.shape[-3] != 1)} for a model of {self.Q} raw "
                f"coil{'s' * (self.Q != 1)}; take a model that knows coils"
                + (", or combine the coils to one" if self.Q == 1 else f", or data of {self.Q} coils")
            )
        return z

    def prepare_maps(self, s: Tensor, z: Tensor) -> Tensor:
        """Sensitivities (..., Q', H, W) of the coils of a volume, or k-space of the same, in the coils of `prepare`.

        z: the volume's own k-space, which decides on the compression.
        """
        if self.mode != "sensitivities":
            raise ModelError(
                f"got sensitivities with a model whose coils are channels of R ({self.mode}), expected a model that "
                "knows sensitivities, such as tdv-r4; or leave them out"
            )
        return s if s.shape[-3] == 1 else compress_coils(s, min(self.Q, s.shape[-3]), compression_matrix(coil_gram(z)))


@dataclass(frozen=True, eq=False)
class Model:
    """x_S(z, T, θ) with everything around it.

    regularizer: what owns θ; for the networks we compare with, the network itself, which has neither T nor S (0 and 1).
    acceleration: the R it was trained for, None where that is unknown. also: further R it was trained for.
    rho: ρ, the step on R, where it is not h = T/S. momentum: γ, where there is one.
    start: x₀ of the scheme where coils are channels.
    posterior: of θ, with the regularizer's own weights as its mean; None is deterministic.
    card: facts for people: data, steps, metrics, provenance.
    predictor: of the standard deviation of many samples from a few.
    calibrations: error bounds, one for each level and setting they were calibrated for.
    file: the JSON file it was loaded from, as it was then; None where it was not.
    familiar: how its training data looked, so that other data can be told from it.
    scales: of the error that left-out lines tell, one for each R and kind of coils they were fitted for.
    error_head: of σ_total, the size of the error. error_calibrations: bounds made of it instead of σ̂.
    """

    regularizer: Learned
    T: float
    S: int
    coils: Coils = field(default_factory=Coils)
    scaling: Scaling = field(default_factory=Scaling)
    acceleration: float | None = None
    also: tuple[float, ...] = ()
    card: Mapping[str, Any] = field(default_factory=dict, repr=False)
    posterior: Posterior | None = field(default=None, repr=False)
    predictor: Predictor | None = field(default=None, repr=False)
    calibrations: tuple[Calibration, ...] = field(default=(), repr=False)
    scales: tuple[ErrorScale, ...] = field(default=(), repr=False)
    error_head: ErrorHead | None = field(default=None, repr=False)
    error_calibrations: tuple[Calibration, ...] = field(default=(), repr=False)
    familiar: Familiar | None = field(default=None, repr=False)
    file: Seen | None = field(default=None, repr=False)
    start: Start = "zero-filled"
    rho: float | None = None
    momentum: float | None = None

    def __post_init__(self) -> None:
        self.scheme  # noqa: B018  refuses what it does not know

    @property
    def scheme(self) -> Scheme:
        """What is unrolled, but for R."""
        return Scheme(self.T, self.S, self.rho, self.start, self.coils.mode, self.momentum)

    def distribution(self) -> Posterior:
        """Of θ: the posterior, or all mass at the regularizer's own weights."""
        return Delta(self.regularizer.weights()) if self.posterior is None else self.posterior

    @property
    def stochastic(self) -> bool:
        """Whether draws of θ differ."""
        return self.distribution().stochastic

    @property
    def n_parameters(self) -> int:
        """Weights, L where there is one, and T, ρ and γ where they are."""
        steps = [] if not self.regularizer.unrolled else [self.T, self.rho, self.momentum]
        return self.distribution().n_parameters + sum(step is not None for step in steps)

    @torch.no_grad()
    def reconstruct(
        self,
        z: Tensor,
        mask: Tensor,
        *,
        reg: Regularizer | BoundNetwork | None = None,
        callback: Callback | None = None,
    ) -> Tensor:
        """x_S of one volume, complex (slices, Q, H, W) in the units of z, slice by slice.

        z: zero-filled k-space (slices, Q', H, W) of the whole volume, from which scale and virtual coils are taken.
        reg: another bound regularizer of the same kind (a posterior draw, a compiled one).
        callback: called with (s, x_s) in the model's scale.
        """
        z = self.coils.prepare(z)
        factor = self.scaling.factor(z)
        bound = self.regularizer.bind(self.regularizer.weights()) if reg is None else reg
        slices = [solve(part[None] / factor, mask, bound, self.scheme, callback=callback)[0] for part in z]
        return factor * torch.stack(slices)


def solve(
    z: Tensor,
    mask: Tensor,
    bound: Regularizer | BoundNetwork,
    scheme: Scheme,
    *,
    s: Tensor | None = None,
    callback: Callback | None = None,
    checkpoint: bool = False,
) -> Tensor:
    """The coil images of x_S by the unrolled scheme; or what a network makes of (z, M) alone.

    s: sensitivities where they are known, for a scheme that wants them.
    """
    if isinstance(bound, BoundNetwork):
        return bound(z, mask)
    return scheme.run(scheme.data_term(z, mask, s), bound, callback=callback, checkpoint=checkpoint)


class LearnedConfig(Protocol):
    """A frozen dataclass of a registered kind; Q is the number of coils."""

    @property
    def Q(self) -> int: ...


def unrolls(config: LearnedConfig) -> bool:
    """Whether it configures a regularizer of the unrolled scheme; a network has no T, no S and no posterior."""
    return issubclass(of_config(config).make, ParametricRegularizer)


def build(config: LearnedConfig, rng: torch.Generator) -> Learned:
    """The module that a configuration describes, with its start values drawn from `rng`."""
    make = of_config(config).make
    if issubclass(make, ParametricRegularizer):
        return make(config, rng)
    if issubclass(make, Network):
        return build_network(make, config, rng)
    return plain_network(cast(type[nn.Module], make), config, rng)
