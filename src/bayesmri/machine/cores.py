"""How many processor cores this process may really use; no torch here."""

import math
import os
import sys
from pathlib import Path

MOST_THREADS = 1024
CGROUP = Path("/sys/fs/cgroup")


def usable_cores() -> int:
    """The cores of this process's affinity, within the quota of its control group, within OMP_NUM_THREADS."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limits = [allowed, *_quota(), *_asked()]
    return max(1, min(limits))


def limit_threads(n: int | None) -> None:
    """torch, its libraries and child processes take that many, or as many as are usable; heeded before torch loads.

    Where torch is there already, only a number that was asked for counts.
    """
    if "torch" not in sys.modules:
        os.environ["OMP_NUM_THREADS"] = str(min(n or usable_cores(), MOST_THREADS))
    elif n is not None:
        sys.modules["torch"].set_num_threads(n)


def _quota() -> list[int]:
    """What a container may use, in whole cores: version 2 of control groups, then version 1."""
    try:
        quota, period = (CGROUP / "cpu.max").read_text(encoding="ascii").split()
    except (OSError, ValueError):
        try:
            quota, period = (
                (CGROUP / "cpu" / f"cpu.cfs_{name}_us").read_text(encoding="ascii") for name in ("quota", "period")
            )
        except (OSError, ValueError):
            return []
    try:
        share = float(quota) / float(period)
    except (ValueError, ZeroDivisionError):  # "max"
        return []
    return [math.ceil(share)] if share > 0 else []


def _asked() -> list[int]:
    first = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return [int(first)] if first.isdecimal() and int(first) > 0 else []
