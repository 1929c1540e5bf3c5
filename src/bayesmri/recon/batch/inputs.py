"""Which files a batch is of, and what their results are called; no torch here."""

import glob
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from bayesmri.errors import ConfigError, DataError
from bayesmri.io.formats import volume_paths
from bayesmri.io.guard import one_line
from bayesmri.recon.files import with_ending

# what a folder is searched for; a file of another name is taken where it is named
ENDINGS = (".h5", ".hdf5", ".mrd", ".npy", ".npz", ".cfl")
RESULT = ".recon.h5"
MOST_SHARDS = 100_000


@dataclass(frozen=True)
class Input:
    """One volume. name: with the folders from where it was found on. result: of the same folders."""

    path: Path
    name: str
    result: str


@dataclass(frozen=True)
class Shard:
    """Part i of n, from 1 to n: every n-th input, so that each has its share of every folder."""

    i: int = 1
    n: int = 1

    @staticmethod
    def of(text: str | None) -> "Shard":
        """ "3/16"; None is all."""
        if text is None:
            return Shard()
        i, slash, n = text.partition("/")
        if not (slash and i.isdecimal() and n.isdecimal() and 1 <= int(i) <= int(n) <= MOST_SHARDS):
            raise ConfigError(
                f"got the shard {one_line(text, limit=40)!r}, expected i/n with i from 1 to n, such as 3/16"
            )
        return Shard(int(i), int(n))

    def take(self, inputs: Sequence[Input]) -> list[Input]:
        return list(inputs[self.i - 1 :: self.n])

    @property
    def name(self) -> str:
        """For files beside those of other shards; "" where there is one."""
        return "" if self.n == 1 else f"{self.i}-of-{self.n}"


ALL = Shard()


def is_many(sources: Sequence[Path]) -> bool:
    """Several files, a folder, or a pattern: a batch."""
    return len(sources) != 1 or _is_dir(sources[0]) or _is_pattern(sources[0])


def found_inputs(sources: Sequence[Path], *, out: Path) -> list[Input]:
    """All volumes of files, folders and patterns, each once, in their order; what lies in `out` is none of them.

    A file that was named and is not there is one of them: it will be listed, and the others done.
    """
    listed: dict[Path, tuple[Path, str]] = {}
    for source in sources:
        for path, name in _of(source):
            if not _within(path, out):
                listed.setdefault(_resolved(path), (path, name))
    if not listed:
        told = ", ".join(one_line(source) for source in sources[:3])
        raise DataError(
            f"got {told}, where no k-space was found, expected files that end in {', '.join(ENDINGS)}; name others one "
            "by one"
        )
    return _named(list(listed.values()))


def _of(source: Path) -> list[tuple[Path, str]]:
    if _is_dir(source):
        return [(path, path.relative_to(source).as_posix()) for path in volume_paths(source) if _wanted(path)]
    if not _is_pattern(source):
        return [(source, source.name)]
    parts = list(takewhile(lambda part: not glob.has_magic(part), source.parts))
    base = Path(*parts) if parts else Path()
    paths = sorted(base.glob(str(Path(*source.parts[len(parts) :]))))
    if not paths:
        raise DataError(f"got the pattern {one_line(source)}, which no file matches; check it, or give a folder")
    pairs = {p.with_suffix(".cfl") for p in paths if p.suffix == ".cfl"}
    files = [p for p in paths if not p.is_dir() and not (p.suffix == ".hdr" and p.with_suffix(".cfl") in pairs)]
    inside = [path for folder in paths if folder.is_dir() for path in volume_paths(folder) if _wanted(path)]
    return [(path, path.relative_to(base).as_posix()) for path in (*files, *inside)]


def _named(found: Sequence[tuple[Path, str]]) -> list[Input]:
    """Names that differ, and results that do: where two agree, more of the path, and the whole ending, is kept."""
    twice = _shared(name for _, name in found)
    apart = _apart([path for path, name in found if name in twice])
    names = [(path, apart.get(path, name)) for path, name in found]
    results = [with_ending(Path(name), RESULT).as_posix() for _, name in names]
    alike = _shared(results)
    return [
        Input(path, name, f"{name}{RESULT}" if result in alike else result)
        for (path, name), result in zip(names, results, strict=True)
    ]


def _apart(paths: Sequence[Path]) -> dict[Path, str]:
    """Paths from the folder on that they share."""
    if not paths:
        return {}
    folder = os.path.commonpath([_resolved(path).parent for path in paths])
    return {path: _resolved(path).relative_to(folder).as_posix() for path in paths}


def _shared(names: Iterable[str]) -> set[str]:
    return {name for name, n in Counter(names).items() if n > 1}


def _wanted(path: Path) -> bool:
    return path.is_file() and path.suffix.lower() in ENDINGS and not path.name.endswith(RESULT)


def _is_pattern(source: Path) -> bool:
    return glob.has_magic(str(source)) and not _exists(source)


def _is_dir(source: Path) -> bool:
    try:
        return source.is_dir()
    except (OSError, ValueError):
        return False


def _exists(source: Path) -> bool:
    try:
        return source.exists()
    except (OSError, ValueError):
        return False


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError):
        return path


def _within(path: Path, folder: Path) -> bool:
    return _resolved(folder) in _resolved(path).parents
