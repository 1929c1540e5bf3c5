"""Progress on stderr: a bar with the time left on a terminal, plain lines elsewhere."""

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from bayesmri.bounded import one_line
from bayesmri.cli.output import behind

SECONDS_BETWEEN_LINES = 5.0


@contextmanager
def progress(total: int, *, title: str, unit: str = "slices") -> Iterator[Callable[[], None]]:
    """Yields a function to be called after each of `total` pieces of work."""
    shown = _bar if sys.stderr.isatty() else _lines
    with shown(total, title, unit) as advance:
        yield advance


@contextmanager
def _bar(total: int, title: str, unit: str) -> Iterator[Callable[[], None]]:
    with _rich("{task.description}", "BarColumn", "MofNCompleteColumn", unit, "TimeRemainingColumn") as bar:
        task = bar.add_task(one_line(title), total=total)
        yield lambda: bar.advance(task)


def _rich(*columns: str) -> Any:
    """A bar of columns of rich by their names, or of texts."""
    from rich import console, progress

    kinds = [getattr(progress, name)() if name.endswith("Column") else progress.TextColumn(name) for name in columns]
    return progress.Progress(*kinds, console=console.Console(file=behind(sys.stderr)))


@contextmanager
def _lines(total: int, title: str, unit: str) -> Iterator[Callable[[], None]]:
    first = said = time.monotonic()
    done = 0

    def advance() -> None:
        """What is done once, before the first piece, says nothing of the time that the others take."""
        nonlocal done, first, said
        done += 1
        now = time.monotonic()
        first = now if done == 1 else first
        if now - said >= SECONDS_BETWEEN_LINES and done < total:
            said = now
            left = f", about {(now - first) / (done - 1) * (total - done):.0f} s left" if done > 1 else ""
            print(f"{one_line(title)}: {done}/{total} {unit}{left}", file=sys.stderr, flush=True)

    yield advance


class VolumeMeter:
    """Over volumes, with the slices of those in work: the time left follows the bytes of what is still to be done."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.sizes: dict[str, int] = {}
        self.steps: dict[str, tuple[int, int]] = {}  # of volumes in work: done, of so many
        self.total = self.all = self.left = self.worked = 0
        self.task: Any = None
        self.began = self.said = 0.0
        self.bar: Any = None
        self.lock = threading.Lock()

    @contextmanager
    def start(self, sizes: Mapping[str, int]) -> Iterator[None]:
        self.sizes = {name: max(1, size) for name, size in sizes.items()}
        self.total, self.all = len(sizes), sum(self.sizes.values())
        self.left = self.all
        self.began = self.said = time.monotonic()
        with _rich("BarColumn", "{task.description}") if sys.stderr.isatty() else nullcontext() as self.bar:
            self.task = None if self.bar is None else self.bar.add_task(self.title, total=self.all)
            yield
        self.bar = None

    def slices(self, name: str) -> Callable[[int], AbstractContextManager[Callable[[], None]]]:
        @contextmanager
        def counted(total: int) -> Iterator[Callable[[], None]]:
            def advance() -> None:
                with self.lock:
                    self.steps[name] = (self.steps[name][0] + 1, total)
                self._show()

            with self.lock:
                self.steps[name] = (0, total)
            yield advance

        return counted

    def end(self, name: str, *, worked: bool) -> None:
        with self.lock:
            self.steps.pop(name, None)
            size = self.sizes.pop(name)
            self.left -= size
            self.worked += size if worked else 0
        self._show()

    def say(self, text: str) -> None:
        print(f"bayesmri: {text}", file=sys.stderr, flush=True)

    def _show(self) -> None:
        now = time.monotonic()
        with self.lock:
            begun = sum(self.sizes[name] * done / total for name, (done, total) in self.steps.items())
            part = "".join(f", {name} {done}/{total}" for name, (done, total) in self.steps.items())
            known, ahead, done = self.worked + begun, self.left - begun, self.total - len(self.sizes)
        left = f", about {(now - self.began) / known * ahead:.0f} s left" if known > 0 and ahead > 0 else ""
        text = one_line(f"{self.title}: {done}/{self.total} volumes{part}{left}")
        if self.bar is not None:
            self.bar.update(self.task, description=text, completed=self.all - ahead)
        elif now - self.said >= SECONDS_BETWEEN_LINES and done < self.total:
            self.said = now
            print(text, file=sys.stderr, flush=True)
