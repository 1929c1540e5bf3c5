"""Every method under one interface: how it takes coils and scale, and (z, mask) → x for one slice."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from bayesmri.baselines.bart import Bart
from bayesmri.baselines.network import BoundNetwork
from bayesmri.baselines.tv import TotalVariation
from bayesmri.baselines.unet import moments
from bayesmri.baselines.wavelet import L1Wavelet
from bayesmri.baselines.zero_filled import ZeroFilled
from bayesmri.bounds.bound import Calibration
from bayesmri.bounds.expected import ErrorScale
from bayesmri.bounds.familiar import Familiar
from bayesmri.checkpoint import load_model
from bayesmri.coil_refinement import refined
from bayesmri.errors import ConfigError
from bayesmri.io.provenance import Seen
from bayesmri.machine.devices import check_device
from bayesmri.model import BoundLearned, Model
from bayesmri.physics.coils import compress_coils
from bayesmri.physics.data_terms import Channels, Coupled, DataTerm
from bayesmri.physics.scaling import Scaling
from bayesmri.physics.sense import sense
from bayesmri.posterior.base import Posterior
from bayesmri.posterior.error_head import ErrorHead
from bayesmri.posterior.predictor import Predictor
from bayesmri.recon.request import BASELINES, Options
from bayesmri.regularizers.base import ParametricRegularizer, Regularizer
from bayesmri.runs import name_of
from bayesmri.sampler import Draws, Passes, Sampler
from bayesmri.solver import Callback


def _without_maps(z: Tensor, mask: Tensor, s: Tensor | None) -> DataTerm:
    return Channels(z, mask)


def _as_begun(D: DataTerm) -> DataTerm:
    return D


@dataclass(frozen=True)
class Method:
    """name: for tables. parameters: learned numbers.

    prepare: k-space of a whole volume as the method takes it, such as its virtual coils.
    prepare_maps: sensitivities, and k-space, of the same coils alike; None where the method has no use for them.
    begin: (z, mask, s) of one slice → its data term, with sensitivities s where they are known (None: estimate them).
    refine: the same with better sensitivities, where those of few central lines can be made better.
    solve: the data term of one slice → x, complex (1, Q, H, W), scaled.
    sampler: draws of the same reconstruction, where the method has a posterior or drops channels.
    moments: the data term → x as `solve` gives it and σ² of its image (1, H, W), where the network predicts it.
    predictor: makes σ̂ of a few draws, where the model came with one.
    steps, variant, along: S of the unrolled scheme, the same method with ρ times a factor and other steps, and `solve`
        with a callback (s, x_s); None where nothing is unrolled.
    calibrations: error bounds, where the model was calibrated. scales: of the error that left-out lines tell.
    accelerations: R that a model was trained for; training: the configuration it records, None where nothing was
        trained; familiar: how its training data looked. file: what it was loaded from.
    again: makes the same method anew, in another process, too: it can be pickled. None where that is not known.
    """

    name: str
    solve: Callable[[DataTerm], Tensor]
    parameters: int = 0
    prepare: Callable[[Tensor], Tensor] = field(default=lambda z: z)
    prepare_maps: Callable[[Tensor, Tensor], Tensor] | None = None
    begin: Callable[[Tensor, Tensor, Tensor | None], DataTerm] = _without_maps
    refine: Callable[[DataTerm], DataTerm] = _as_begun
    scaling: Scaling = field(default_factory=Scaling)
    device: torch.device = field(default_factory=partial(torch.device, "cpu"))
    sampler: Draws | None = None
    predictor: Predictor | None = None
    moments: Callable[[DataTerm], tuple[Tensor, Tensor]] | None = None
    steps: int | None = None
    variant: "Callable[[float, int], Method] | None" = None
    along: Callable[[DataTerm, Callback], Tensor] | None = None
    calibrations: tuple[Calibration, ...] = ()
    scales: tuple[ErrorScale, ...] = ()
    error_head: ErrorHead | None = None
    error_calibrations: tuple[Calibration, ...] = ()
    accelerations: tuple[float, ...] = ()
    training: Mapping[str, Any] | None = None
    familiar: Familiar | None = None
    file: Seen | None = None
    again: "Callable[[], Method] | None" = None


def make_method(options: Options) -> Method:
    """The method that the options name, ready on its device."""
    device = check_device(options.device)
    if options.model is not None:
        model = options.model if isinstance(options.model, Model) else load_model(options.model)
        return learned(model, model_name(options.model), device, coils=options.coils)
    prepare = _as_it_is if options.coils is None else partial(compress_coils, Q=options.coils)
    method = _baseline(options)
    again = partial(make_method, options)
    return Method(options.method, lambda D: method(D.z, D.mask), prepare=prepare, device=device, again=again)


def learned(model: Model, name: str, device: torch.device, *, coils: int | None = None) -> Method:
    """x_S(z, T, μ) of a trained model, or its network's x; x_S(z, T, θ) of draws where it has a posterior."""
    if coils is not None:
        raise ConfigError(f"got {coils} virtual coils with a model, which has its own {model.coils.Q}; leave them out")
    posterior, reg = model.distribution().to(device), model.regularizer
    bound = reg.bind({key: w.detach() for key, w in posterior.mean().items()})

    @torch.no_grad()
    def begin(z: Tensor, mask: Tensor, s: Tensor | None = None) -> DataTerm:
        return model.scheme.data_term(z, mask, s)

    def refine(D: DataTerm) -> DataTerm:
        if isinstance(D, Coupled) and isinstance(bound, Regularizer):
            return refined(D, bound, model.scheme)
        return D

    @torch.no_grad()
    def at_mean(D: DataTerm) -> Tensor:
        return bound(D.z, D.mask) if isinstance(bound, BoundNetwork) else model.scheme.run(D, bound)

    @torch.no_grad()
    def both(D: DataTerm) -> tuple[Tensor, Tensor]:
        assert isinstance(bound, BoundNetwork)
        return moments(bound, D.z, D.mask)

    @torch.no_grad()
    def along(D: DataTerm, callback: Callback) -> Tensor:
        assert isinstance(bound, Regularizer)
        return model.scheme.run(D, bound, callback=callback)

    def variant(factor: float, S: int) -> Method:
        h = model.T / model.S
        rho = factor * (h if model.rho is None else model.rho)
        other = replace(model, T=h * S, S=S, rho=rho, calibrations=(), predictor=None)
        return learned(other, name, device)

    unrolled = isinstance(bound, Regularizer)
    return Method(
        name,
        at_mean,
        model.n_parameters,
        prepare=model.coils.prepare,
        prepare_maps=model.coils.prepare_maps if model.coils.mode == "sensitivities" else None,
        begin=begin,
        refine=refine,
        scaling=model.scaling,
        device=device,
        sampler=_draws(model, bound, posterior),
        predictor=None if model.predictor is None else model.predictor.to(device),
        moments=both if reg.doubts else None,
        steps=model.S if unrolled else None,
        variant=variant if unrolled else None,
        along=along if unrolled else None,
        calibrations=model.calibrations,
        scales=model.scales,
        error_head=None if model.error_head is None else model.error_head.to(device),
        error_calibrations=model.error_calibrations,
        accelerations=(*(() if model.acceleration is None else (model.acceleration,)), *model.also),
        training=training_of(model),
        familiar=model.familiar,
        file=model.file,
        again=partial(learned, model, name, device),
    )


