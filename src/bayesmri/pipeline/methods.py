"""Every method under one interface: how it takes coils and scale, and (z, mask) → x for one slice."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from bayesmri.baselines.tv import TotalVariation
from bayesmri.baselines.zero_filled import ZeroFilled
from bayesmri.checkpoint import load_model
from bayesmri.errors import ConfigError
from bayesmri.model import Model
from bayesmri.physics.coils import compress_coils
from bayesmri.physics.scaling import Scaling
from bayesmri.pipeline.options import BASELINES, Options
from bayesmri.solver import unroll


@dataclass(frozen=True)
class Method:
    """name: for tables. solve: (z, mask) → x of one slice, complex (1, Q, H, W), scaled. parameters: learned numbers.

    prepare: k-space of a whole volume as the method takes it, such as its virtual coils.
    """

    name: str
    solve: Callable[[Tensor, Tensor], Tensor]
    parameters: int = 0
    prepare: Callable[[Tensor], Tensor] = field(default=lambda z: z)
    scaling: Scaling = field(default_factory=Scaling)


def make_method(options: Options) -> Method:
    """The method that the options name, ready on its device."""
    device = check_device(options.device)
    if options.model is not None:
        return learned(load_model(Path(options.model)), model_name(options.model), device, coils=options.coils)
    prepare = _as_it_is if options.coils is None else partial(compress_coils, Q=options.coils)
    return Method(options.method, _baseline(options), prepare=prepare)


def learned(model: Model, name: str, device: torch.device, *, coils: int | None = None) -> Method:
    """x_S(z, T, θ) of a trained model."""
    if coils is not None:
        raise ConfigError(f"--coils {coils} came with a model, which has its own {model.coils.Q}: leave it out")
    model.regularizer.to(device)
    bound = model.regularizer.bind({key: w.detach() for key, w in model.regularizer.weights().items()})

    def solve(z: Tensor, mask: Tensor) -> Tensor:
        with torch.no_grad():
            return unroll(z, mask, bound, T=model.T, S=model.S)

    return Method(name, solve, model.n_parameters, model.coils.prepare, model.scaling)


def model_name(model: str) -> str:
    """The last part of a model's path, without its ending."""
    path = Path(model)
    return path.stem if path.suffix in (".json", ".safetensors") else path.name


def check_device(name: str) -> torch.device:
    """The device of that name, if this machine has it."""
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(f"device {name!r}: want cpu, cuda or cuda:0") from error
    if device.type not in ("cpu", "cuda"):
        raise ConfigError(f"device {name!r}: want cpu, cuda or cuda:0")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ConfigError(f"device {name!r}: this machine has {torch.cuda.device_count()} CUDA devices; use cpu")
    return device


def _baseline(options: Options) -> Callable[[Tensor, Tensor], Tensor]:
    if options.method == "zero-filled":
        return ZeroFilled()
    if options.method == "tv":
        return TotalVariation() if options.tv_weight is None else TotalVariation(weight=options.tv_weight)
    raise ConfigError(f"method {options.method!r}: want one of {', '.join(BASELINES)}")


def _as_it_is(z: Tensor) -> Tensor:
    return z
