"""What commands print: JSON for programs, aligned lines for people."""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, TextIO, cast

from bayesmri.bounded import one_line, printable


class Printable:
    """A stream that passes on text without what a terminal would obey: names and headers come from strangers.

    behind: the stream itself, for our own bars.
    """

    def __init__(self, behind: TextIO | None) -> None:
        self.behind = behind

    def write(self, text: str) -> int:
        if self.behind is not None:  # where nobody listens
            self.behind.write(printable(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.behind, name)


def behind(stream: TextIO) -> TextIO:
    """The stream that may be given escapes."""
    found: TextIO = getattr(stream, "behind", stream)
    return found


@contextmanager
def printing() -> Iterator[None]:
    """While a verb runs, all that it prints is made printable."""
    out, err = (cast(TextIO, Printable(stream)) for stream in (sys.stdout, sys.stderr))
    with redirect_stdout(out), redirect_stderr(err):
        yield


def print_json(value: object) -> None:
    print(json.dumps(value, indent=2, allow_nan=False))


def print_wrote(paths: Iterable[object]) -> None:
    """A line each, whatever their names hold."""
    for path in paths:
        print_wrote_together([path])


def print_wrote_together(paths: Iterable[object]) -> None:
    """One line for all."""
    print(f"wrote {', '.join(one_line(path, limit=4096) for path in paths)}")


def print_metrics(metrics: Mapping[str, Mapping[str, float]]) -> None:
    """One row per method: PSNR, SSIM, NMSE."""
    if not metrics:
        return
    names = {name: one_line(name) for name in metrics}
    width = max(len("method"), *map(len, names.values()))
    print(f"{'method':<{width}}  PSNR/dB    SSIM      NMSE")
    for name, row in metrics.items():
        print(f"{names[name]:<{width}}  {row['psnr']:7.2f}  {row['ssim']:6.4f}  {row['nmse']:8.5f}")


def sampling_line(facts: Mapping[str, Any]) -> str:
    """ "59 of 236 lines (R = 4.00), 8 coils"."""
    what = "points" if "points" in facts else "lines"
    share = f"{facts[f'acquired_{what}']} of {facts[what]} {what} (R = {facts['acceleration']:.2f})"
    return f"{share}, {count(facts['coils'], 'coil')}"


def count(n: int, noun: str) -> str:
    """ "1 coil", "8 coils"."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def print_messages(made: Mapping[str, Any]) -> None:
    """Notes and warnings of what was made, for people: one line each, beside the results and not among them."""
    for level, word in (("notes", "note:"), ("warnings", "warning:")):
        for text in made.get(level, ()):
            print(word, " ".join(text.split()), file=sys.stderr)


def print_removed(made: Mapping[str, Any]) -> None:
    """What of a patient was left out on demand, beside the results."""
    if "removed" in made:
        print("removed:", ", ".join(made["removed"]) or "nothing was there to remove", file=sys.stderr)
