"""Models and training states on disk: safetensors for numbers, JSON for the rest, checksums for both; no pickle.

A checkpoint is a JSON file `step-00001000.json` and what it names beside it: `….safetensors`, the weights to
reconstruct with (and `L.<kernel>` where they are drawn from N(μ, LLᵀ)), and `….state.safetensors`, what training needs
besides to go on. The JSON is written last and carries
the sha256 of the others and of itself, so a checkpoint is either whole or not there. Without the state it is a model to
give away.
"""

import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from bayesmri.bounds.bound import Calibration
from bayesmri.bounds.expected import ErrorScale
from bayesmri.bounds.familiar import Familiar
from bayesmri.config import as_dict, parse
from bayesmri.errors import BayesMRIError, ConfigError, ModelError
from bayesmri.io.atomic import atomic_path
from bayesmri.io.guard import one_line
from bayesmri.io.provenance import sha256
from bayesmri.model import Coils, Learned, LearnedConfig, Model, build
from bayesmri.physics.scaling import Scaling
from bayesmri.posterior.block_gaussian import BlockGaussian, check_L
from bayesmri.posterior.error_head import ErrorHead, ErrorHeadConfig
from bayesmri.posterior.predictor import Predictor, PredictorConfig
from bayesmri.registry import Entry, entry, of_config
from bayesmri.runs import FORMAT, best, checkpoints, digest_of, locate, open_record, read_record, verified

L_PREFIX = "L."
PREDICTOR_PREFIX = "predictor."
HEAD_PREFIX = "error_head."
PREFIXES = (L_PREFIX, PREDICTOR_PREFIX, HEAD_PREFIX)  # of all that is not θ


@dataclass(frozen=True)
class Checkpoint:
    """One point of a training run.

    state: tensors by name that training goes on from. facts: plain values besides (configuration, elapsed time, …).
    metrics: of the last validation, None where there was none.
    """

    model: Model
    step: int
    state: Mapping[str, Tensor] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, float] | None = None


def save_checkpoint(folder: Path, checkpoint: Checkpoint) -> Path:
    """Writes `step-XXXXXXXX.*` into the folder; returns the JSON's path."""
    path = folder / f"step-{checkpoint.step:08d}.json"
    files = {"weights": path.with_suffix(".safetensors")}
    _write_tensors(files["weights"], _numbers(checkpoint.model))
    if checkpoint.state:
        files["state"] = path.with_suffix(".state.safetensors")
        _write_tensors(files["state"], checkpoint.state)
    _write_json(
        path,
        _describe(checkpoint.model)
        | {
            "step": checkpoint.step,
            "metrics": None if checkpoint.metrics is None else dict(checkpoint.metrics),
            "facts": dict(checkpoint.facts),
            "files": {role: {"name": file.name, "sha256": sha256(file)} for role, file in files.items()},
        },
    )
    return path


def save_model(path: Path, model: Model) -> None:
    """A model to give away: `path` (.json) and the weights beside it."""
    weights = path.with_suffix(".safetensors")
    _write_tensors(weights, _numbers(model))
    files = {"weights": {"name": weights.name, "sha256": sha256(weights)}}
    _write_json(path.with_suffix(".json"), _describe(model) | {"files": files})


def annotate(
    path: Path,
    out: Path,
    calibrations: tuple[Calibration, ...] | None = None,
    *,
    error_calibrations: tuple[Calibration, ...] | None = None,
    scales: tuple[ErrorScale, ...] | None = None,
    familiar: Familiar | None = None,
) -> None:
    """The model of one JSON file with other error bounds, scales of expected errors or another record of its training
    data, in another or in its own.

    What is None stays; a training state stays behind.

    calibrations, error_calibrations: bounds of σ̂ and of σ_total.
    """
    record, path = open_record(path)
    source, weights = verified(record, "weights", path), out.with_suffix(".safetensors")
    if source.resolve() != weights.resolve():
        with atomic_path(weights) as temporary:
            shutil.copyfile(source, temporary)
    files = {"weights": {"name": weights.name, "sha256": sha256(weights)}}
    given = {"calibration": calibrations, "error_calibration": error_calibrations, "expected": scales}
    changed: dict[str, Any] = {key: [as_dict(x) for x in found] for key, found in given.items() if found is not None}
    changed |= {} if familiar is None else {"familiar": as_dict(familiar)}
    _write_json(out, record | changed | {"files": files})


