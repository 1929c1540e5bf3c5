"""Models and runs on disk as far as their JSON files tell: found, opened and checked without torch."""

import hashlib
import json
from pathlib import Path
from typing import Any

from bayesmri.errors import ModelError
from bayesmri.io.provenance import Seen, sha256
from bayesmri.zoo import find

FORMAT = 3
READABLE = (1, 2, 3)  # 1 knew no start but the zero-filled images, 2 no ρ, no γ and no sensitivities
FOLDER = "checkpoints"


def checkpoints(run: Path) -> list[Path]:
    """The JSON files of a run, by step."""
    return sorted((run / FOLDER).glob("step-*.json"))


def latest(run: Path) -> Path | None:
    """The last checkpoint that is whole; one damaged by a crash of the machine is passed over."""
    for path in reversed(checkpoints(run)):
        try:
            record, _ = open_record(path)
            for role in record["files"]:
                verified(record, role, path)
        except ModelError:
            continue
        return path
    return None


def best(run: Path) -> Path | None:
    """The checkpoint of the highest validation PSNR; without validation the last one."""
    scored = [(score, path) for path in checkpoints(run) if (score := _score(path)) is not None]
    return max(scored)[1] if scored else latest(run)


def locate(path: Path) -> Path:
    """The JSON file of a model: its own, the best of a run folder, the only one of another folder, a shipped one."""
    path = find(path)
    if not path.is_dir():
        return path.with_suffix(".json")
    found = best(path if path.name != FOLDER else path.parent)
    if found is not None:
        return found
    models = sorted(p for p in path.glob("*.json") if p.with_suffix(".safetensors").exists())
    if len(models) == 1:
        return models[0]
    raise ModelError(f"{path} holds {len(models)} models and no checkpoint: give a run folder or a model's .json")


def name_of(model: str) -> str:
    """The last part of a model's path, without its ending: what results call it."""
    path = Path(model)
    return path.stem if path.suffix in (".json", ".safetensors") else path.name


def open_record(path: Path) -> tuple[dict[str, Any], Path]:
    """The JSON record, whole and of this format."""
    return read_record(path)[0], path


def read_record(path: Path) -> tuple[dict[str, Any], Seen]:
    """The same, and the checksum of the bytes that were read, which name the weights by theirs."""
    try:
        content = path.read_bytes()
        record = json.loads(content.decode("utf-8"))
        digest = record.pop("sha256")
        version = record["format"]
    except FileNotFoundError as error:
        raise ModelError(f"{path.name} is missing: a model is a .json file with its .safetensors beside it") from error
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise ModelError(
            f"{path.name} is not a bayesmri model, expected the .json file that training writes"
        ) from error
    if digest != digest_of(record):
        raise ModelError(f"{path.name} is damaged: its content does not match its sha256; copy it again")
    if version not in READABLE:
        raise ModelError(f"{path.name} has format {version}, expected {FORMAT}; use the version that wrote it")
    return record, Seen(path.name, hashlib.sha256(content).hexdigest())


def verified(record: dict[str, Any], role: str, path: Path) -> Path:
    entry = record["files"][role]
    file = path.with_name(Path(entry["name"]).name)  # never outside the model's own folder
    if not file.is_file():
        raise ModelError(f"{file.name} is missing beside {path.name}: a model is both files")
    if sha256(file) != entry["sha256"]:
        raise ModelError(f"{file.name} is damaged: its sha256 is not the one in {path.name}; copy it again")
    return file


def _score(path: Path) -> float | None:
    try:
        metrics = open_record(path)[0].get("metrics")
    except ModelError:
        return None
    return None if metrics is None else metrics.get("psnr")


def digest_of(record: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()
