"""The files the application may touch: those below the given folders, and what was dropped into the page.

A key names a file to the browser: `0/sub/scan.h5` below the first folder, `drop/ID/scan.h5` for what was dropped. Every
key and every path is resolved, links followed, and refused where it leads out.
"""

import secrets
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bayesmri.errors import BayesMRIError, FormatError, OutputError
from bayesmri.io.guard import one_line
from bayesmri.io.inputs import input_files

DROP = "drop"
MOST_FILES = 2000  # that are listed
DEPTH = 4  # of folders that are looked into
ENDINGS = (".h5", ".hdf5", ".cfl", ".npy", ".npz", ".dcm", ".nii", ".nii.gz", ".ima")
NAME_MAX = 120


class OutsideError(BayesMRIError):
    """A path that leads out of the folders that were given."""


@dataclass(frozen=True)
class Library:
    """folders: resolved. drops: a temporary folder of this session, gone with it."""

    folders: tuple[Path, ...]
    drops: Path

    def path(self, key: str) -> Path:
        """The file of a key."""
        root, _, rest = key.partition("/")
        if root == DROP:
            return self._below(self.drops, rest, key)
        if not root.isdecimal() or int(root) >= len(self.folders):
            raise OutsideError(
                f"got the key {one_line(key, limit=80)!r}, which names no file here; list the files again"
            )
        return self._below(self.folders[int(root)], rest, key)

    def key(self, path: Path) -> str:
        """The key of a resolved path inside."""
        for i, folder in enumerate(self.folders):
            if path.is_relative_to(folder):
                return f"{i}/{path.relative_to(folder).as_posix()}"
        if path.is_relative_to(self.drops):
            return f"{DROP}/{path.relative_to(self.drops).as_posix()}"
        raise self._outside(path)

    def typed(self, text: str) -> Path:
        """What a user typed: absolute, or below one of the folders."""
        given = _expanded(text)
        tries = [given] if given.is_absolute() else [folder / given for folder in self.folders]
        for one in tries:
            found = _resolved(one)
            if not any(found.is_relative_to(folder) for folder in self.folders):
                raise self._outside(text)
            if all(half.exists() for half in input_files(found)):
                return found
        raise FormatError(f"{one_line(text, limit=120)} does not exist in {self.named()}: check the path")

    def files(self) -> list[Path]:
        """What may be scans or results, links that lead out left out; of a BART pair its .cfl."""
        found = [path for folder in self.folders for path in _walk(folder, DEPTH)]
        inside = [path for path in found if self._inside(path)]
        return [*inside[:MOST_FILES], *_walk(self.drops, DEPTH)]

    def is_kept(self, path: Path) -> bool:
        """Whether it outlives this session."""
        return not path.is_relative_to(self.drops)

    def named(self) -> str:
        """For messages."""
        return " or ".join(one_line(folder.name or folder, limit=60) for folder in self.folders)

    def _below(self, folder: Path, rest: str, key: str) -> Path:
        found = _resolved(folder / rest)
        if not found.is_relative_to(folder):
            raise self._outside(key)
        return found

    def _inside(self, path: Path) -> bool:
        try:
            return any(path.resolve().is_relative_to(folder) for folder in self.folders)
        except (OSError, RuntimeError):
            return False

    def _outside(self, given: object) -> OutsideError:
        return OutsideError(
            f"{one_line(given, limit=120)} lies outside of {self.named()}, expected a file in there; start bayesmri "
            "app with the folder it is in, or drop the file into the page"
        )


def new_drop(library: Library) -> Path:
    """A folder for files that were dropped together."""
    folder = library.drops / secrets.token_hex(6)
    folder.mkdir(mode=0o700)
    return folder


def plain_name(name: str) -> str:
    """A file name of what the browser calls it: no folders, nothing hidden, nothing a terminal would obey."""
    last = (
        one_line(name.replace("\\", "/").rpartition("/")[2], limit=10 * NAME_MAX).lstrip(".").replace(":", "_").strip()
    )
    return last[-NAME_MAX:] or "dropped"


def free_name(folder: Path, stem: str, ending: str) -> Path:
    """stem.ending, stem-2.ending, … that is not there."""
    for n in range(1, 10_000):
        path = folder / f"{stem}{'' if n == 1 else f'-{n}'}{ending}"
        if not path.exists():
            return path
    raise OutputError(f"{one_line(folder)} holds thousands of files named {one_line(stem)}: clear it up")


def keep(library: Library, path: Path) -> Path:
    """What was dropped, or made of it, into the first folder, under a name that is free."""
    if library.is_kept(path):
        return path
    if not library.folders:
        raise OutputError("no folder was given to keep it in; start bayesmri app with one")
    ending = "".join(path.suffixes[-2:]) if path.name.endswith((".nii.gz", ".recon.h5")) else path.suffix
    target = free_name(library.folders[0], path.name.removesuffix(ending), ending)
    for half in input_files(path):
        shutil.copyfile(half, target if half == path else target.with_suffix(half.suffix))
    return target


def _walk(folder: Path, depth: int) -> Iterator[Path]:
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if entry.is_file() and entry.name.lower().endswith(ENDINGS):
            yield entry
        elif depth > 1 and entry.is_dir() and not entry.is_symlink():
            yield from _walk(entry, depth - 1)


def _expanded(text: str) -> Path:
    try:
        return Path(text.strip()).expanduser()
    except RuntimeError:  # a home that nobody has
        return Path(text.strip())


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise FormatError(f"{one_line(path, limit=120)} is no path ({one_line(error, limit=60)})") from error
