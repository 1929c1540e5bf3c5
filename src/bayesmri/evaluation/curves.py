"""How trainings went: loss and validation of runs over updates and hours, as numbers, a figure and a table."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bayesmri.errors import ConfigError, DataError, OutputError
from bayesmri.evaluation.request import members_of
from bayesmri.io.atomic import atomic_paths, check_target
from bayesmri.io.provenance import provenance
from bayesmri.report.curves import curves_figure, curves_text
from bayesmri.training.journal import JOURNAL, TIMES, journal_lines

KEPT = ("psnr", "psnr_zero_filled", "ssim", "psnr_sample")


def draw_curves(runs: Sequence[str], out: Path, *, force: bool = False) -> tuple[dict[str, Any], str]:
    """OUT.png with the numbers in OUT.json beside it; returns them and a table.

    runs: folders of runs, those joined by + one after the other, as parts of one training, which NAME= before them
        names; or the .json of an earlier figure, whose runs may be gone. NAME=FILE.json+RUN goes on with its curve.
    force: OUT may be there.
    """

    if not runs:
        raise ConfigError("no run was named: give folders that train --out wrote, such as runs/small")
    targets = (out.with_suffix(".png"), out.with_suffix(".json"))
    for target in targets:
        check_target(target, force=force)
    if targets[1].exists() and "curves" not in _loaded(targets[1]):
        raise OutputError(f"{targets[1].name} is no file of curves, and would be replaced: give another name")
    try:
        numbers: dict[str, Any] = {"curves": [curve for text in runs for curve in _curves(text)]}
        numbers["provenance"] = _provenance(runs, numbers["curves"])
        record, told = json.dumps(numbers, indent=1, allow_nan=False) + "\n", curves_text(numbers)
        with atomic_paths(targets) as (picture, file):
            curves_figure(picture, numbers=numbers)
            file.write_text(record, encoding="utf-8")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"{', '.join(runs)}: not the record of a training of this version: {error!r}") from error
    return numbers, told


def training_curve(parts: Sequence[Path], before: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """One training of several runs, after what an earlier figure holds of it.

    {"name", "runs": [{"name", "updates", "hours"}, …], "loss": [{"update", "hours", "loss"}, …],
     "validation": [{"update", "hours", "psnr", "psnr_zero_filled", "ssim", "psnr_sample"}, …]}
    with updates and hours counted from the start of the first.
    """
    earlier = before or {"runs": (), "loss": (), "validation": ()}
    runs, loss, validation = (list(earlier[key]) for key in ("runs", "loss", "validation"))
    updates, hours = sum(run["updates"] for run in runs), sum(run["hours"] for run in runs)
    for part in parts:
        elapsed = 0.0
        lines = journal_lines(part / JOURNAL)
        times = {line["step"]: line["elapsed"] for line in journal_lines(part / TIMES) if "elapsed" in line}
        if not any(line.get("kind") == "train" for line in lines):
            raise DataError(f"{part} holds no {JOURNAL} of a training: give the folder that train --out wrote")
        for line in lines:
            elapsed = line.get("elapsed", times.get(line["step"], elapsed))
            when = {"update": updates + line["step"], "hours": round(hours + elapsed / 3600, 4)}
            if line.get("kind") == "train":
                loss.append({**when, "loss": line["loss"]})
            elif line.get("kind") == "val":
                validation.append({**when, **{key: line[key] for key in KEPT if key in line}})
        runs.append({"name": part.name, "updates": lines[-1]["step"], "hours": elapsed / 3600})
        updates, hours = updates + lines[-1]["step"], hours + elapsed / 3600
    return {"name": parts[-1].name, "runs": runs, "loss": loss, "validation": validation}


def _curves(text: str) -> list[dict[str, Any]]:
    name, parts = _named(text)
    if parts[0].suffix != ".json":
        curve = training_curve(parts)
        return [{**curve, "name": name or curve["name"]}]
    found = _earlier(parts[0])
    if not name and len(parts) == 1:
        return found
    before = [curve for curve in found if curve["name"] == name]
    if not before:
        held = ", ".join(curve["name"] for curve in found)
        raise DataError(f"{parts[0].name} holds no curve {name!r}, expected NAME= before it, with NAME one of {held}")
    return [{**training_curve(parts[1:], before[0]), "name": name}] if parts[1:] else before


def _earlier(path: Path) -> list[dict[str, Any]]:
    """The curves of an earlier figure."""
    try:
        found = _loaded(path)["curves"]
        return [{key: curve[key] for key in ("name", "runs", "loss", "validation")} for curve in found]
    except (KeyError, TypeError) as error:
        raise DataError(f"{path.name} holds no curves, expected the .json file that `bayesmri curves` wrote") from error


def _loaded(path: Path) -> dict[str, Any]:
    """A JSON object; empty where there is none."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _named(text: str) -> tuple[str, list[Path]]:
    """NAME=RUN+RUN, or the runs alone, as a folder's own name may hold a =."""
    name, _, parts = ("", "", text) if Path(text).exists() else text.rpartition("=")
    return name, [Path(part) for part in members_of(parts)]


def _provenance(runs: Sequence[str], curves: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The journals drawn, by checksum; the seeds of the trainings are in their models."""

    config = {curve["name"]: [run["name"] for run in curve["runs"]] for curve in curves}
    inputs = [
        path
        for text in runs
        for path in (part if part.suffix == ".json" else part / JOURNAL for part in _named(text)[1])
    ]
    return provenance(command="curves", config=config, seed=None, inputs=inputs)
