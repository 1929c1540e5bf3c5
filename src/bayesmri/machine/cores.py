"""How many processor cores this process may really use; no torch here."""

import math
import os
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")


def usable_cores() -> int:
    """The cores of this process's affinity, within the quota of its control group, within OMP_NUM_THREADS."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limits = [allowed, *_quota(), *_asked()]
    return max(1, min(limits))


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
