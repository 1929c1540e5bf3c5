"""Whether files are what was written: results and k-space of ours, the files beside them, models, runs and tables."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py

from bayesmri.bounded import one_line, read_json
from bayesmri.errors import BayesMRIError, FormatError
from bayesmri.io.guard import is_folder, regular_file
from bayesmri.io.integrity.seal import SEAL, check_seal
from bayesmri.io.integrity.together import SET, is_set, set_faults, set_of, table_checksum
from bayesmri.io.safe_h5 import open_h5
from bayesmri.runs import checkpoints, opened, read_record
from bayesmri.zoo import is_model

NOTHING = "it carries no checksums, so nothing can be said of it"


@dataclass(frozen=True)
class Verdict:
    """file: its path as given. kind: what it is. whole: None where nothing can be said. faults: one sentence each."""

    file: str
    kind: str
    whole: bool | None
    faults: tuple[str, ...] = field(default=())

    def as_json(self) -> dict[str, Any]:
        return {"file": self.file, "kind": self.kind, "whole": self.whole, "faults": list(self.faults)}


def verify(path: Path) -> Verdict:
    """One file, or the checkpoints of a run folder."""
    shown = one_line(path)
    try:
        if is_folder(path):
            return _of_run(path, shown)
        regular_file(path)
        if h5py.is_hdf5(path):
            return _of_h5(path, shown)
        if path.suffix == ".json":
            return _of_json(path, shown)
        return _beside(path, shown)
    except BayesMRIError as error:
        return Verdict(shown, "file", False, (one_line(error, limit=500),))


def _of_h5(path: Path, shown: str) -> Verdict:
    with open_h5(path) as file:
        if not check_seal(file):
            return Verdict(shown, "HDF5", None, (NOTHING,))
        faults = set_faults(path, set_of(file))
    return Verdict(shown, "HDF5", not faults, tuple(faults))


def _of_json(path: Path, shown: str) -> Verdict:
    """A model with all files that it names, or a table of `evaluate` with those beside it."""
    try:
        record = read_json(path)
    except ValueError as error:
        raise FormatError(f"{one_line(path.name)} is no JSON file of ours: {error}") from error
    table = isinstance(record, dict) and "rows" in record
    if table and SEAL in record:
        faults = set_faults(path, record.get(SET, {})) if is_set(record.get(SET)) else []
        if record[SEAL] != table_checksum(record):
            faults.insert(0, f"{one_line(path.name)} is not what was written: its checksum differs")
        return Verdict(shown, "table", not faults, tuple(faults))
    if not is_model(path):
        return Verdict(shown, "JSON", None, (NOTHING,))
    opened(path, tuple(read_record(path)[0]["files"]))
    return Verdict(shown, "model", True)


def _of_run(path: Path, shown: str) -> Verdict:
    found = checkpoints(path)
    if not found:
        raise FormatError(f"{shown} holds no checkpoint, expected a run folder or a file")
    faults = [fault for one in found for fault in verify(one).faults]
    return Verdict(shown, f"run of {len(found)} checkpoint{'s' * (len(found) != 1)}", not faults, tuple(faults))


def _beside(path: Path, shown: str) -> Verdict:
    """A NIfTI file, a picture: the HDF5 file that names it tells."""
    for other in sorted(p for p in path.parent.iterdir() if p.suffix in (".h5", ".hdf5") and p.is_file()):
        try:
            with open_h5(other) as file:
                expected = set_of(file) if check_seal(file) else {}
        except BayesMRIError:
            continue
        if path.name in expected:
            faults = set_faults(other, {path.name: expected[path.name]})
            kind = f"written with {one_line(other.name)}"
            return Verdict(shown, kind, not faults, tuple(faults))
    return Verdict(shown, "file", None, (NOTHING,))
