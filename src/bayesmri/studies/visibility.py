"""Structures planted into fully sampled data: does visibility, or σ̂, tell which come out wrong?

Of every structure its class is known, as a user names it who asks: kind, size, direction and contrast to the nearest of
a few, and its place to the nearest pixel; nothing of its edges. The weights come from other subjects.

Why a structure is wrong is found by the same scan without it: shown = carried + clutter, clutter = ⟨e₀, â⟩/⟨a, â⟩ of
the error e₀ that was there before. The sign of e₀ is nobody's to know: with the exact share that is carried, which no
scan tells either, and the size s of e₀ as the map has it, the chance of a right structure is

    Φ((½ + 1 − carried) c b/s) − Φ((−½ + 1 − carried) c b/s),

which is what any map could reach at best.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray
from scipy.stats import norm

from bayesmri.analysis.hallucination import SHARE, contrast_error
from bayesmri.analysis.roc import GRID, summary
from bayesmri.analysis.structures import Structure
from bayesmri.analysis.templates import views
from bayesmri.analysis.visibility import share, shipped_weights, snr
from bayesmri.errors import DataError
from bayesmri.evaluation.cohort import Loaded, Volumes, load, rules, taken
from bayesmri.evaluation.request import SAMPLES, Request
from bayesmri.evaluation.table import data_files, sampling_of
from bayesmri.kspace import KSpace
from bayesmri.recon.files import Progress
from bayesmri.recon.reconstruct import Reconstruction, reconstruct
from bayesmri.recon.request import Options
from bayesmri.recon.undersample import undersample
from bayesmri.recon.visibility import Sights
from bayesmri.report.figure_style import BLUE, GREEN, GREY, ORANGE, aligned, caption, count, figure, finish, write
from bayesmri.report.method_axes import area_text, percent_axes
from bayesmri.studies.base import Outcome
from bayesmri.studies.plant import plant_volume
from bayesmri.studies.visibility_fit import KIND, Looked

Numbers = Mapping[str, Any]
Row = dict[str, Any]
Floats = NDArray[np.float64]

GENERIC = 0.28  # the contrast that is asked about where the true one is not known
KINDS = ("all", "lesion", "line", "texture")
SCORES = {
    "visibility": "visibility",
    "any_contrast": f"visibility, contrast not known ({GENERIC})",
    "any_direction": "visibility, direction not known",
    "best": "at best: the share carried exactly known",
    "kept": "energy on measured lines, η",
    "std": "σ̂",
}
COLOURS = {
    "visibility": BLUE,
    "any_contrast": "#7fa8d9",
    "any_direction": "#5a9aa8",
    "best": GREY,
    "kept": GREEN,
    "std": ORANGE,
}
BINS = np.array([0.0, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0])


def visibility_study(request: Request, progress: Progress | None) -> Outcome:
    """Every model on the same planted data."""
    models = [load(text) for text in request.models]
    volumes = Volumes(request)
    rows: dict[str, list[Row]] = {loaded.name: [] for loaded in models}
    with _steps(progress, request) as advance:
        for path, full in volumes:
            for loaded in models:
                rows[loaded.name] += _planted(full, path, loaded, request)
                advance()
    if not any(rows.values()):
        raise DataError("no slice has room for a structure: give larger images, or such with more than air")
    numbers: dict[str, Any] = {
        "model": " and ".join(rows),
        "acceleration": request.accelerations[0],
        "samples": request.samples,
        **volumes.facts(),
        "volumes": len(volumes.used),
        "wrong_share": SHARE,
        "weights": shipped_weights().name,
        "methods": [{"method": name, **judged(found, seed=request.seed)} for name, found in rows.items()],
        "structures": [{"method": name, **row} for name, found in rows.items() for row in found],
    }
    inputs = (*volumes.used, *(loaded.path for loaded in models))
    return Outcome(numbers, partial(visibility_figure, numbers=numbers), visibility_text(numbers), inputs)


def _steps(progress: Progress | None, request: Request) -> AbstractContextManager[Callable[[], None]]:
    assert request.data is not None
    return progress(len(data_files(request.data)) * len(request.models)) if progress else nullcontext(lambda: None)


def _planted(full: KSpace, path: Path, loaded: Loaded, request: Request) -> list[Row]:
    """The structures of one volume by one model."""
    planted, structures = plant_volume(taken(full, loaded), seed=request.seed, name=path.name)
    lines = sampling_of(path, request.accelerations[0], rules(request))
    draws = loaded.stochastic or loaded.model.regularizer.drops
    options = Options(
        model=loaded.model,
        samples=(request.samples or SAMPLES) if draws else 0,
        seed=request.seed,
        device=request.device,
        full_fov=True,
    )
    sights = Sights()
    result = reconstruct(undersample(planted, lines), options, watch=sights)
    error, before = (_error(one) for one in (result, reconstruct(undersample(taken(full, loaded), lines), options)))
    found = []
    for s, (sight, part) in enumerate(zip(sights.found, structures, strict=True)):
        looked = Looked(sight)
        for one in part:
            if one.planted and one.kind in KIND:
                found.append({"file": path.name, "slice": s, **_row(one, looked, result, s, error[s], before[s])})
    return found


def _error(result: Reconstruction) -> Floats:
    assert result.truth is not None
    return result.mean.astype(np.float64) - result.truth


def _row(one: Structure, looked: Looked, result: Reconstruction, s: int, error: Floats, before: Floats) -> Row:
    """JSON values. error, before: X̄ − Y of the slice with the structures and without."""
    assert result.truth is not None
    weights = shipped_weights()
    template, facts = looked.at(one)
    known = share(facts, template.contrast, weights)
    around = replace(template, views=views(template.kind, template.size))
    where = min(round(one.row), looked.sight.shape[0] - 1), min(round(one.column), looked.sight.shape[1] - 1)
    turned = [share(looked.facts(around, view).at(*where), template.contrast, weights) for view in around.views]
    deviation, clutter = contrast_error(one, error), contrast_error(one, before)
    std = None if result.std is None else np.average(one.of(result.std[s]), weights=np.abs(one.change))
    return {
        "kind": one.kind,
        "template": template.text,
        "contrast": round(one.contrast, 4),
        "shown": round(1 + deviation, 4),
        "carried": round(1 + deviation - clutter, 4),
        "clutter": round(clutter, 4),
        "wrong": abs(deviation) > SHARE,
        "visibility": round(float(known), 4),
        "any_contrast": round(float(share(facts, GENERIC, weights)), 4),
        "any_direction": round(float(np.mean(turned)), 4),
        "best": round(right_chance(1 + deviation - clutter, float(snr(facts, template.contrast, weights))), 4),
        "kept": round(float(facts.kept), 4),
        "std": None if std is None else float(std) / float(result.truth.max()),
    }


def right_chance(carried: float, snr: float) -> float:
    """Of a structure of which so much is carried, among errors of the size s: snr = ln(c b/s)."""
    least, most = (math.exp(min(snr, 30.0)) * (1 - carried + side * SHARE) for side in (-1, 1))
    return float(norm.cdf(most) - norm.cdf(least))


def causes(rows: Sequence[Row]) -> dict[str, float]:
    """Of the wrong ones, the shares that are wrong by what is carried, by clutter, by either, only by both together."""
    wrong = [row for row in rows if row["wrong"]]
    lost = np.array([abs(row["carried"] - 1) > SHARE for row in wrong], dtype=bool)
    hidden = np.array([abs(row["clutter"]) > SHARE for row in wrong], dtype=bool)
    parts = {"carried": lost & ~hidden, "clutter": hidden & ~lost, "either": lost & hidden, "together": ~lost & ~hidden}
    return {name: float(part.mean()) if part.size else 0.0 for name, part in parts.items()}


def judged(rows: Sequence[Row], *, seed: int) -> dict[str, Any]:
    """JSON values: areas by score and kind, with intervals of a bootstrap over volumes; what came, by visibility."""
    files = sorted({row["file"] for row in rows})
    areas: dict[str, dict[str, Any]] = {}
    for score in SCORES:
        if any(row[score] is None for row in rows):
            continue
        areas[score] = {}
        for kind in KINDS:
            part = [row for row in rows if kind in ("all", row["kind"])]
            sign = 1.0 if score == "std" else -1.0  # what is hardly visible, or unsure, should be wrong
            areas[score][kind] = (
                summary(
                    [sign * row[score] for row in part],
                    [row["wrong"] for row in part],
                    rng=np.random.default_rng(seed),
                    clusters=[files.index(row["file"]) for row in part],
                )
                if part
                else None
            )
    return {"n": len(rows), "wrong": sum(row["wrong"] for row in rows), "areas": areas, "bins": _bins(rows)} | {
        "causes": {kind: causes([row for row in rows if kind in ("all", row["kind"])]) for kind in KINDS}
    }


def _bins(rows: Sequence[Row]) -> list[dict[str, float]]:
    v = np.array([row["visibility"] for row in rows])
    right = np.clip(1 - np.abs(np.array([row["shown"] for row in rows]) - 1), 0, 1)
    wrong = np.array([row["wrong"] for row in rows])
    found = []
    for low, high in pairwise(BINS):
        inside = (v >= low) & ((v < high) | (high == 1))
        if inside.any():
            found.append(
                {
                    "n": int(inside.sum()),
                    "visibility": float(v[inside].mean()),
                    "right": float(right[inside].mean()),
                    "wrong": float(wrong[inside].mean()),
                }
            )
    return found


def visibility_figure(path: Path, *, numbers: Numbers) -> None:
    """ROC over all structures, areas by kind, and what came out against what was told; of the first model."""
    method = numbers["methods"][0]
    made = figure(13.5, 4.6)
    axes = made.subplots(1, 3)
    _roc(axes[0], method)
    _areas(axes[1], method)
    _told(axes[2], method)
    about = f"{method['method']}, R = {numbers['acceleration']:g}, {count(method['n'], 'structure')} in "
    about += f"{count(numbers['volumes'], 'volume')}, {method['wrong']} wrong (contrast off by more than half)"
    caption(made, f"{about}; weights {numbers['weights']}.")
    write(made, path)


def _roc(axes: Axes, method: Numbers) -> None:
    for score, found in method["areas"].items():
        if found["all"] is not None and found["all"]["hits"] is not None:
            label = f"{SCORES[score]}: {found['all']['area']:.2f}"
            axes.plot(GRID, found["all"]["hits"], color=COLOURS[score], linewidth=1.6, label=label)
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=0.8, linestyle="--")
    percent_axes(axes)
    finish(axes, title="Which come out wrong?", x="right structures flagged", y="wrong structures flagged")


def _areas(axes: Axes, method: Numbers) -> None:
    """Area with its interval, by kind."""
    scores = list(method["areas"])
    for i, score in enumerate(scores):
        for k, kind in enumerate(KINDS):
            found = method["areas"][score][kind]
            if found is None or found["area"] is None:
                continue
            x = k + (i - (len(scores) - 1) / 2) * 0.8 / len(scores)
            if found["low"] is not None:
                axes.plot([x, x], [found["low"], found["high"]], color=COLOURS[score], linewidth=3, alpha=0.45)
            axes.plot(x, found["area"], "o", color=COLOURS[score], markersize=4.5)
    axes.axhline(0.5, color=GREY, linewidth=0.8, linestyle="--")
    axes.set_xticks(range(len(KINDS)), KINDS)
    finish(axes, title="Area under the ROC curve", y="area (95 %, over volumes)", legend=False)


def _told(axes: Axes, method: Numbers) -> None:
    """The share that came out right against the visibility that was told."""
    bins = method["bins"]
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=0.8, linestyle="--")
    axes.plot([b["visibility"] for b in bins], [b["right"] for b in bins], "o-", color=BLUE, label="contrast, right")
    axes.plot([b["visibility"] for b in bins], [b["wrong"] for b in bins], "s:", color=ORANGE, label="structures wrong")
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    percent_axes(axes)
    finish(axes, title="What was told, what came", x="visibility", y="share")


def visibility_text(numbers: Numbers) -> str:
    """One row per model and score: areas by kind."""
    rows = [["model", "score", *KINDS]]
    for method in numbers["methods"]:
        for score, found in method["areas"].items():
            cells = ["none" if found[kind] is None else area_text(found[kind]) for kind in KINDS]
            rows.append([method["method"], SCORES[score], *cells])
    told = [
        f"{method['method']}: {method['wrong']} of {method['n']} structures wrong; visibility told and contrast that "
        "came out right: " + ", ".join(f"{b['visibility']:.2f} {b['right']:.2f} ({b['n']})" for b in method["bins"])
        for method in numbers["methods"]
    ]
    told += [
        f"{method['method']}, why the wrong ones are wrong ({kind}): too little or too much carried "
        f"{100 * why['carried']:.0f} %, errors that were there before {100 * why['clutter']:.0f} %, either "
        f"{100 * why['either']:.0f} %, only both together {100 * why['together']:.0f} %"
        for method in numbers["methods"]
        for kind, why in method["causes"].items()
    ]
    last = "Area: the probability that a wrong one has the lower visibility (the larger σ̂), 0.5 is chance."
    return "\n".join([aligned(rows), *told, last])
