"""Models and training states on disk: safetensors for numbers, JSON for the rest, checksums for both; no pickle.

A checkpoint is a JSON file `step-00001000.json` and what it names beside it: `….safetensors`, the weights to
reconstruct with (and `L.<kernel>` where they are drawn from N(μ, LLᵀ)), and `….state.safetensors`, what training needs
besides to go on. The JSON is written last and carries
the sha256 of the others and of itself, so a checkpoint is either whole or not there. Without the state it is a model to
give away.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from safetensors.torch import save
from torch import Tensor

from bayesmri.bounded import json_of, one_line
from bayesmri.bounds.bound import Calibration
from bayesmri.bounds.expected import ErrorScale
from bayesmri.bounds.familiar import Familiar
from bayesmri.config import as_dict
from bayesmri.errors import ModelError
from bayesmri.io.atomic import atomic_path
from bayesmri.io.integrity.commit import commit, placed
from bayesmri.model import Model
from bayesmri.registry import of_config
from bayesmri.runs import FORMAT, Stored, best, checkpoints, locate, opened, read_record, signed
from bayesmri.stored_model import HEAD_PREFIX, L_PREFIX, PREDICTOR_PREFIX, model_from, number, tensors_of


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
    """Writes `step-XXXXXXXX.*` into the folder; returns the JSON's path. All is built before anything is written."""
    path = folder / f"step-{checkpoint.step:08d}.json"
    parts = {"weights": (path.with_suffix(".safetensors"), _packed(_numbers(checkpoint.model)))}
    if checkpoint.state:
        parts["state"] = (path.with_suffix(".state.safetensors"), _packed(checkpoint.state))
    text = signed(
        _describe(checkpoint.model)
        | {
            "step": checkpoint.step,
            "metrics": None if checkpoint.metrics is None else dict(checkpoint.metrics),
            "facts": dict(checkpoint.facts),
            "files": {role: _named(file.name, content) for role, (file, content) in parts.items()},
        }
    )
    for file, content in (*parts.values(), (path, text)):
        with atomic_path(file) as temporary:
            temporary.write_bytes(content)
    return path


def save_model(path: Path, model: Model) -> Path:
    """A model to give away: `path` (.json) and the weights beside it, whose path is returned."""
    numbers = _numbers(model)
    if not all(bool(t.isfinite().all()) for t in numbers.values()):
        raise ModelError("got a model whose weights hold NaN or Inf, expected finite numbers; nothing was written")
    return _save(path.with_suffix(".json"), _describe(model), _packed(numbers))


def annotate(
    stored: Stored,
    out: Path,
    calibrations: tuple[Calibration, ...] | None = None,
    *,
    error_calibrations: tuple[Calibration, ...] | None = None,
    scales: tuple[ErrorScale, ...] | None = None,
    familiar: Familiar | None = None,
) -> Path:
    """A model as it was read, with other error bounds, scales of expected errors or another record of its training
    data, in another file or in its own; returns the file of its weights.

    What is None stays; a training state stays behind. Its own file must not have become another model meanwhile.

    calibrations, error_calibrations: bounds of σ̂ and of σ_total.
    """
    if out.resolve() == stored.path.resolve() and read_record(out)[1] != stored.seen:
        raise ModelError(f"{one_line(out.name)} was replaced by another model meanwhile: give another name with -o")
    given = {"calibration": calibrations, "error_calibration": error_calibrations, "expected": scales}
    changed: dict[str, Any] = {key: [as_dict(x) for x in found] for key, found in given.items() if found is not None}
    changed |= {} if familiar is None else {"familiar": as_dict(familiar)}
    return _save(out, {**stored.record, **changed}, stored.parts["weights"])


def _save(path: Path, record: Mapping[str, Any], weights: bytes) -> Path:
    """Built and read back in memory first; then the weights under a free name, the JSON, and the former weights."""
    text = signed({**record, "files": {"weights": _named("", weights)}})
    model_from(json_of(text), weights, path)
    try:
        former = read_record(path)[0]["files"]["weights"]["name"]
    except (ModelError, KeyError, TypeError):
        former = None
    file = placed(path, weights)
    commit(path, signed({**record, "files": {"weights": _named(file.name, weights)}}), file, weights, former)
    return file


def load_model(path: str | Path) -> Model:
    """The model of a JSON or safetensors file, or the best of a run folder; anything else is a ModelError."""
    return model_of(opened(locate(path)))


def model_of(stored: Stored) -> Model:
    """The model of files that were read."""
    return replace(model_from(stored.record, stored.parts["weights"], stored.path), file=stored.seen)


def load_checkpoint(path: Path) -> Checkpoint:
    """A whole checkpoint, ready to train on."""
    shown = one_line(path.name)
    try:
        if "state" not in read_record(path)[0]["files"]:
            raise ModelError(f"{shown} holds a model without its training state: it can reconstruct, not resume")
        stored = opened(path, ("weights", "state"))
        step, facts, metrics = number(stored.record, "step", 0, 2**53, whole=True), *_said(stored.record)
    except (KeyError, TypeError) as error:
        raise ModelError(f"{shown} is not a checkpoint of this version: {one_line(repr(error))}") from error
    state = tensors_of(stored.parts["state"])
    return Checkpoint(replace(model_of(stored), file=None), round(step), state, facts, metrics)


def _said(record: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The facts and metrics of a checkpoint."""
    facts, metrics = record["facts"], record.get("metrics")
    if not isinstance(facts, dict) or not isinstance(metrics, dict | None):
        raise TypeError("facts or metrics that are no tables")
    return facts, metrics


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


def _packed(tensors: Mapping[str, Tensor]) -> bytes:
    return save({name: t.detach().cpu().contiguous() for name, t in tensors.items()})


def _named(name: str, content: bytes) -> dict[str, str]:
    return {"name": name, "sha256": hashlib.sha256(content).hexdigest()}
