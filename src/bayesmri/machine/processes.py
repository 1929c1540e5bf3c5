"""Which process made something, and whether it has ended: of this machine that can be told, of others it cannot."""

import hashlib
import os
import platform
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class Process:
    """One process of one machine.

    space: where its number means something (a boot of a machine, a container on it), as a short checksum.
    started: when, in the machine's ticks; a number is given again, never with the same start. 0 where nobody tells.
    """

    host: str
    space: str
    pid: int
    started: int


def this_process() -> Process:
    return Process(platform.node(), _space(), os.getpid(), _started(os.getpid()) or 0)


def ended(process: Process) -> bool | None:
    """Whether it has ended; None where that cannot be told from here."""
    if process.space != _space():
        return None
    try:
        os.kill(process.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:  # of somebody else, and alive
        pass
    except (OverflowError, OSError):
        return None
    started = _started(process.pid)
    return bool(process.started and started and started != process.started)


@cache
def _space() -> str:
    """Boot and namespace of process numbers; the machine's name where the system has no such thing."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        where = f"{boot} {Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        where = platform.node()
    return hashlib.sha256(where.encode()).hexdigest()[:8]


def _started(pid: int) -> int | None:
    """Ticks from the machine's start to the process's, None where nobody tells."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return int(text.rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None
