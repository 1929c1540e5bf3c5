"""Folders that appear whole or not at all, beside `io/atomic.py` for files."""

import ctypes
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bayesmri.errors import OutputError
from bayesmri.io.atomic import sweep, temporary_name
from bayesmri.io.guard import one_line

MOST = 100_000  # entries that are looked at
AT_FDCWD, EXCHANGE = -100, 2


@contextmanager
def atomic_folder(target: Path) -> Iterator[Path]:
    """A temporary folder beside `target` that takes its place when the block succeeds; what was there goes last.

    When the block fails the temporary and any folder made for it are removed, and a former target stays as it was.
    """
    target = target.resolve()
    temporary = target.with_name(temporary_name(target.name))
    made: list[Path] = []
    try:
        for folder in [p for p in target.parents if not p.exists()][::-1]:
            folder.mkdir(exist_ok=True)
            made.append(folder)
        sweep(target.parent)
        temporary.mkdir()
        yield temporary
        _sync_all(temporary)
        _take_place(temporary, target)
    except BaseException as error:
        shutil.rmtree(temporary, ignore_errors=True)
        for folder in reversed(made):
            with suppress(OSError):
                folder.rmdir()
        if isinstance(error, OSError):
            raise OutputError(f"cannot write {one_line(target)}: {error.strerror or error}") from error
        raise
    shutil.rmtree(temporary, ignore_errors=True)  # what was there before


def check_folder(folder: Path, *sources: Path, force: bool = False) -> None:
    """Refuse, before any work, a folder that could not be written, is there already, or holds anything but DICOM.

    sources: inputs, which must not lie in it.
    """
    shown = one_line(folder)
    try:
        folder = folder.resolve()
        if folder.exists() and not folder.is_dir():
            raise OutputError(f"{shown} is a file: give the name of a folder for the DICOM files")
        near = next(parent for parent in folder.parents if parent.exists())
        if not near.is_dir():
            raise OutputError(f"cannot write {shown}: {one_line(near)} is a file, not a folder")
        for source in sources:
            if source.resolve() == folder or folder in source.resolve().parents:
                raise OutputError(f"{shown} holds the input {one_line(source.name)}: give another folder")
        if folder.is_dir() and any(folder.iterdir()):
            _check_former(folder, shown, force=force)
    except (OSError, RuntimeError, ValueError) as error:
        raise OutputError(f"cannot write {shown}: {one_line(error)}") from error
    if not os.access(near, os.W_OK | os.X_OK):
        raise OutputError(f"cannot write {shown}: no permission to write in {one_line(near)}")


def _check_former(folder: Path, shown: str, *, force: bool) -> None:
    if not force:
        raise OutputError(f"{shown} exists already, and would be lost; give another name, or --force to overwrite it")
    for count, path in enumerate(folder.rglob("*")):
        if path.is_symlink() or not (path.is_dir() or path.suffix == ".dcm") or count > MOST:
            raise OutputError(
                f"{shown} holds {one_line(path.name)}, which is no DICOM file of an earlier export, and would be lost; "
                "give another folder"
            )


def _take_place(temporary: Path, target: Path) -> None:
    """In one step where the system can exchange two names, so that a folder is there at every moment."""
    if not target.exists():
        temporary.rename(target)
    elif not _exchanged(temporary, target):
        former = target.with_name(f"{temporary.name}.former")
        target.rename(former)
        try:
            temporary.rename(target)
        except OSError:
            former.rename(target)
            raise
        shutil.rmtree(former, ignore_errors=True)


def _exchanged(first: Path, second: Path) -> bool:
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    return bool(rename(AT_FDCWD, os.fsencode(first), AT_FDCWD, os.fsencode(second), EXCHANGE) == 0)


def _sync_all(folder: Path) -> None:
    for path in folder.rglob("*"):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            with suppress(OSError):  # some file systems cannot sync a folder
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
