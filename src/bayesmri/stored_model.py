"""The model of a record and its weights: every number within bounds before anything is allocated, types as they are."""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from bayesmri.bounded import cleaned, one_line
from bayesmri.bounds.bound import Calibration
from bayesmri.bounds.expected import ErrorScale
from bayesmri.bounds.familiar import Familiar
from bayesmri.config import parse
from bayesmri.errors import BayesMRIError, ConfigError, ModelError
from bayesmri.machine.allowance import Allowance
from bayesmri.model import Coils, Learned, LearnedConfig, Model, build
from bayesmri.physics.scaling import Scaling
from bayesmri.posterior.block_gaussian import BlockGaussian, check_L
from bayesmri.posterior.error_head import ErrorHead, ErrorHeadConfig
from bayesmri.posterior.predictor import Predictor, PredictorConfig
from bayesmri.registry import Entry, entry

L_PREFIX = "L."
PREDICTOR_PREFIX = "predictor."
HEAD_PREFIX = "error_head."
PREFIXES = (L_PREFIX, PREDICTOR_PREFIX, HEAD_PREFIX)  # of all that is not θ

MOST_STEPS, MOST_R, MOST = 10_000, 1000.0, 3e38  # what float32 holds: a step too long is seen to diverge
WIDEST = 4096  # any count in the description of a network
ROOM, GROWTH = 2**28, 8  # bytes that start values may take, and so many times the weights' own


def model_from(record: Mapping[str, Any], weights: bytes, path: Path) -> Model:
    """Numbers are checked before anything is allocated, and no more is than weights of that size need."""
    shown = one_line(path.name)
    try:
        tensors = tensors_of(weights)
        regularizer = _regularizer(record, tensors, Allowance(ROOM + GROWTH * len(weights)))
        R = record["acceleration"]
        return Model(
            regularizer=regularizer,
            T=number(record, "T", 0, MOST),
            S=round(number(record, "S", 1, MOST_STEPS, whole=True)),
            coils=parse(Coils, check_sizes(record["coils"])),
            scaling=parse(Scaling, record["scaling"]),
            acceleration=None if R is None else number(record, "acceleration", 1, MOST_R),
            also=_also(record),
            card=cleaned(_table(record["card"], "card")),
            posterior=_posterior(record, tensors, regularizer),
            predictor=_predictor(record, tensors, len(weights)),
            calibrations=_calibrations(record, "calibration"),
            error_head=_error_head(record, tensors, len(weights)),
            error_calibrations=_calibrations(record, "error_calibration"),
            scales=_scales(record),
            familiar=_familiar(record),
            start=record.get("start", "zero-filled"),
            rho=_optional(record, "rho", 0, MOST),
            momentum=_optional(record, "momentum", -10, 10),
        )
    except (KeyError, TypeError, ValueError, ArithmeticError, AttributeError, RuntimeError) as error:
        said = one_line(repr(error), limit=200)
        raise ModelError(f"{shown} is not a model of this version: {said}") from error
    except BayesMRIError as error:
        raise ModelError(f"{shown} cannot be loaded: {one_line(error, limit=400)}") from error


def tensors_of(content: bytes) -> dict[str, Tensor]:
    try:
        return load(content)
    except (SafetensorError, ValueError, KeyError, RuntimeError, OverflowError) as error:
        raise ModelError(f"its numbers are no safetensors file ({one_line(error, limit=120)})") from error


def number(record: Mapping[str, Any], key: str, low: float, high: float, *, whole: bool = False) -> float:
    """A number of a record within its bounds; a word that looks like one is none."""
    value = record[key]
    good = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
    if not (good and math.isfinite(value) and low <= value <= high):
        raise ModelError(
            f"got {key} = {one_line(value, limit=40)}, expected a {'whole ' * whole}number from {low:g} to {high:g}"
        )
    return float(value)


def check_sizes(section: Any) -> dict[str, Any]:
    """A section whose counts describe something that can be built at all."""
    table = dict(_table(section, "description"))
    for key, value in table.items():
        items = value if isinstance(value, list) else [value]
        if len(items) > WIDEST or any(isinstance(n, int) and abs(n) > WIDEST for n in items):
            raise ModelError(
                f"got {one_line(key, limit=40)} = {one_line(value, limit=40)}, expected numbers of at most {WIDEST}"
            )
    return table


