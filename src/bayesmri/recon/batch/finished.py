"""Whether a result that is there is the one that is asked for: by the checksums and settings that it records."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayesmri.errors import BayesMRIError
from bayesmri.io.guard import one_line
from bayesmri.io.provenance import Seen, plain, seen
from bayesmri.io.results import read_provenance
from bayesmri.recon.acquisition import Sampling
from bayesmri.recon.request import Options, recorded_seed, settings
from bayesmri.runs import locate, name_of
from bayesmri.zoo import AUTO, shipped


@dataclass(frozen=True)
class Wanted:
    """What a result would record.

    config: all settings but the model. seed: None where nothing is drawn. inputs: the scan and whatever else is read.
    models: by name, those that would do: one, none for a method, all shipped ones where the data chooses.
    chosen: the data chooses.
    """

    config: Mapping[str, Any]
    seed: int | None
    inputs: tuple[Seen, ...]
    models: Mapping[str, Seen]
    chosen: bool = False


def difference(recorded: Mapping[str, Any], wanted: Wanted) -> str:
    """In what a record differs from what is wanted, in words; "" where a result with that record is finished."""
    config = recorded.get("config")
    if recorded.get("command") != "recon" or not isinstance(config, Mapping):
        return "it does not record how it was made"
    known = {key: value for key, value in config.items() if key not in ("model", "chosen")}
    for key in sorted({*known, *wanted.config}):
        if known.get(key) != wanted.config.get(key):
            return f"{key} was {_told(known.get(key))}, now {_told(wanted.config.get(key))}"
    model = config.get("model")
    if wanted.models and (model not in wanted.models or ("chosen" in config) != wanted.chosen):
        return f"the model was {_told(model)}, now {AUTO if wanted.chosen else _told(next(iter(wanted.models)))}"
    if recorded.get("seed") != wanted.seed:
        return f"the seed was {_told(recorded.get('seed'))}, now {_told(wanted.seed)}"
    given = [*wanted.inputs, *([wanted.models[str(model)]] if wanted.models else [])]
    return _other_inputs(recorded.get("inputs"), given)


def _other_inputs(recorded: Any, given: Sequence[Seen]) -> str:
    try:
        known = sorted((str(entry["name"]), str(entry["sha256"])) for entry in recorded)
    except (TypeError, KeyError):
        return "it does not record what it was made of"
    for name, digest in sorted((one.name, one.sha256) for one in given):
        if (name, digest) not in known:
            return f"{one_line(name, limit=80)} is not what it was"
    return "" if len(known) == len(given) else "it was made of more files"


def wanted_of(
    inputs: Sequence[Path], options: Options, sampling: Sampling | None, *, reading: Mapping[str, Any]
) -> Wanted:
    """inputs: whatever is read but the model. reading: how, where that is not the default."""
    model = options.model
    assert model is None or isinstance(model, str)
    config = plain(settings(options, sampling, model=None if model is None else AUTO, reading=reading))
    config.pop("model", None)
    return Wanted(config, recorded_seed(options, sampling), tuple(seen(inputs)), models_of(model), chosen=model == AUTO)


def models_of(model: str | None) -> dict[str, Seen]:
    """The models that may be meant, by the names that are recorded."""
    if model is None:
        return {}
    if model == AUTO:
        return {one.name: seen([one.path])[0] for one in shipped()}
    return {name_of(model): seen([locate(Path(model))])[0]}


def recorded_by(path: Path) -> dict[str, Any]:
    """The record of a result; {} where there is none that can be read."""
    try:
        return read_provenance(path)
    except BayesMRIError:
        return {}


def _told(value: object) -> str:
    return "nothing" if value is None else one_line(str(value), limit=60)
