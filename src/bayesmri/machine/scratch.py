"""Room for what grows with a volume and is read once: on the disk where it is large, out of sight once it is filled.

No torch here.
"""

import mmap
import os
import tempfile
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Kind = TypeVar("Kind", bound=np.generic)
LARGE = 256 * 2**20  # bytes
DISK = Path("/var/tmp")  # /tmp may be memory


def room(shape: tuple[int, ...], dtype: type[Kind]) -> NDArray[Kind]:
    """An array to be filled: in memory, or, where it is large, in a file without a name that ends with the process.

    TMPDIR says where; a disk without that much room is none.
    """
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    if size < LARGE or not hasattr(os, "posix_fallocate"):
        return np.empty(shape, dtype)
    try:
        with tempfile.TemporaryFile(dir=None if os.environ.get("TMPDIR") or not DISK.is_dir() else DISK) as file:
            os.posix_fallocate(file.fileno(), 0, size)  # now, and not in the middle of a write
            return np.memmap(file, dtype, "r+", shape=shape)
    except OSError:
        return np.empty(shape, dtype)


def out_of_sight(array: NDArray[np.generic]) -> None:
    """What `room` put on the disk stops counting as this process's memory; it is read again when it is asked for."""
    base: object = array
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)
