"""Rows of earlier evaluations, so that a long one goes on where it ended and a new method joins an old table."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bayesmri.errors import DataError
from bayesmri.io.guard import one_line
from bayesmri.io.provenance import provenance, sha256

# what decides coil images, noise, masks and slices; the track and R of a row do the rest
SAME = ("mask", "center_fraction", "coils", "snr_db", "single_coil", "seed", "slices")
Key = tuple[str, int, str | None, float, int, str, str]
Rows = list[dict[str, Any]]


@dataclass(frozen=True, eq=False)
class Earlier:
    """Rows by weights (or, without any, method), samples, track, R, the mask's number, the file's name and checksum.

    The name counts because masks, coils and noise are drawn by it: the same bytes under another name are other data.
    """

    rows: Mapping[Key, dict[str, Any]] = field(default_factory=dict)
    checksums: dict[Path, str] = field(default_factory=dict, repr=False)

    def find(self, path: Path, **facts: Any) -> dict[str, Any] | None:
        """The row of that file with these facts, under the method's present name."""
        if not self.rows:
            return None
        if path not in self.checksums:
            self.checksums[path] = sha256(path)
        row = self.rows.get(_key(facts, path.name, self.checksums[path]))
        return None if row is None else {**row, "method": facts["method"], "draw": facts.get("draw", 0)}


def earlier(results: Sequence[Path], settings: Mapping[str, Any]) -> Earlier:
    """From results files of evaluations with the same settings, made by the same version; others are refused.

    settings: of the evaluation that begins, as JSON values.
    """
    rows: dict[Key, dict[str, Any]] = {}
    for path in results:
        record = _read(path)
        _check(path.name, record, settings)
        for row, checksum in _with_checksums(record):
            rows[_key(row, row["file"], checksum)] = row
    return Earlier(rows)


def _key(row: Mapping[str, Any], file: str, checksum: str) -> Key:
    weights = row.get("weights")
    player = f"weights {weights}" if weights else f"method {row['method']}"
    setting = row["track"], float(row["acceleration"]), int(row.get("draw", 0))
    return (player, int(row["samples"]), *setting, file, checksum)


def _read(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(record["rows"], list) and isinstance(record["provenance"]["inputs"], list):
            return dict(record)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(
            f"{path.name} is no results file ({why(error)}), expected the .json of bayesmri evaluate"
        ) from error
    raise DataError(f"{path.name} is no results file, expected the .json that bayesmri evaluate wrote")


def why(error: Exception) -> str:
    """A few words on a file that is no JSON of ours; the text of a decoding error can be the whole file."""
    if isinstance(error, UnicodeDecodeError):
        return "it is not text"
    if isinstance(error, json.JSONDecodeError | RecursionError):
        return "it is not JSON"
    if isinstance(error, KeyError):
        return f"it has no {one_line(error, limit=60)}"
    return one_line((isinstance(error, OSError) and error.strerror) or error, limit=120)


def _check(name: str, record: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    study, default = record.get("study") or {}, {"slices": None}
    for key in SAME:
        was = study.get(key, default.get(key))
        if was != settings[key]:
            raise DataError(f"{name} was made with {key} = {was}, not {settings[key]}: evaluate again, or leave it out")
    made_by = record["provenance"].get("versions", {}).get("bayesmri")
    present = provenance(command="", config={}, seed=None, inputs=())["versions"]["bayesmri"]
    if made_by != present:
        raise DataError(f"{name} was made by bayesmri {made_by}, this is {present}: evaluate again, or leave it out")


def _with_checksums(record: Mapping[str, Any]) -> list[tuple[dict[str, Any], str]]:
    """Rows whose file is known by name; two files of one name cannot be told apart."""
    inputs = record["provenance"]["inputs"]
    count = Counter(item["name"] for item in inputs)
    checksums = {item["name"]: item["sha256"] for item in inputs if count[item["name"]] == 1}
    return [(row, checksums[row["file"]]) for row in record["rows"] if row.get("file") in checksums]