def load_model(path: Path) -> Model:
    """The model of a JSON or safetensors file, or the best of a run folder; anything else is a ModelError."""
    path = locate(path)
    record, seen = read_record(path)
    return replace(_model(record, path), file=seen)


def load_checkpoint(path: Path) -> Checkpoint:
    """A whole checkpoint, ready to train on."""
    record, path = open_record(path)
    if "state" not in record["files"]:
        raise ModelError(f"{path.name} holds a model without its training state: it can reconstruct, not resume")
    metrics = record.get("metrics")
    return Checkpoint(_model(record, path), record["step"], _tensors(record, "state", path), record["facts"], metrics)


def prune(run: Path, *, keep: int) -> None:
    """Deletes all but the last `keep` checkpoints and the best; the JSON goes first, so none is ever half there."""
    paths = checkpoints(run)
    spared = {*paths[len(paths) - keep :], best(run)}
    for path in paths:
        if path not in spared:
            for suffix in (".json", ".safetensors", ".state.safetensors"):
                path.with_suffix(suffix).unlink(missing_ok=True)


def _numbers(model: Model) -> dict[str, Tensor]:
    """θ, or μ and L; and the weights of the predictor and of the head of σ_total."""
    blocks = model.distribution().blocks
    predictor = {} if model.predictor is None else model.predictor.state_dict()
    head = {} if model.error_head is None else model.error_head.state_dict()
    return (
        model.regularizer.weights()
        | {L_PREFIX + name: l for name, l in blocks.items()}
        | {PREDICTOR_PREFIX + name: w for name, w in predictor.items()}
        | {HEAD_PREFIX + name: w for name, w in head.items()}
    )


def _describe(model: Model) -> dict[str, Any]:
    config = model.regularizer.config
    kind = of_config(config)
    return {
        "format": FORMAT,
        "regularizer": {"kind": kind.name, **as_dict(config)},
        **({"plugin": kind.plugin} if kind.plugin else {}),
        "T": model.T,
        "rho": model.rho,
        "momentum": model.momentum,
        "S": model.S,
        "coils": as_dict(model.coils),
        "scaling": as_dict(model.scaling),
        "start": model.start,
        "acceleration": model.acceleration,
        "also": list(model.also),
        "posterior": "gaussian" if model.stochastic else "delta",
        "predictor": None if model.predictor is None else as_dict(model.predictor.config),
        "calibration": [as_dict(found) for found in model.calibrations],
        "expected": [as_dict(found) for found in model.scales],
        **(
            {}
            if model.error_head is None
            else {
                "error_head": as_dict(model.error_head.config),
                "error_calibration": [as_dict(found) for found in model.error_calibrations],
            }
        ),
        **({} if model.familiar is None else {"familiar": as_dict(model.familiar)}),
        "card": dict(model.card),
    }


def _model(record: dict[str, Any], path: Path) -> Model:
    try:
        settings = dict(record["regularizer"])
        config: LearnedConfig = parse(_kind(str(settings.pop("kind")), record).config, settings)
        regularizer = build(config, torch.Generator().manual_seed(0))
        tensors = _tensors(record, "weights", path)
        theta = {name: t for name, t in tensors.items() if not name.startswith(PREFIXES)}
        regularizer.bind(theta)  # names and shapes
        with torch.no_grad():
            for name, weight in regularizer.weights().items():
                weight.copy_(theta[name])
        return Model(
            regularizer=regularizer,
            T=float(record["T"]),
            S=int(record["S"]),
            coils=parse(Coils, record["coils"]),
            scaling=parse(Scaling, record["scaling"]),
            acceleration=record["acceleration"],
            also=tuple(float(R) for R in record.get("also", ())),
            card=record["card"],
            posterior=_posterior(record, tensors, regularizer),
            predictor=_predictor(record, tensors),
            calibrations=_calibrations(record, "calibration"),
            error_head=_error_head(record, tensors),
            error_calibrations=_calibrations(record, "error_calibration"),
            scales=_scales(record),
            familiar=_familiar(record),
            start=record.get("start", "zero-filled"),
            rho=_optional(record, "rho"),
            momentum=_optional(record, "momentum"),
        )
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise ModelError(f"{path.name} is not a model of this version: {error!r}") from error
    except BayesMRIError as error:
        raise ModelError(f"{path.name} cannot be loaded: {error}") from error


