"""Files that appear whole or not at all: temporary file → fsync → rename → fsync of the folder."""

import errno
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bayesmri.errors import OutputError
from bayesmri.io.inputs import input_files
from bayesmri.machine.processes import Process, ended, this_process
from bayesmri.machine.scratch import out_of_sight

# hidden; whose it is (where, number, start), and a number drawn by lot, before the end of the target's name
TEMPORARY = re.compile(r"\.([0-9a-f]{8})-(\d{1,10})-(\d{1,20})-[0-9a-f]{8}\.")


@contextmanager
def atomic_path(target: Path, *, fresh: bool = False) -> Iterator[Path]:
    """A temporary path beside `target` that becomes `target` when the block succeeds.

    When the block fails the temporary and any folder made for it are removed, and an existing target stays as it was.

    fresh: a target that is there, or comes while the block runs, is not replaced: a FileExistsError.
    """
    target = _resolved(target)
    temporary = target.with_name(temporary_name(target.name))
    made: list[Path] = []
    try:
        _folder_of(target)
        for folder in [p for p in target.parents if not p.exists()][::-1]:
            folder.mkdir(exist_ok=True)
            made.append(folder)
        sweep(target.parent)
        yield temporary
        _sync(temporary)
        if fresh:
            _appear(temporary, target)
        else:
            temporary.replace(target)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        for folder in reversed(made):
            with suppress(OSError):  # another writer may have put something there meanwhile
                folder.rmdir()
        if isinstance(error, OSError) and not (fresh and isinstance(error, FileExistsError)):
            raise OutputError(f"cannot write {target}: {error.strerror or error}") from error
        if isinstance(error, OutputError) and temporary.name in str(error):  # of a writer that knew no other name
            raise OutputError(str(error).replace(temporary.name, target.name)) from error
        raise
    with suppress(OSError):  # the file is in place; some file systems cannot sync a folder
        _sync(target.parent)


@contextmanager
def atomic_paths(targets: Sequence[Path]) -> Iterator[list[Path]]:
    """Files that belong together: temporary paths that become `targets` when the block has made them all."""
    with ExitStack() as stack:
        yield [stack.enter_context(atomic_path(target)) for target in targets]


def sweep(folder: Path) -> int:
    """Temporary files and folders in `folder` whose processes have died are removed; how many there were.

    Those of processes on other machines, of which nothing can be told from here, stay.
    """
    removed = 0
    with suppress(OSError):
        for path in folder.iterdir():
            found = TEMPORARY.match(path.name)
            if found and ended(Process("", found[1], int(found[2]), int(found[3]))):
                with suppress(OSError):
                    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
                    removed += 1
    return removed


def check_target(path: Path, *sources: Path, force: bool = False) -> None:
    """Refuse, before any work, a target that could not or should not be written, or is there already.

    force: what is there may be overwritten.
    sources: the inputs, which must not be overwritten: files, folders of files, either half or the name of a pair.
    """
    try:
        path = _resolved(path)
        folder = _folder_of(path)
        for source in (file for name in sources for file in input_files(name)):
            if not (path.exists() and source.exists()):
                continue
            if path.samefile(source):
                raise OutputError(f"{path} is the input itself: writing would destroy it; give another name")
            if source.resolve() in path.parents:
                raise OutputError(f"{path} is a file of the input folder: writing would destroy it; give another name")
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from error
    if path.exists() and not force:
        raise OutputError(f"{path} exists already, and would be lost; give another name, or --force to overwrite it")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise OutputError(f"cannot write {path}: no permission to write in {folder}")


def check_values(name: str, array: NDArray[np.generic]) -> None:
    """No output holds a NaN or an Inf; found slice by slice, without a copy of the whole array."""
    parts = array if array.ndim > 2 else (array,)
    bad = 0
    for part in parts:
        bad += int(part.size - np.count_nonzero(np.isfinite(part)))
        out_of_sight(array)
    if bad:
        raise OutputError(f"{name} holds {bad} NaN or Inf values: nothing was written; the reconstruction diverged")


def _appear(temporary: Path, target: Path) -> None:
    """The temporary under the target's name, if nothing has it."""
    try:
        target.hardlink_to(temporary)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if target.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from None
        temporary.replace(target)
    else:
        temporary.unlink()


def temporary_name(name: str) -> str:
    """The ending stays, since writers go by it; a name has room for 255 bytes."""
    me = this_process()
    return f".{me.space}-{me.pid}-{me.started}-{secrets.token_hex(4)}.{name[-48:]}"


def _resolved(path: Path) -> Path:
    """Links followed, so that the file they point to is replaced and not the link."""
    try:
        return path.resolve()
    except (OSError, RuntimeError) as error:  # a loop of links
        raise OutputError(f"cannot write {path}: its links do not lead anywhere") from error


def _folder_of(target: Path) -> Path:
    """The nearest folder above the target that exists; the target itself is a regular file or not there yet."""
    if target.is_dir():
        raise OutputError(f"{target} is a folder: give the name of a file to write")
    if target.exists() and not target.is_file():
        # a rename would replace the device or pipe itself
        raise OutputError(f"{target} is a device or pipe: give the name of a file to write")
    folder = next(parent for parent in target.parents if parent.exists())
    if not folder.is_dir():
        raise OutputError(f"cannot write {target}: {folder} is a file, not a folder")
    return folder


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
