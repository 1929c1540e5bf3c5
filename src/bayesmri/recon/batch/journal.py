"""What was found of every volume that is done, a line of JSON each, appended as it happens: a kill loses none of it."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bayesmri.errors import OutputError

FOLDER = ".batch"
LONGEST = 2**20  # bytes of a line


def journal_path(out: Path, shard: str) -> Path:
    """Of one writer: shards have their own."""
    return out / FOLDER / f"{shard or 'all'}.jsonl"


def append(path: Path, row: Mapping[str, Any]) -> None:
    """One more line, on the disk when this returns."""
    line = json.dumps(row, allow_nan=False) + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from error


def rows(out: Path) -> dict[str, dict[str, Any]]:
    """The last row of every input that was done, by its name, of all shards; a line cut short is passed over."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted((out / FOLDER).glob("*.jsonl")):
        for row in _read(path):
            former = found.get(row["input"])
            if former is None or former.get("time", "") <= row.get("time", ""):
                found[row["input"]] = row
    return found


def _read(path: Path) -> list[dict[str, Any]]:
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError:
        return []
    found = []
    for line in lines:
        try:
            row = json.loads(line) if len(line) < LONGEST else None
        except ValueError:
            continue
        if isinstance(row, dict) and isinstance(row.get("input"), str) and isinstance(row.get("time", ""), str):
            found.append(row)
    return found
