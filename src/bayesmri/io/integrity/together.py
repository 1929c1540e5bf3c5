"""Files that one command wrote belong together: the HDF5 file, which appears last, names the others by checksum.

A kill between two of their renames can leave new files beside an old one; `set_faults` sees that.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bayesmri.bounded import json_of, one_line
from bayesmri.errors import BayesMRIError
from bayesmri.io.provenance import sha256
from bayesmri.io.safe_h5 import text_attribute

SET = "files"  # attribute of the HDF5 file: names beside it, and their checksums
MOST = 1000


def set_text(made: Mapping[str, Path]) -> str:
    """The attribute, of files and folders that are to be called by the names given."""
    return json.dumps({name: sha256(path) for name, path in sorted(made.items())})


def set_of(file: Any) -> dict[str, str]:
    """Names and checksums of the files that an open HDF5 file was written with; {} where there were none."""
    text = text_attribute(file, SET, limit=2**18)
    try:
        value = json_of(text.encode()) if text else {}
    except ValueError:
        return {}
    return value if is_set(value) else {}


def is_set(value: Any) -> bool:
    """Names without a folder, and checksums: nothing leads out of the folder they lie in."""
    return (
        isinstance(value, dict)
        and len(value) <= MOST
        and all(isinstance(v, str) and Path(k).name == k and k not in ("", "..") for k, v in value.items())
    )


def set_faults(path: Path, expected: Mapping[str, str]) -> list[str]:
    """What is missing beside `path`, or is not what was written with it; one sentence each."""
    return [said for name, digest in expected.items() if (said := _fault(path.with_name(name), digest))]


def _fault(file: Path, digest: str) -> str:
    shown = one_line(file.name)
    if not file.exists():
        return f"{shown} is missing, which was written with it"
    try:
        if sha256(file) == digest:
            return ""
    except BayesMRIError:
        return f"{shown} cannot be read"
    return f"{shown} is damaged, or of another run"


def table_checksum(record: Mapping[str, Any]) -> str:
    """Of a JSON table without its own."""
    kept = {key: value for key, value in record.items() if key != "checksums"}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()
