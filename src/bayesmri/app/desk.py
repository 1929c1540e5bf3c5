"""The child that looks at results: opened in further children with limits, and handed out slice by slice."""

from collections import OrderedDict
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bayesmri.app.frames import Say, Told, answer
from bayesmri.errors import BayesMRIError, ConfigError
from bayesmri.io.apart.reading import reading, reading_result
from bayesmri.io.guard import one_line
from bayesmri.io.results import Result, glance
from bayesmri.report.page_data import page_layers
from bayesmri.report.study import study, study_samples, study_slice

OPEN = 4  # results at a time

Stamp = tuple[str, int, int]


class Desk:
    """Results that are open, the last used last; and what was seen of files at a glance."""

    def __init__(self) -> None:
        self.open: OrderedDict[Stamp, tuple[Result, dict[str, Any], ExitStack]] = OrderedDict()
        self.seen: dict[Stamp, dict[str, Any] | None] = {}

    def study(self, asked: Told, say: Say) -> dict[str, Any]:
        return study(*self._opened(asked["path"]))

    def slice(self, asked: Told, say: Say) -> dict[str, Any]:
        result, layers = self._opened(asked["path"])
        return study_slice(result, layers, _inside(asked["slice"], result))

    def samples(self, asked: Told, say: Say) -> list[dict[str, float | str]]:
        result, _ = self._opened(asked["path"])
        return study_samples(result, _inside(asked["slice"], result))

    def glances(self, asked: Told, say: Say) -> dict[str, Any]:
        """Facts of every result among the files, by path; None for what is something else."""
        return {path: self._glance(path) for path in asked["paths"]}

    def _opened(self, path: str) -> tuple[Result, dict[str, Any]]:
        stamp = stamp_of(path)
        if stamp not in self.open:
            while len(self.open) >= OPEN:
                self.open.popitem(last=False)[1][2].close()
            with ExitStack() as stack:
                result = stack.enter_context(reading_result(Path(path), trusted=False))
                layers = page_layers(result)
                self.open[stamp] = (result, layers, stack.pop_all())
        self.open.move_to_end(stamp)
        result, layers, _ = self.open[stamp]
        return result, layers

    def _glance(self, path: str) -> dict[str, Any] | None:
        try:
            stamp = stamp_of(path)
            if stamp not in self.seen:
                self.seen[stamp] = _facts(Path(path))
            return self.seen[stamp]
        except (BayesMRIError, OSError):
            return None


def _inside(s: int, result: Result) -> int:
    if not 0 <= s < len(result.mean):
        raise ConfigError(f"got slice {s}, expected 0 to {len(result.mean) - 1}, counted from 0")
    return s


def stamp_of(path: str) -> Stamp:
    """A file that was changed is another one."""
    found = Path(path).stat()
    return path, found.st_mtime_ns, found.st_size


def _facts(path: Path) -> dict[str, Any] | None:
    if path.suffix.lower() not in (".h5", ".hdf5"):
        return None
    found = reading(lambda: glance(path), path, trusted=False)
    if found is None:
        return None
    inputs = found.provenance.get("inputs")
    first = inputs[0] if isinstance(inputs, list) and inputs and isinstance(inputs[0], dict) else {}
    return {
        "method": found.method,
        "samples": found.samples,
        "shape": list(found.shape),
        "scan": one_line(first.get("name", ""), limit=120),
        "time": one_line(found.provenance.get("time", ""), limit=40),
    }


if __name__ == "__main__":
    desk = Desk()
    answer({"study": desk.study, "slice": desk.slice, "samples": desk.samples, "glances": desk.glances})
