"""One writer for each folder: a second one is refused by name, what a dead one left is taken over and swept.

The file `.bayesmri.lock` names the writer. The system holds the lock itself and lets go of it when the process ends,
however it ends. Where the folder is shared by several machines whose systems do not tell each other, the file's age
does: a living writer touches it every few seconds.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

from bayesmri.errors import OutputError
from bayesmri.io.atomic import sweep
from bayesmri.io.guard import one_line
from bayesmri.machine.processes import Process, ended, this_process

fcntl: Any = None if sys.platform == "win32" else import_module("fcntl")  # which Windows lacks

LOCK = ".bayesmri.lock"
BEAT = 5.0  # seconds between two signs of life
SILENCE = 60.0  # seconds without one, after which a writer on another machine counts as dead
LONGEST = 4096  # bytes of a lock that is read
MADE: set[Path] = set()  # folders that this process made: the last of its threads to leave one takes it away, if empty
MAKING = threading.Lock()


@contextmanager
def exclusive(folder: Path, say: Callable[[str], None]) -> Iterator[None]:
    """While the block runs, no other process or thread enters the same folder, which is made where it is not there.

    A folder in use is an OutputError with the other's process and machine; a lock whose writer is dead is taken over
    and `say` is called with a line on it. Temporary files of dead processes are swept.
    """
    try:
        with MAKING:
            MADE.update(p for p in (folder, *folder.parents) if not p.exists())
            folder.mkdir(parents=True, exist_ok=True)
        descriptor = _taken(folder / LOCK, say)
    except OSError as error:
        raise OutputError(f"cannot write in {one_line(folder)}: {error.strerror or error}") from error
    over = threading.Event()
    beat = threading.Thread(target=_signs_of_life, args=(descriptor, over), daemon=True)
    beat.start()
    try:
        if swept := sum(sweep(p) for p in (folder, *folder.rglob("*/"))):
            say(f"{swept} unfinished file{'s' * (swept != 1)} of dead processes removed from {one_line(folder)}")
        yield
    finally:
        over.set()
        beat.join()
        with suppress(OSError):
            (folder / LOCK).unlink()
        os.close(descriptor)
        with MAKING, suppress(OSError):  # a folder made for nothing goes again
            for path in (p for p in (folder, *folder.parents) if p in MADE):
                path.rmdir()
                MADE.discard(path)


def _taken(path: Path, say: Callable[[str], None]) -> int:
    """The open file of the lock, ours from now on."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            holder = _holder(descriptor)
            if not _locked(descriptor, holder):
                raise OutputError(_refusal(path.parent, holder))
            if not _still_there(path, descriptor):  # the writer before us ended between our two steps
                os.close(descriptor)
                continue
            holder = _holder(descriptor)
            if holder is not None:
                _check_silence(path, descriptor, holder)
                say(f"{one_line(path.parent)} was left locked by {_named(holder)}, which has ended: taken over")
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps(asdict(this_process())).encode(), 0)
        except BaseException:
            with suppress(OSError):
                os.close(descriptor)
            raise
        return descriptor


def _locked(descriptor: int, holder: Process | None) -> bool:
    """Whether the system gives us the lock; where it has none, whether the holder has ended."""
    try:
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        pass
    return holder is None or ended(holder) is not False


def _check_silence(path: Path, descriptor: int, holder: Process) -> None:
    """A writer of another machine that was heard of a moment ago may live: systems need not tell each other."""
    if ended(holder) is not None:
        return
    age = time.time() - os.fstat(descriptor).st_mtime
    if age < SILENCE:
        again = f"if it has died, try again in {max(1, round(SILENCE - age))} s"
        raise OutputError(f"{_refusal(path.parent, holder)}; {again}")


def _still_there(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _holder(descriptor: int) -> Process | None:
    """Whoever the file names; None where it names nobody."""
    try:
        found = json.loads(os.pread(descriptor, LONGEST, 0))
        return Process(str(found["host"]), str(found["space"]), int(found["pid"]), int(found["started"]))
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _refusal(folder: Path, holder: Process | None) -> str:
    who = "another process" if holder is None else _named(holder)
    ghost = ", which has ended, though something that it started has not" if holder and ended(holder) else ""
    return f"got {one_line(folder)}, in which {who} is at work{ghost}; wait for it, stop it, or give another folder"


def _named(holder: Process) -> str:
    return f"process {holder.pid} on {one_line(holder.host, limit=60) or 'this machine'}"


def _signs_of_life(descriptor: int, over: threading.Event) -> None:
    while not over.wait(BEAT):
        with suppress(OSError):
            os.utime(descriptor)
