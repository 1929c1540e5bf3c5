"""The door of commands: a file is read in a child process, unless it is trusted or the system cannot fork."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from numpy.typing import NDArray

from bayesmri.io.apart.child import Ask, apart, kept_apart
from bayesmri.io.apart.limits import limits_for
from bayesmri.io.guard import damaged_as_format_error, one_line
from bayesmri.io.inputs import input_files
from bayesmri.io.results import Result, open_result

T = TypeVar("T")


def reading(work: Callable[[], T], path: Path, *, trusted: bool) -> T:
    """work(), which reads `path` and gives a value of this package, in a child process unless the file is trusted."""
    if trusted or sys.platform != "linux":
        return work()
    return apart(work, name=one_line(path), limits=limits_for(_size(path)))


@contextmanager
def reading_result(path: Path, *, trusted: bool) -> Iterator[Result]:
    """`open_result`, the file open in a child process unless it is trusted."""
    if trusted or sys.platform != "linux":
        with open_result(path) as result:
            yield result
        return

    @contextmanager
    def opened() -> Iterator[tuple[Result, Any]]:
        with open_result(path) as result:
            yield replace(result, file=None), result.file

    limits = limits_for(_size(path))
    with kept_apart(opened, name=one_line(path), limits=limits) as (result, ask), damaged_as_format_error(path):
        yield replace(result, file=_File(ask))


@dataclass(frozen=True)
class _File:
    """file[key][index] of the child's."""

    ask: Ask

    def __getitem__(self, key: str) -> "_Dataset":
        return _Dataset(self.ask, key)


@dataclass(frozen=True)
class _Dataset:
    ask: Ask
    key: str

    def __getitem__(self, index: int | tuple[int, ...]) -> NDArray[Any]:
        return self.ask(self.key, index if isinstance(index, tuple) else (index,))


def _size(path: Path) -> int | None:
    """Of what is read, in bytes; None of a folder, which is not looked into."""
    try:
        return None if path.is_dir() else sum(file.stat().st_size for file in input_files(path))
    except (OSError, ValueError):
        return 0
