"""Does the error that left-out lines tell come true? Every volume of a folder, checked without and with its truth."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from bayesmri.analysis.quality import spearman
from bayesmri.bounds.expected import scale_for
from bayesmri.errors import DataError, MaskError, ModelError, ShapeError
from bayesmri.evaluation.cohort import Loaded, Volumes, counted, load
from bayesmri.evaluation.expected_scale import judge
from bayesmri.evaluation.request import Request, Track
from bayesmri.kspace import KSpace
from bayesmri.recon.files import Progress
from bayesmri.report.figure_style import BLUE, GREY, ORANGE, aligned, caption, count, figure, finish, write
from bayesmri.studies.base import Outcome

Numbers = Mapping[str, Any]
Row = dict[str, Any]
TRACKS: tuple[Track, ...] = ("single", "multi")
COLOURS = {"single": BLUE, "multi": ORANGE}
MARKERS = "osD^v"
ANATOMIES = {
    "knee": ("knee",),
    "chest": ("chest", "lung", "thorax"),
    "heart": ("heart", "cine", "cardiac"),
    "neck": ("neck", "spine", "cervical"),
    "low-field head": ("0.055", "lowfield"),
    "head": ("head", "brain", "t1", "t2", "flair"),
    "abdomen": ("abdomen", "liver", "prostate", "pelvis"),
}


def holdout_study(request: Request, progress: Progress | None) -> Outcome:
    """Every volume as one coil and as an array, at every R by the model of the nearest R, at μ."""
    models = [load(name) for name in request.models]
    rows: list[Row] = []
    found = {track: Volumes(replace(request, track=track)) for track in tracks_of(models, request)}
    skipped: list[str] = []
    with counted(progress, replace(request, models=("",) * len(found))) as advance:
        for track, volumes in found.items():
            for path, full in volumes:
                for R in request.accelerations:
                    try:
                        rows.append(_row(path, full, track, R, nearest(models, R), volumes.request))
                    except (DataError, MaskError, ModelError, ShapeError) as error:
                        skipped.append(f"{path.name}, {track}-coil, R = {R:g}: {error}")
                    advance()
    if not rows:
        raise DataError(f"no volume in {request.data} can be judged: {'; '.join(skipped[:3])}")
    first = next(iter(found.values()))
    numbers = {
        "model": " and ".join(loaded.name for loaded in models),
        "accelerations": list(request.accelerations),
        **first.facts(),
        "skipped": sorted({line for volumes in found.values() for line in volumes.skipped} | set(skipped)),
        "groups": groups(rows),
        "rows": rows,
    }
    inputs = (*first.used, *(loaded.path for loaded in models))
    return Outcome(numbers, partial(holdout_figure, numbers=numbers), holdout_text(numbers), inputs)


def nearest(models: Sequence[Loaded], R: float) -> Loaded:
    """argmin |log(R / R_model)|, the first where none says its R."""
    return min(models, key=lambda loaded: abs(math.log(R / (loaded.model.acceleration or 4.0))))


def tracks_of(models: Sequence[Loaded], request: Request) -> tuple[Track, ...]:
    """The one asked for, or else all that the models take."""
    if request.track is not None:
        return (request.track,)
    only_one = any(loaded.model.coils.mode == "raw" and loaded.model.coils.Q == 1 for loaded in models)
    return TRACKS[:1] if only_one else TRACKS


def _row(path: Path, full: KSpace, track: Track, R: float, loaded: Loaded, request: Request) -> Row:
    """JSON values. relative: the RMS error of the coil images over the truth's maximum."""
    case = judge(full, path, R, loaded, request)
    scale = scale_for(loaded.model.scales, coils=case.coils, acceleration=R)
    expected = case.expected(scale)
    pixels, grid = sum(told.pixels for told in case.told), sum(told.grid for told in case.told)
    actual = None if case.complex_error is None else math.sqrt(case.complex_error / grid)
    return {
        "file": path.name,
        "anatomy": anatomy(path, full),
        "track": track,
        "coils": case.coils,
        "acceleration": R,
        "model": loaded.name,
        "slices": len(case.told),
        "left_out": case.left_out,
        "fitted": expected.fitted,
        "psnr": case.metrics.psnr,
        "expected_psnr": expected.psnr,
        "expected_psnr_low": expected.psnr_low,
        "expected_psnr_high": expected.psnr_high,
        "nmse": case.metrics.nmse,
        "expected_nmse": expected.nmse,
        "rmse": math.sqrt(case.magnitude_error / pixels),
        "expected_rmse": expected.rmse,
        "relative": None if actual is None else actual / case.peak,
        "expected_relative": expected.rmse_complex / case.peak,
    }


def anatomy(path: Path, full: KSpace) -> str:
    """The first part of the body that the file or its name mentions; "other" where there is none."""
    told = f"{full.header.acquisition} {path.stem}".lower()
    return next((name for name, words in ANATOMIES.items() if any(word in told for word in words)), "other")


def groups(rows: Sequence[Row]) -> dict[str, dict[str, Any]]:
    """By coils and R, by anatomy, and all."""
    kinds: list[Callable[[Row], str]] = [
        lambda row: f"{row['track']}-coil, R = {row['acceleration']:g}",
        lambda row: str(row["anatomy"]),
        lambda row: "all",
    ]
    found: dict[str, list[Row]] = {}
    for kind in kinds:
        for row in rows:
            found.setdefault(kind(row), []).append(row)
    return {name: _judged(part) for name, part in found.items()}


