"""Models and runs on disk as far as their JSON files tell: found, opened, checked and committed without torch."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bayesmri.bounded import MOST_BYTES, json_of, one_line, read_bytes
from bayesmri.errors import ModelError
from bayesmri.io.guard import byte_budget
from bayesmri.io.provenance import Seen
from bayesmri.zoo import find, is_model, weights_name, without_digest

FORMAT = 3
READABLE = (1, 2, 3)  # 1 knew no start but the zero-filled images, 2 no ρ, no γ and no sensitivities
FOLDER = "checkpoints"
TRIES = 5  # of reading a model that is replaced meanwhile


@dataclass(frozen=True)
class Stored:
    """A model's files as they were read, once.

    path, seen, record: its JSON file, the checksum of its bytes, and what they say, without their own checksum.
    parts: bytes of the files that it names, by role, each of the checksum that the record states.
    """

    path: Path
    seen: Seen
    record: Mapping[str, Any] = field(repr=False)
    parts: Mapping[str, bytes] = field(repr=False)

    @property
    def weights(self) -> str:
        """The checksum of the weights."""
        return str(self.record["files"]["weights"]["sha256"])


def checkpoints(run: Path) -> list[Path]:
    """The JSON files of a run, by step."""
    return sorted((run / FOLDER).glob("step-*.json"))


def latest(run: Path) -> Path | None:
    """The last checkpoint that is whole; one damaged by a crash of the machine is passed over."""
    for path in reversed(checkpoints(run)):
        try:
            record, _ = read_record(path)
            for role in record["files"]:
                part(record, role, path)
        except ModelError:
            continue
        return path
    return None


def best(run: Path) -> Path | None:
    """The checkpoint of the highest validation PSNR; without validation the last one."""
    scored = [(score, path) for path in checkpoints(run) if (score := _score(path)) is not None]
    return max(scored)[1] if scored else latest(run)


def locate(name: str | Path) -> Path:
    """The JSON file of a model: its own, the best of a run folder, the only one of another folder, a shipped one."""
    path = find(name)
    if not path.is_dir():
        return without_digest(path).with_suffix(".json")
    found = best(path if path.name != FOLDER else path.parent)
    if found is not None:
        return found
    models = sorted(p for p in path.glob("*.json") if is_model(p))
    if len(models) == 1:
        return models[0]
    raise ModelError(
        f"{one_line(path)} holds {len(models)} models and no checkpoint: give a run folder or a model's .json"
    )


def name_of(model: str) -> str:
    """The last part of a model's path, without its ending: what results call it."""
    path = Path(model)
    return path.stem if path.suffix in (".json", ".safetensors") else path.name


def opened(path: Path, roles: Sequence[str] = ("weights",)) -> Stored:
    """The files of a model, all of one moment: where it is replaced while it is read, it is read again."""
    for attempt in range(TRIES):
        record, seen = read_record(path)
        try:
            return Stored(path, seen, record, {role: part(record, role, path) for role in roles})
        except ModelError:
            if attempt == TRIES - 1 or read_record(path)[1] == seen:
                raise
    raise AssertionError("the last attempt returns or raises")


def read_record(path: Path) -> tuple[dict[str, Any], Seen]:
    """The JSON record, whole and of this format, and the checksum of the bytes that were read."""
    shown = one_line(path.name)
    try:
        content = read_bytes(path, MOST_BYTES)
        record = json_of(content)
        digest = record.pop("sha256")
        version = record["format"]
    except FileNotFoundError as error:
        raise ModelError(f"{shown} is missing: a model is a .json file with its .safetensors beside it") from error
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise ModelError(f"{shown} is not a bayesmri model, expected the .json file that training writes") from error
    if digest != digest_of(record):
        raise ModelError(f"{shown} is damaged: its content does not match its sha256; copy it again")
    if version not in READABLE or isinstance(version, bool):
        raise ModelError(
            f"{shown} has format {one_line(version, limit=40)}, expected {FORMAT}; use the version that wrote it"
        )
    return record, Seen(path.name, hashlib.sha256(content).hexdigest())


def part(record: Mapping[str, Any], role: str, path: Path) -> bytes:
    """The bytes of a file that the record of `path` names, whose checksum is theirs."""
    shown = one_line(path.name)
    try:
        entry = record["files"][role]
        file, digest = path.with_name(Path(str(entry["name"])).name), entry["sha256"]  # never outside its own folder
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(f"{shown} does not name its {role}, expected a file with its sha256; copy it again") from error
    try:
        content = read_bytes(file, byte_budget())
    except FileNotFoundError as error:
        raise ModelError(f"{one_line(file.name)} is missing beside {shown}: a model is both files") from error
    except (OSError, ValueError) as error:
        said = one_line((isinstance(error, OSError) and error.strerror) or error, limit=80)
        raise ModelError(f"{one_line(file.name)} beside {shown} cannot be read ({said}): copy it again") from error
    if hashlib.sha256(content).hexdigest() != digest:
        raise ModelError(f"{one_line(file.name)} is damaged: its sha256 is not the one in {shown}; copy it again")
    return content


def signed(record: Mapping[str, Any]) -> bytes:
    """The text of a record with its own checksum; what JSON has no word for is a ModelError."""
    try:
        plain = json.loads(json.dumps(record, allow_nan=False))  # what will be read back is what is signed
    except (TypeError, ValueError) as error:
        said = one_line(error, limit=80)
        raise ModelError(
            f"got a model whose record holds NaN, Inf or an object, expected JSON values ({said})"
        ) from error
    return (json.dumps(plain | {"sha256": digest_of(plain)}, indent=1) + "\n").encode()


def weights_file(path: Path) -> Path:
    """Where the weights of a model's JSON file are."""
    return path.with_name(weights_name(path))


def digest_of(record: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def _score(path: Path) -> float | None:
    try:
        metrics = read_record(path)[0].get("metrics")
    except ModelError:
        return None
    score = metrics.get("psnr") if isinstance(metrics, dict) else None
    return float(score) if isinstance(score, int | float) else None