def _kind(name: str, record: dict[str, Any]) -> Entry:
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


def _optional(record: dict[str, Any], key: str) -> float | None:
    return None if record.get(key) is None else float(record[key])


def _posterior(record: dict[str, Any], tensors: Mapping[str, Tensor], regularizer: Learned) -> BlockGaussian | None:
    """What L makes of the weights; models from before there was one are deterministic."""
    L = {name.removeprefix(L_PREFIX): t for name, t in tensors.items() if name.startswith(L_PREFIX)}
    if not L and record.get("posterior", "delta") == "delta":
        return None
    check_L(L, regularizer.weights(), regularizer.kernels())
    return BlockGaussian({name: w.detach() for name, w in regularizer.weights().items()}, L)


def _predictor(record: dict[str, Any], tensors: Mapping[str, Tensor]) -> Predictor | None:
    """None where the model has none, as those from before there was one."""
    if record.get("predictor") is None:
        return None
    predictor = Predictor(parse(PredictorConfig, record["predictor"]), torch.Generator().manual_seed(0))
    found = {n.removeprefix(PREDICTOR_PREFIX): t for n, t in tensors.items() if n.startswith(PREDICTOR_PREFIX)}
    predictor.load_state_dict(found)
    return predictor.requires_grad_(False)


def _error_head(record: dict[str, Any], tensors: Mapping[str, Tensor]) -> ErrorHead | None:
    """None where the model has none, as those from before there was one."""
    if record.get("error_head") is None:
        return None
    head = ErrorHead(parse(ErrorHeadConfig, record["error_head"]), torch.Generator().manual_seed(0))
    head.load_state_dict({n.removeprefix(HEAD_PREFIX): t for n, t in tensors.items() if n.startswith(HEAD_PREFIX)})
    return head.requires_grad_(False)


def _calibrations(record: dict[str, Any], key: str) -> tuple[Calibration, ...]:
    """None where the model was not calibrated, as those from before it could be."""
    return tuple(
        replace(
            parse(Calibration, {key: value for key, value in found.items() if key != "provenance"}, where=key),
            provenance=found.get("provenance", {}),
        )
        for found in record.get(key, ())
    )


def _scales(record: dict[str, Any]) -> tuple[ErrorScale, ...]:
    """None where none were fitted."""
    return tuple(
        replace(
            parse(ErrorScale, {key: value for key, value in found.items() if key != "provenance"}, where="expected"),
            provenance=found.get("provenance", {}),
        )
        for found in record.get("expected", ())
    )


def _familiar(record: dict[str, Any]) -> Familiar | None:
    """None where the training data was not looked at."""
    found = record.get("familiar")
    if found is None:
        return None
    known = {key: value for key, value in found.items() if key != "provenance"}
    return replace(parse(Familiar, known, where="familiar"), provenance=found.get("provenance", {}))


def _tensors(record: dict[str, Any], role: str, path: Path) -> dict[str, Tensor]:
    file = verified(record, role, path)
    try:
        return load_file(file)
    except (SafetensorError, OSError) as error:
        raise ModelError(f"{file.name} is not a safetensors file: {error}") from error


def _write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    plain = {name: t.detach().cpu().contiguous() for name, t in tensors.items()}
    with atomic_path(path) as temporary:
        try:
            save_file(plain, temporary)
        except SafetensorError as error:  # its words hold the system's number of what went wrong
            number = re.search(r"os error (\d+)", str(error))
            raise OSError(int(number[1]), os.strerror(int(number[1]))) if number else error from error


def _write_json(path: Path, record: dict[str, Any]) -> None:
    record = json.loads(json.dumps(record, allow_nan=False))  # what will be read back is what is signed
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps(record | {"sha256": digest_of(record)}, indent=1) + "\n", encoding="utf-8")