def training_of(model: Model) -> Mapping[str, Any]:
    """The configuration of the training that a model's card records; empty where there is none."""
    found: Any = model.card
    for key in ("provenance", "config"):
        found = found.get(key) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _draws(model: Model, bound: BoundLearned, posterior: Posterior) -> Draws | None:
    """θ ~ N(μ, LLᵀ), or a network's dropped channels; None where nothing is random."""
    reg = model.regularizer
    if isinstance(bound, BoundNetwork):
        return Passes(bound) if reg.drops else None
    if not posterior.stochastic or not isinstance(reg, ParametricRegularizer):
        return None
    return Sampler(reg, posterior.sample, model.scheme)


def model_name(model: str | Model) -> str:
    """The last part of a model's path, without its ending; of a loaded model the name on its card."""
    if isinstance(model, Model):
        return str(model.card.get("name", "model"))
    return name_of(model)


def _baseline(options: Options) -> Callable[[Tensor, Tensor], Tensor]:
    if options.method == "zero-filled":
        return ZeroFilled()
    if options.method == "tv":
        return TotalVariation() if options.tv_weight is None else TotalVariation(weight=options.tv_weight)
    if options.method == "sense":
        return sense
    if options.method == "l1-wavelet":
        return L1Wavelet()
    if options.method == "bart-l1":
        return Bart("l1")
    if options.method == "bart-tv":
        return Bart("tv")
    raise ConfigError(f"got the method {options.method!r}, expected one of {', '.join(BASELINES)}")


def _as_it_is(z: Tensor) -> Tensor:
    return z
