"""The door for bytes from strangers: sizes are checked before memory is asked for, every failure is one line."""

import math
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bayesmri.bounded import one_line as one_line
from bayesmri.errors import BayesMRIError, ConfigError, FormatError

DEFAULT_BUDGET = 8 * 2**30
# Measured data is noise and hardly compresses; what unpacks to 200 times its size is a bomb or was never written.
MAX_INFLATION = 200
SMALL = 64 * 2**20  # bytes; below this an absurd ratio does no harm


def byte_budget(budget: int | None = None) -> int:
    """The most bytes one array may claim: the argument, else BAYESMRI_MAX_BYTES, else 8 GiB."""
    if budget is not None:
        return budget
    text = os.environ.get("BAYESMRI_MAX_BYTES", "").strip()
    if not text:
        return DEFAULT_BUDGET
    if not text.isdecimal() or int(text) == 0:
        raise ConfigError(
            f"got BAYESMRI_MAX_BYTES = {one_line(text)!r}, expected a positive number of bytes, such as 8589934592"
        )
    return int(text)


def check_bytes(what: str, shape: Sequence[int], itemsize: int, *, stored: int, budget: int) -> int:
    """The bytes of an array of `shape`, refused where they exceed the budget or cannot be in `stored` bytes."""
    claimed = math.prod(shape) * itemsize
    if min(shape, default=1) < 0:
        raise FormatError(f"{what} claims the impossible shape {tuple(shape)}: the file is damaged")
    if claimed > budget:
        raise FormatError(
            f"{what} claims {sizes(shape)} values = {human(claimed)}: the limit is {human(budget)}; "
            "set BAYESMRI_MAX_BYTES if that is true and the memory is there"
        )
    if claimed > SMALL and claimed > MAX_INFLATION * stored:
        raise FormatError(
            f"{what} claims {sizes(shape)} values = {human(claimed)}, but only {human(stored)} are stored: "
            "the file is damaged, was never written to its end, or is a decompression bomb"
        )
    return claimed


@contextmanager
def damaged_as_format_error(path: Path) -> Iterator[None]:
    """Whatever a library raises on the bytes of `path` becomes a FormatError.

    The net is wide on purpose: h5py, nibabel, pydicom, zipfile and ast raise a dozen unrelated types on broken bytes.
    """
    try:
        yield
    except BayesMRIError:
        raise
    except Exception as error:
        detail = one_line(str(error), limit=160) or type(error).__name__
        raise FormatError(f"{one_line(path)} is damaged or truncated ({detail}): copy or export it again") from error


def regular_file(path: Path) -> int:
    """The size of a readable regular file; a pipe or a device would block or never end."""
    try:
        info = path.stat()
        if stat.S_ISREG(info.st_mode):
            with path.open("rb"):
                return info.st_size
    except FileNotFoundError as error:
        raise FormatError(f"{one_line(path)} does not exist: check the path") from error
    except (OSError, ValueError) as error:
        raise FormatError(f"{one_line(path)} cannot be opened ({one_line(error)}): check its permissions") from error
    kind = "a folder" if stat.S_ISDIR(info.st_mode) else "not a regular file"
    raise FormatError(f"{one_line(path)} is {kind}, expected a file")


def is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # a name too long, or with a null byte
        return False


def sizes(shape: Sequence[int]) -> str:
    return " x ".join(str(n) for n in shape) or "1"


def human(count: int) -> str:
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.4g} TB"
