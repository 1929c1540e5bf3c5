"""Progress on stderr: a bar with the time left on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SECONDS_BETWEEN_LINES = 5.0


@contextmanager
def progress(total: int, *, title: str, unit: str = "slices") -> Iterator[Callable[[], None]]:
    """Yields a function to be called after each of `total` pieces of work."""
    shown = _bar if sys.stderr.isatty() else _lines
    with shown(total, title, unit) as advance:
        yield advance


@contextmanager
def _bar(total: int, title: str, unit: str) -> Iterator[Callable[[], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(title), BarColumn(), MofNCompleteColumn(), TextColumn(unit), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=total)
        yield lambda: bar.advance(task)


@contextmanager
def _lines(total: int, title: str, unit: str) -> Iterator[Callable[[], None]]:
    began = said = time.monotonic()
    done = 0

    def advance() -> None:
        nonlocal done, said
        done += 1
        now = time.monotonic()
        if now - said >= SECONDS_BETWEEN_LINES and done < total:
            said = now
            left = (now - began) / done * (total - done)
            print(f"{title}: {done}/{total} {unit}, about {left:.0f} s left", file=sys.stderr, flush=True)

    yield advance
