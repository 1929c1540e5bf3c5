"""Every method under one interface: how it takes coils and scale, and (z, mask) → x for one slice."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from bayesmri.baselines.network import BoundNetwork, Network
from bayesmri.baselines.tv import TotalVariation
from bayesmri.baselines.unet import doubts, drops, moments
from bayesmri.baselines.wavelet import L1Wavelet
from bayesmri.baselines.zero_filled import ZeroFilled
from bayesmri.bounds import Calibration
from bayesmri.checkpoint import load_model
from bayesmri.devices import check_device
from bayesmri.errors import ConfigError
from bayesmri.fast import Predictor
from bayesmri.model import BoundLearned, Model, solve
from bayesmri.physics.coils import compress_coils
from bayesmri.physics.scaling import Scaling
from bayesmri.physics.sense import sense
from bayesmri.pipeline.options import BASELINES, Options
from bayesmri.posterior.base import Posterior
from bayesmri.posterior.delta import Delta
from bayesmri.sampler import Draws, Passes, Sampler


@dataclass(frozen=True)
class Method:
    """name: for tables. solve: (z, mask) → x of one slice, complex (1, Q, H, W), scaled. parameters: learned numbers.

    prepare: k-space of a whole volume as the method takes it, such as its virtual coils.
    sampler: draws of the same reconstruction, where the method has a posterior or drops channels.
    moments: (z, mask) → x as `solve` gives it and σ² of its image (1, H, W), where the network predicts it.
    predictor: makes σ̂ of a few draws, where the model came with one.
    calibrations: error bounds, where the model was calibrated.
    """

    name: str
    solve: Callable[[Tensor, Tensor], Tensor]
    parameters: int = 0
    prepare: Callable[[Tensor], Tensor] = field(default=lambda z: z)
    scaling: Scaling = field(default_factory=Scaling)
    device: torch.device = field(default_factory=partial(torch.device, "cpu"))
    sampler: Draws | None = None
    predictor: Predictor | None = None
    moments: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] | None = None
    calibrations: tuple[Calibration, ...] = ()


def make_method(options: Options) -> Method:
    """The method that the options name, ready on its device."""
    device = check_device(options.device)
    if options.model is not None:
        model = options.model if isinstance(options.model, Model) else load_model(Path(options.model))
        return learned(model, model_name(options.model), device, coils=options.coils)
    prepare = _as_it_is if options.coils is None else partial(compress_coils, Q=options.coils)
    return Method(options.method, _baseline(options), prepare=prepare, device=device)


def learned(model: Model, name: str, device: torch.device, *, coils: int | None = None) -> Method:
    """x_S(z, T, μ) of a trained model, or its network's x; x_S(z, T, θ) of draws where it has a posterior."""
    if coils is not None:
        raise ConfigError(f"{coils} virtual coils came with a model, which has its own {model.coils.Q}: leave it out")
    posterior, reg = model.distribution().to(device), model.regularizer
    bound = reg.bind({key: w.detach() for key, w in posterior.mean().items()})

    def at_mean(z: Tensor, mask: Tensor) -> Tensor:
        with torch.no_grad():
            return solve(z, mask, bound, T=model.T, S=model.S, start=model.start)

    return Method(
        name,
        at_mean,
        model.n_parameters,
        model.coils.prepare,
        model.scaling,
        device,
        _draws(model, bound, posterior),
        None if model.predictor is None else model.predictor.to(device),
        torch.no_grad()(partial(moments, bound)) if isinstance(bound, BoundNetwork) and doubts(reg) else None,
        model.calibrations,
    )


def _draws(model: Model, bound: BoundLearned, posterior: Posterior) -> Draws | None:
    """θ ~ N(μ, LLᵀ), or a network's dropped channels; None where nothing is random."""
    reg = model.regularizer
    if isinstance(bound, BoundNetwork):
        return Passes(bound) if drops(reg) else None
    if isinstance(posterior, Delta) or isinstance(reg, Network):
        return None
    return Sampler(reg, posterior.sample, model.T, model.S, model.start)


def model_name(model: str | Model) -> str:
    """The last part of a model's path, without its ending; of a loaded model the name on its card."""
    if isinstance(model, Model):
        return str(model.card.get("name", "model"))
    path = Path(model)
    return path.stem if path.suffix in (".json", ".safetensors") else path.name


def _baseline(options: Options) -> Callable[[Tensor, Tensor], Tensor]:
    if options.method == "zero-filled":
        return ZeroFilled()
    if options.method == "tv":
        return TotalVariation() if options.tv_weight is None else TotalVariation(weight=options.tv_weight)
    if options.method == "sense":
        return sense
    if options.method == "l1-wavelet":
        return L1Wavelet()
    raise ConfigError(f"method {options.method!r}: want one of {', '.join(BASELINES)}")


def _as_it_is(z: Tensor) -> Tensor:
    return z