def _regularizer(record: Mapping[str, Any], tensors: Mapping[str, Tensor], allowance: Allowance) -> Learned:
    settings = check_sizes(record["regularizer"])
    config: LearnedConfig = parse(_kind(str(settings.pop("kind")), record).config, settings)
    with allowance:
        regularizer = build(config, torch.Generator().manual_seed(0))
    theta = {name: t for name, t in tensors.items() if not name.startswith(PREFIXES)}
    regularizer.bind(theta)  # names and shapes
    with torch.no_grad():
        for name, weight in regularizer.weights().items():
            weight.copy_(theta[name])
    return regularizer


def _also(record: Mapping[str, Any]) -> tuple[float, ...]:
    found = record.get("also", [])
    if not isinstance(found, list) or len(found) > WIDEST:
        raise ModelError(f"got also = {one_line(found, limit=40)}, expected a list of accelerations")
    return tuple(number({"also": R}, "also", 1, MOST_R) for R in found)


def _table(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ModelError(f"got {one_line(value, limit=40)} as its {what}, expected a table of names and values")
    return value


def _kind(name: str, record: Mapping[str, Any]) -> Entry:
    """What the model is of; where that came from elsewhere, the name of what is missing."""
    try:
        return entry(name)
    except ConfigError as error:
        plugin = record.get("plugin")
        if not isinstance(plugin, str):
            raise
        shown = one_line(plugin, limit=80)
        raise ModelError(
            f"got a model of the kind {one_line(name, limit=40)}, which the plug-in {shown} brings and which is not "
            f"loaded; give --plugin {shown}, or import it first"
        ) from error


def _optional(record: Mapping[str, Any], key: str, low: float, high: float) -> float | None:
    return None if record.get(key) is None else number(record, key, low, high)


def _posterior(record: Mapping[str, Any], tensors: Mapping[str, Tensor], regularizer: Learned) -> BlockGaussian | None:
    """What L makes of the weights; models from before there was one are deterministic."""
    L = {name.removeprefix(L_PREFIX): t for name, t in tensors.items() if name.startswith(L_PREFIX)}
    if not L and record.get("posterior", "delta") == "delta":
        return None
    check_L(L, regularizer.weights(), regularizer.kernels())
    return BlockGaussian({name: w.detach() for name, w in regularizer.weights().items()}, L)


def _predictor(record: Mapping[str, Any], tensors: Mapping[str, Tensor], nbytes: int) -> Predictor | None:
    """None where the model has none, or one of the first kind, which knew of no brightness and is made anew."""
    if record.get("predictor") is None:
        return None
    config = parse(PredictorConfig, check_sizes(record["predictor"]))
    found = {n.removeprefix(PREDICTOR_PREFIX): t for n, t in tensors.items() if n.startswith(PREDICTOR_PREFIX)}
    if found and "linear" not in found:
        return None
    with Allowance(ROOM + GROWTH * nbytes):
        predictor = Predictor(config, torch.Generator().manual_seed(0))
    predictor.load_state_dict(found)
    return predictor.requires_grad_(False)


def _error_head(record: Mapping[str, Any], tensors: Mapping[str, Tensor], nbytes: int) -> ErrorHead | None:
    """None where the model has none, or one of the first kind, which never scanned an image again."""
    if record.get("error_head") is None:
        return None
    config = parse(ErrorHeadConfig, check_sizes(record["error_head"]))
    if HEAD_PREFIX + "linear" in tensors:
        return None
    with Allowance(ROOM + GROWTH * nbytes):
        head = ErrorHead(config, torch.Generator().manual_seed(0))
    head.load_state_dict({n.removeprefix(HEAD_PREFIX): t for n, t in tensors.items() if n.startswith(HEAD_PREFIX)})
    return head.requires_grad_(False)


def _calibrations(record: Mapping[str, Any], key: str) -> tuple[Calibration, ...]:
    """None where the model was not calibrated, as those from before it could be."""
    return tuple(
        replace(
            parse(Calibration, {key: value for key, value in found.items() if key != "provenance"}, where=key),
            provenance=found.get("provenance", {}),
        )
        for found in record.get(key, ())
    )


def _scales(record: Mapping[str, Any]) -> tuple[ErrorScale, ...]:
    """None where none were fitted."""
    return tuple(
        replace(
            parse(ErrorScale, {key: value for key, value in found.items() if key != "provenance"}, where="expected"),
            provenance=found.get("provenance", {}),
        )
        for found in record.get("expected", ())
    )


def _familiar(record: Mapping[str, Any]) -> Familiar | None:
    """None where the training data was not looked at."""
    found = record.get("familiar")
    if found is None:
        return None
    known = {key: value for key, value in found.items() if key != "provenance"}
    return replace(parse(Familiar, known, where="familiar"), provenance=found.get("provenance", {}))
