"""σ̂ as R falls to 1: the less is missing, the less there is to be unsure of."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from bayesmri.analysis.quality import foreground
from bayesmri.errors import ConfigError
from bayesmri.evaluation.cohort import Volumes, counted, load_stochastic, sample_volume
from bayesmri.evaluation.request import Request
from bayesmri.metrics import PSNR_CAP
from bayesmri.physics.pattern import cell_counts
from bayesmri.recon.files import Progress
from bayesmri.recon.reconstruct import Reconstruction
from bayesmri.recon.samples import column_std
from bayesmri.report.figure_style import BLUE, GREEN, GREY, ORANGE, aligned, caption, count, figure, finish, write
from bayesmri.studies.base import Outcome
from bayesmri.studies.reliability import truth_and_spread

AVERAGED = (
    "std",
    "std_foreground",
    "kspace_std_acquired",
    "kspace_std_missing",
    "psnr",
    "psnr_deterministic",
    "psnr_zero_filled",
)


Numbers = Mapping[str, Any]


@dataclass(frozen=True)
class Look:
    """Of one line: its name in the legend (none without one), colour, marker and dashes, width."""

    label: str | None
    colour: str
    line: str = "o-"
    width: float = 1.5


def acceleration_study(request: Request, progress: Progress | None) -> Outcome:
    """One model on every volume at every R; standard deviations in units of the truth's maximum."""
    if len(set(request.accelerations)) < len(request.accelerations):
        raise ConfigError("got the same acceleration twice; give each once")
    loaded = load_stochastic(request.models[0])
    volumes = Volumes(request)
    rows: list[dict[str, Any]] = []
    with counted(progress, request) as advance:
        for path, full in volumes:
            for R in request.accelerations:
                rows.append(_row(path, R, sample_volume(full, path, R, loaded, request)))
                advance()
    numbers = {
        **loaded.facts(),
        "samples": request.samples,
        **volumes.facts(),
        "means": [_mean(R, [row for row in rows if row["acceleration"] == R]) for R in request.accelerations],
        "rows": rows,
    }
    draw = partial(acceleration_figure, numbers=numbers)
    return Outcome(numbers, draw, acceleration_text(numbers), (*volumes.used, loaded.path))


def _row(path: Path, R: float, result: Reconstruction) -> dict[str, Any]:
    assert result.kspace_std is not None
    _, std, truth = truth_and_spread(result)
    peak = float(truth.max())
    acquired, missing = column_std(result.kspace_std, result.mask)
    return {
        "file": path.name,
        "acceleration": R,
        **cell_counts(result.mask),
        "std": float(std.mean(dtype=np.float64)) / peak,
        "std_foreground": float(std[foreground(truth)].mean(dtype=np.float64)) / peak,
        "kspace_std_acquired": acquired / peak,
        "kspace_std_missing": None if missing is None else missing / peak,
        "psnr": result.metrics().psnr,
        "psnr_deterministic": result.deterministic_metrics().psnr,
        "psnr_zero_filled": result.zero_filled_metrics().psnr,
    }


def _mean(R: float, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Over volumes; None where no volume has the number."""
    found: dict[str, Any] = {"acceleration": R, "volumes": len(rows)}
    for key in AVERAGED:
        known = [row[key] for row in rows if row[key] is not None]
        found[key] = math.fsum(known) / len(known) if known else None
    return found


def acceleration_figure(path: Path, *, numbers: Numbers) -> None:
    """σ̂ in the image | in k-space | PSNR, each over R: thin lines are volumes, the strong ones their means."""
    made = figure(13.5, 4.2)
    left, middle, right = made.subplots(1, 3)
    means = numbers["means"]
    files = _by_file(numbers["rows"])
    for i, rows in enumerate(files):
        label = "foreground, one volume" if i == 0 and len(files) > 1 else None
        _line(left, rows, "std_foreground", Look(label, GREY, "-", 0.6), factor=100)
    _line(left, means, "std_foreground", Look("foreground, mean of volumes", BLUE), factor=100)
    _line(left, means, "std", Look("all pixels, mean of volumes", GREEN), factor=100)
    left.set_ylim(bottom=0)
    finish(left, title="Mean σ̂ in the image", x="R", y="σ̂, % of the truth's maximum")
    _line(middle, means, "kspace_std_missing", Look("missing columns", ORANGE), factor=100)
    _line(middle, means, "kspace_std_acquired", Look("acquired columns", BLUE), factor=100)
    middle.set_yscale("log")
    middle.yaxis.set_major_formatter(lambda v, _: f"{v:g}")
    finish(middle, title="RMS std in k-space", x="R", y="std, % of the truth's maximum")
    _line(right, means, "psnr", Look("mean of samples", BLUE))
    _line(right, means, "psnr_deterministic", Look("at μ", "k", "x--", 1.0))
    _line(right, means, "psnr_zero_filled", Look("zero-filled", GREY))
    finish(right, title="PSNR", x="R", y="dB")
    for axes in (left, middle, right):
        axes.set_xscale("log", base=2)
        axes.xaxis.set_minor_locator(NullLocator())
        R = sorted(row["acceleration"] for row in means)
        axes.set_xticks(R, [f"{r:g}" for r in R])
    caption(made, f"{numbers['model']}, {count(numbers['samples'], 'sample')}, {count(means[0]['volumes'], 'volume')}")
    write(made, path)


def _by_file(rows: list[Numbers]) -> list[list[Numbers]]:
    files = dict.fromkeys(row["file"] for row in rows)
    return [[row for row in rows if row["file"] == name] for name in files]


def _line(axes: Axes, rows: list[Numbers], key: str, look: Look, *, factor: float = 1) -> None:
    """A number that is not known, and the cap that stands for an infinite PSNR, leave a gap."""
    known = sorted((row["acceleration"], factor * row[key]) for row in rows if row[key] not in (None, PSNR_CAP))
    R, values = [r for r, _ in known], [v for _, v in known]
    axes.plot(R, values, look.line, color=look.colour, label=look.label, markersize=4.5, linewidth=look.width)


def acceleration_text(numbers: Numbers) -> str:
    """One line per R; standard deviations in percent of the truth's maximum."""
    heads = ["R", "std %", "foreground %", "acquired columns %", "missing columns %", "PSNR/dB", "at μ", "zero-filled"]
    keys = ("std", "std_foreground", "kspace_std_acquired", "kspace_std_missing")
    rows = [heads]
    for row in numbers["means"]:
        spread = ["none" if row[key] is None else f"{100 * row[key]:.4f}" for key in keys]
        found = [row[key] for key in ("psnr", "psnr_deterministic", "psnr_zero_filled")]
        scores = ["exact" if score >= PSNR_CAP else f"{score:.2f}" for score in found]
        rows.append([f"{row['acceleration']:g}", *spread, *scores])
    return aligned(rows)
