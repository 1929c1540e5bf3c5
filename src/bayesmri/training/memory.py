"""Memory that is given back: with per-step recomputation the C library must not keep what each step frees."""

import ctypes
import sys

M_MMAP_THRESHOLD = -3  # of glibc's malloc.h
THRESHOLD = 256 * 1024  # bytes; tensors of a training step are far larger


def give_memory_back() -> bool:
    """Large blocks come from and return to the system at once; says whether this C library could be told so.

    glibc moves large blocks into its heap once some have been freed. Tensors of many sizes then tear holes into it, and
    the memory of an unrolled training step grows with S although nothing is kept. Costs some time for fresh pages.
    """
    if sys.platform != "linux":
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and mallopt(M_MMAP_THRESHOLD, THRESHOLD) == 1
