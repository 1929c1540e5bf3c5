"""Where a result comes from: versions, settings, seed and the checksums of its inputs, as plain JSON values."""

import hashlib
import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from bayesmri.bounded import one_line
from bayesmri.errors import DataError
from bayesmri.io.inputs import input_files


@dataclass(frozen=True)
class Seen:
    """A file whose bytes were read and hashed already: what is recorded is what was used, whatever is there later."""

    name: str
    sha256: str


PACKAGES = ("bayesmri", "torch", "numpy", "h5py")


def provenance(
    *,
    command: str,
    config: Mapping[str, object],
    seed: int | None,
    inputs: Sequence[Path | Seen],
    threads: int | None = None,
) -> dict[str, Any]:
    """What it takes to repeat a result.

    command: the verb with its options, without paths.
    inputs: files, folders or pairs, recorded by name and sha256; folders above them may name a patient: left out.
    threads: bits repeat only at the same number.
    """
    return {
        "command": command,
        "config": plain(config),
        "seed": seed,
        "inputs": [asdict(found) for found in seen(inputs)],
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in PACKAGES}},
        "threads": threads,
        "machine": platform.machine(),
        "processor": processor(),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def seen(inputs: Sequence[Path | Seen]) -> list[Seen]:
    """Names and checksums of all files behind the inputs, both halves of a pair."""
    return [one for given in inputs for one in _seen(given)]


def _seen(given: Path | Seen) -> list[Seen]:
    return [given] if isinstance(given, Seen) else [Seen(p.name, sha256(p)) for p in input_files(given)]


def stamps(inputs: Sequence[Path]) -> dict[Path, tuple[int, ...]]:
    """What the system says of the files behind the inputs: identity, size and times, before they are read."""
    found: dict[Path, tuple[int, ...]] = {}
    for path in (file for given in inputs for name in input_files(given) for file in _within(name)):
        try:
            info = path.stat()
        except (OSError, ValueError):
            continue
        found[path] = (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)
    return found


def seen_since(before: Mapping[Path, tuple[int, ...]], inputs: Sequence[Path]) -> list[list[Seen]]:
    """Of every input, names and checksums, which are those of the bytes that were read since `before`.

    A file that has changed meanwhile is a DataError: its checksum would be that of other bytes.
    """
    found = [_seen(given) for given in inputs]
    now = stamps(inputs)
    changed = next((path for path in {**before, **now} if before.get(path) != now.get(path)), None)
    if changed is not None:
        raise DataError(f"{one_line(changed.name)} was changed while it was read: wait for its writer, and run again")
    return found


def _within(path: Path) -> list[Path]:
    try:
        return sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    except (OSError, ValueError):
        return [path]


def processor() -> str:
    """The processor's name where the system tells it, else its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return next(filter(None, [*named, platform.processor()]), platform.machine())


def sha256(path: Path) -> str:
    """Of a file's bytes; of a folder, over the sorted relative names and checksums of the files in it."""
    try:
        if path.is_dir():
            files = sorted(p for p in path.rglob("*") if p.is_file())
            lines = (f"{sha256(p)}  {p.relative_to(path).as_posix()}\n" for p in files)
            return hashlib.sha256("".join(lines).encode(errors="surrogateescape")).hexdigest()
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"cannot read {path.name} ({error.strerror}): check that it exists and may be read") from error


def plain(value: object) -> Any:
    """Values JSON can hold: paths become file names, tuples lists, array scalars numbers, NaN and Inf words."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Path):
        return value.name
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    tolist = getattr(value, "tolist", None)  # arrays and their scalars
    if tolist is None:
        raise TypeError(f"a {type(value).__name__} has no place in a provenance record, expected JSON values or paths")
    return plain(tolist())


def _version(name: str) -> str:
    """From the installed package's metadata: importing torch for it would cost a second."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"
