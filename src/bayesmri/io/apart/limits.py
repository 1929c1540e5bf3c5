"""What a child process may use: memory, processor time, and nothing of the terminal."""

import ctypes
import faulthandler
import os
import signal
import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from bayesmri.io.guard import MAX_INFLATION, SMALL, byte_budget

resource: Any = None if sys.platform == "win32" else import_module("resource")  # which Windows lacks
PR_SET_PDEATHSIG, MADV_DONTNEED = 1, 4
BASE_SECONDS, BYTES_PER_SECOND = 20, 2_000_000  # of processor time; the slowest format reads ten times as fast
BASE_WAIT, WAIT = 300, 5  # seconds, and times the processor's: disks and networks are waited for
BASE_BYTES = 2 * 2**30
WIDER = 4  # times its bytes on disk, where small numbers become large ones
COPIES = 3  # of the largest array that may be claimed: as stored, as converted, as checked


@dataclass(frozen=True)
class Limits:
    """seconds: of processor time. wait: of waiting for an answer. memory: bytes beyond what the parent holds."""

    seconds: int
    wait: float
    memory: int


def limits_for(size: int | None) -> Limits:
    """For a file of that size; None: not known, as of a folder.

    What a file of few bytes honestly holds is small: no reader of ours takes more than the inflation that is allowed.
    """
    more = (size or 0) // BYTES_PER_SECOND
    held = byte_budget() if size is None else min(byte_budget(), max(SMALL, WIDER * MAX_INFLATION * size))
    memory = BASE_BYTES + COPIES * held
    return Limits(
        BASE_SECONDS + more,
        BASE_WAIT + WAIT * more,
        min(memory, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")),
    )


def confine(limits: Limits, parent: int) -> None:
    """This process: no terminal, no core file, not longer alive than its parent, first to go where memory ends."""
    faulthandler.disable()
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _lower(resource.RLIMIT_CPU, _used_seconds() + limits.seconds)
    _lower(resource.RLIMIT_AS, _used_bytes() + limits.memory)
    score = Path("/proc/self/oom_score_adj")
    if score.exists():
        score.write_text("1000")


def forget(address: int, size: int) -> None:
    """The pages within, which are not needed any more, go back to the system."""
    page = os.sysconf("SC_PAGE_SIZE")
    first, last = -(-address // page) * page, (address + size) // page * page
    if last > first:
        ctypes.CDLL(None).madvise(ctypes.c_void_p(first), ctypes.c_size_t(last - first), MADV_DONTNEED)


def _lower(kind: int, value: int) -> None:
    """Never above what this process was given."""
    _, hard = resource.getrlimit(kind)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, hard))


def _used_seconds() -> int:
    """A child begins at zero; not so a process that was confined before."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return int(used.ru_utime + used.ru_stime) + 1


def _used_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * os.sysconf("SC_PAGE_SIZE")