def _judged(rows: Sequence[Row]) -> dict[str, Any]:
    """Ratios of expected and actual RMS errors (median, 10 to 90 %), the distance of PSNR, and rank correlations."""
    known = [row for row in rows if row["relative"]]
    apart = np.array([row["expected_psnr"] - row["psnr"] for row in rows])
    inside = [row["expected_psnr_low"] <= row["psnr"] <= row["expected_psnr_high"] for row in rows]
    return {
        "scans": len(rows),
        "ratio": _spread([row["expected_relative"] / row["relative"] for row in known]),
        "ratio_magnitude": _spread([row["expected_rmse"] / row["rmse"] for row in rows if row["rmse"]]),
        "psnr_apart": float(np.median(apart)),
        "psnr_rms": float(np.sqrt(np.mean(apart**2))),
        "half_width": float(np.median([(r["expected_psnr_high"] - r["expected_psnr_low"]) / 2 for r in rows])),
        "covered": float(np.mean(inside)),
        "rank": _rank([row["expected_relative"] for row in known], [row["relative"] for row in known]),
        "rank_psnr": _rank([row["expected_psnr"] for row in rows], [row["psnr"] for row in rows]),
    }


def _spread(values: Sequence[float]) -> dict[str, float] | None:
    if not values:
        return None
    low, median, high = np.quantile(values, [0.1, 0.5, 0.9])
    return {"median": float(median), "low": float(low), "high": float(high)}


def _rank(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Spearman's ρ; None of fewer than three."""
    return spearman(a, b) if len(a) >= 3 else None


def holdout_figure(path: Path, numbers: Numbers) -> None:
    """Expected against actual PSNR with intervals; ratios of RMS errors by anatomy."""
    made = figure(12.5, 5.2)
    left, right = made.subplots(1, 2)
    _psnr(left, numbers)
    _ratios(right, numbers)
    caption(made, f"{numbers['model']}, {count(len(numbers['rows']), 'scan')}; no truth was used for what is expected")
    write(made, path)


def _psnr(axes: Axes, numbers: Numbers) -> None:
    rows = numbers["rows"]
    for track in TRACKS:
        for R, marker in zip(numbers["accelerations"], MARKERS, strict=False):
            part = [row for row in rows if (row["track"], row["acceleration"]) == (track, R)]
            if not part:
                continue
            half = [(row["expected_psnr_high"] - row["expected_psnr_low"]) / 2 for row in part]
            axes.errorbar(
                [row["psnr"] for row in part],
                [row["expected_psnr"] for row in part],
                yerr=half,
                fmt=marker,
                markersize=4,
                linewidth=0.7,
                color=COLOURS[track],
                alpha=0.8,
                label=f"{track}-coil, R = {R:g}",
            )
    ends = [min(row["psnr"] for row in rows) - 1, max(row["psnr"] for row in rows) + 1]
    axes.plot(ends, ends, color=GREY, linewidth=1)
    finish(axes, title="Expected without a reference", x="PSNR against the truth, dB", y="expected PSNR, dB (90 %)")


def _ratios(axes: Axes, numbers: Numbers) -> None:
    rows = [row for row in numbers["rows"] if row["relative"]]
    names = sorted({row["anatomy"] for row in rows})
    for track in TRACKS:
        part = [row for row in rows if row["track"] == track]
        shift = {"single": -0.12, "multi": 0.12}[track]
        places = [names.index(row["anatomy"]) + shift for row in part]
        values = [row["expected_relative"] / row["relative"] for row in part]
        axes.plot(places, values, "o", markersize=4, alpha=0.6, color=COLOURS[track], label=f"{track}-coil")
    axes.axhline(1, color=GREY, linewidth=1)
    axes.axhspan(0.9, 1.1, color="0.93", zorder=0)
    axes.set_xticks(range(len(names)), names, rotation=20)
    finish(axes, title="RMS error of the coil images", y="expected / actual")


def holdout_text(numbers: Numbers) -> str:
    """One row per group."""
    heads = ["scans of", "n", "expected/actual", "10 to 90 %", "of magnitude", "ΔPSNR/dB", "rms", "±dB", "held", "rank"]
    lines = [[name, *_cells(found)] for name, found in numbers["groups"].items()]
    fitted = all(row["fitted"] for row in numbers["rows"])
    words = (
        "expected/actual: RMS error of the coil images, median; ±dB: half of the 90 % interval of PSNR, which held so "
        "many of the scans; rank: of the relative RMS errors, Spearman's ρ."
    )
    return "\n".join([aligned([heads, *lines]), words, *([] if fitted else ["Some scans are by the default numbers."])])


def _cells(found: Numbers) -> list[str]:
    ratio, magnitude, rank = found["ratio"], found["ratio_magnitude"], found["rank"]
    return [
        str(found["scans"]),
        "" if ratio is None else f"{ratio['median']:.2f}",
        "" if ratio is None else f"{ratio['low']:.2f} to {ratio['high']:.2f}",
        "" if magnitude is None else f"{magnitude['median']:.2f}",
        f"{found['psnr_apart']:+.2f}",
        f"{found['psnr_rms']:.2f}",
        f"{found['half_width']:.1f}",
        f"{100 * found['covered']:.0f} %",
        "" if rank is None else f"{rank:.3f}",
    ]
