"""metrics.jsonl: one JSON object per line, appended; on resume, lines after the checkpoint are dropped.

So are those that were written only because the run ended: a run that was stopped and went on leaves the same bytes as
one that was not. What differs from machine to machine, the time, is in times.jsonl.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bayesmri.io.atomic import atomic_path

JOURNAL, TIMES = "metrics.jsonl", "times.jsonl"
EARLY = "early"
TIMED = ("seconds_per_step", "elapsed", "seconds_left")


class Journal:
    """Appends whole lines; a line torn by a crash is dropped on resume."""

    def __init__(self, path: Path, *, until: int, over: bool = False) -> None:
        """until: the step of the checkpoint that the run goes on from; 0 starts anew. over: it has reached its end."""
        self.path = path
        kept = [line for line in journal_lines(path) if line["step"] <= until and (over or not line.get(EARLY))]
        with atomic_path(path) as temporary:
            temporary.write_text("".join(json.dumps(line) + "\n" for line in kept), encoding="utf-8")

    def write(self, kind: str, step: int, values: Mapping[str, Any], *, due: bool = True) -> None:
        """due: the schedule asks for it, and not the end of the run alone."""
        values = values if due else {**values, EARLY: True}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"kind": kind, "step": step, **values}) + "\n")


def journal_lines(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a journal that name their step; none where there is no file."""
    if not path.exists():
        return []
    lines = []
    for text in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if isinstance(line, dict) and isinstance(line.get("step"), int):
            lines.append(line)
    return lines
