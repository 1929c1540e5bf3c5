"""What the C library does with freed memory: given back at once, or kept for the next tensor of the same size."""

import ctypes
import sys

# of glibc's malloc.h
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_MMAP_MAX = -1, -3, -4
THRESHOLD = 256 * 1024  # bytes; tensors of a training step are far larger


def give_memory_back() -> bool:
    """Large blocks come from and return to the system at once; says whether this C library could be told so.

    glibc moves large blocks into its heap once some have been freed. Tensors of many sizes then tear holes into it, and
    the memory of an unrolled training step grows with S although nothing is kept. Costs some time for fresh pages.
    """
    return _mallopt(M_MMAP_THRESHOLD, THRESHOLD)


def keep_memory() -> bool:
    """Freed blocks are kept for what comes next, and nothing returns to the system before the process ends.

    A step of the scheme allocates the same large features again and again. Fresh pages for each of them cost ∇R a
    twentieth of its time at m = 64 and 320x320.
    """
    return _mallopt(M_MMAP_MAX, 0) and _mallopt(M_TRIM_THRESHOLD, -1)


def tidy_memory() -> None:
    """What is free within the heap goes back to the system: between slices, whose kept blocks do not fit together."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


def _mallopt(parameter: int, value: int) -> bool:
    if sys.platform != "linux":
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries than glibc may lack it
    return mallopt is not None and mallopt(parameter, value) == 1
