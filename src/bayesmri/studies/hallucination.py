"""Structures planted into fully sampled data or erased from it: does σ̂ flag those that come out wrong?"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import SubFigure
from matplotlib.patches import Circle
from matplotlib.ticker import PercentFormatter
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from bayesmri.analysis.hallucination import MULTIPLE, SHARE, Verdict, judge_structure, judge_structures
from bayesmri.analysis.structures import BLUR, KINDS, Structure, body
from bayesmri.errors import ConfigError, DataError
from bayesmri.evaluation.cohort import Volumes, rules, taken
from bayesmri.evaluation.request import SAMPLES, Request
from bayesmri.evaluation.table import data_files, sampling_of
from bayesmri.kspace import KSpace
from bayesmri.recon.files import Progress
from bayesmri.recon.reconstruct import Reconstruction
from bayesmri.recon.undersample import undersample
from bayesmri.report.figure_style import aligned, caption, count, figure, finish, write
from bayesmri.report.method_axes import (
    area_text,
    colours,
    key_line,
    label,
    percent,
    percent_axes,
    roc_axes,
    short_names,
)
from bayesmri.studies.base import Outcome
from bayesmri.studies.plant import plant_volume
from bayesmri.studies.spreads import Spread, same_coils, spread

AROUND = 24  # pixels on each side of a structure that the figure shows
KEPT = 100_000  # of σ̂ outside all places, for a method: enough for its quantiles


Numbers = Mapping[str, Any]
Image = NDArray[np.float64]
BUDGET = 0.1  # of the rest of the body, for the table
YELLOW = "#ffd34d"


@dataclass(frozen=True, eq=False)
class Place:
    """A structure with its surroundings, relative to the truth's maximum.

    shown: share of the contrast that the reconstruction shows. error: what is wrong with it, in brightness.
    middle, size: row and column of the structure in the pictures, and its size, in pixels.
    """

    kind: str
    contrast: float
    shown: float
    error: float
    middle: tuple[float, float]
    size: float
    truth: Image = field(repr=False)
    image: Image = field(repr=False)
    std: Image = field(repr=False)


@dataclass(eq=False)
class Tally:
    """What a method made of all structures so far.

    seconds, slices: of its reconstructions. rest: σ̂ outside all places, blurred, over the truth's maximum, by slice.
    """

    spread: Spread
    samples: int
    verdicts: list[Verdict] = field(default_factory=list)
    rest: list[NDArray[np.float64]] = field(default_factory=list)
    psnr: list[float] = field(default_factory=list)
    levels: set[float | None] = field(default_factory=set)
    seconds: float = 0.0
    slices: int = 0

    def add(self, result: Reconstruction, structures: list[list[Structure]]) -> list[Verdict]:
        """The verdicts of one volume."""
        if result.std is None or result.truth is None:
            raise DataError("got a reconstruction without a standard deviation or truth, expected both")
        peak = float(result.truth.max())
        new: list[Verdict] = []
        for s, part in enumerate(structures):
            bound = None if result.error_bound is None else result.error_bound[s]
            error = result.mean[s].astype(np.float64) - result.truth[s]
            elsewhere = _elsewhere(result.truth[s], part, peak)
            typical = float(np.median(np.abs(error[elsewhere]))) if elsewhere.any() else 0.0
            new += [
                judge_structure(one, error=error, std=result.std[s], bound=bound, typical=typical, peak=peak)
                for one in part
            ]
            # averaged over as much as a structure is, so that both can be held against one threshold
            self.rest.append(gaussian_filter(result.std[s].astype(np.float64), BLUR)[elsewhere] / peak)
        self.verdicts += new
        self.psnr.append(result.metrics().psnr)
        self.levels.add(None if result.calibration is None else result.calibration.level)
        self.seconds += result.seconds
        self.slices += len(structures)
        return new

    def numbers(self, *, seed: int) -> dict[str, Any]:
        """JSON values; the bootstrap is drawn with the seed."""
        rng = np.random.default_rng(seed)
        rest = np.concatenate(self.rest)
        rest = rest if rest.size <= KEPT else rest[:: rest.size // KEPT]
        found = judge_structures(self.verdicts, rest, rng=rng)
        if found["bound"] is not None and len(self.levels) == 1:
            found["bound"] |= {"level": next(iter(self.levels))}
        else:  # of several levels, or only of some volumes
            found["bound"] = None
        return {
            **self.spread.facts(),
            "samples": self.samples if self.spread.draws else 0,
            "passes": self.spread.passes(self.samples),
            "psnr": float(np.mean(self.psnr)),
            "seconds_per_slice": self.seconds / self.slices,
            **found,
        }


def hallucination_study(request: Request, progress: Progress | None) -> Outcome:
    """Every method on the same planted data: ROC of σ̂ by structure and by pixel, and false alarms."""
    spreads = [spread(text) for text in request.models]
    check_names(spreads)
    taker = same_coils(spreads)
    tallies = [Tally(s, request.samples or SAMPLES) for s in spreads]
    volumes = Volumes(request)
    where: list[dict[str, Any]] = []
    places: list[Place] = []
    with steps(progress, request) as advance:
        for path, full in volumes:
            planted, structures = plant_volume(taken(full, taker), seed=request.seed, name=path.name)
            sampled = undersample(planted, sampling_of(path, request.accelerations[0], rules(request)))
            where += [_facts(one, path.name, s) for s, part in enumerate(structures) for one in part]
            for tally in tallies:
                result = reconstructed(tally, sampled, request)
                verdicts = tally.add(result, structures)
                if tally is tallies[0]:
                    places += _places(result, structures, verdicts)
                advance()
    if not where:
        raise DataError("no slice has room for a structure: give larger images, or such with more than air")
    numbers = {
        "acceleration": request.accelerations[0],
        "samples": request.samples,
        **volumes.facts(),
        "volumes": len(volumes.used),
        "slices": tallies[0].slices,
        "wrong_structure_share": SHARE,
        "wrong_pixel_multiple": MULTIPLE,
        "methods": [tally.numbers(seed=request.seed) for tally in tallies],
        "structures": [row | _answers(i, tallies) for i, row in enumerate(where)],
    }
    shown = [max((p for p in places if p.kind == kind), key=lambda p: p.error, default=None) for kind in KINDS]
    draw = partial(hallucination_figure, numbers=numbers, places=[place for place in shown if place is not None])
    inputs = (*volumes.used, *(member.path for s in spreads for member in s.members))
    return Outcome(numbers, draw, hallucination_text(numbers), inputs)


def reconstructed(tally: Tally, sampled: KSpace, request: Request) -> Reconstruction:
    """By one method, with its own number of samples."""
    return tally.spread(sampled, samples=tally.samples, seed=request.seed, device=request.device)


def check_names(spreads: list[Spread]) -> None:
    names = [s.name for s in spreads]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise ConfigError(f"got {', '.join(twice)} twice; give every method once, under a name of its own")


def steps(progress: Progress | None, request: Request, *, times: int = 1) -> AbstractContextManager[Callable[[], None]]:
    """Its value is to be called after every reconstruction of a volume by a method."""
    assert request.data is not None
    total = times * len(data_files(request.data)) * len(request.models)
    return progress(total) if progress else nullcontext(lambda: None)


def _elsewhere(truth: NDArray[np.float32], structures: list[Structure], peak: float) -> NDArray[np.bool_]:
    """The body outside all places."""
    outside = body(truth, peak)
    for structure in structures:
        outside[structure.rows, structure.columns] = False
    return outside


def _facts(structure: Structure, file: str, s: int) -> dict[str, Any]:
    return {
        "file": file,
        "slice": s,
        "kind": structure.kind,
        "row": round(structure.row, 2),
        "column": round(structure.column, 2),
        "size": round(structure.size, 2),
        "contrast": round(structure.contrast, 4),
    }


def _answers(i: int, tallies: list[Tally]) -> dict[str, Any]:
    """What each method shows of structure i, and how unsure it is there."""
    verdicts = {tally.spread.name: tally.verdicts[i] for tally in tallies}
    return {
        "methods": {
            name: {"shown": round(v.shown, 4), "wrong": v.wrong, "std": v.std, "bound": v.bound}
            for name, v in verdicts.items()
        }
    }


def _places(result: Reconstruction, structures: list[list[Structure]], verdicts: list[Verdict]) -> list[Place]:
    """Pictures of every structure and what is around it, relative to the truth's maximum."""
    assert result.truth is not None
    assert result.std is not None
    peak = float(result.truth.max())
    slices = [s for s, part in enumerate(structures) for _ in part]
    return [
        _place(v, *(images[s].astype(np.float64) / peak for images in (result.truth, result.mean, result.std)))
        for s, v in zip(slices, verdicts, strict=True)
    ]


def _place(verdict: Verdict, *images: NDArray[np.float64]) -> Place:
    """The structure in the middle of a square, or as near to it as the border allows. images: truth, image, std."""
    one = verdict.structure
    row, column = (
        max(0, min(round(c) - AROUND, n - 2 * AROUND - 1))
        for c, n in zip((one.row, one.column), images[0].shape, strict=True)
    )
    side = 2 * AROUND + 1
    truth, image, std = (part[row : row + side, column : column + side].copy() for part in images)
    middle = (one.row - row, one.column - column)
    return Place(one.kind, one.contrast, verdict.shown, verdict.error, middle, one.size, truth, image, std)


def hallucination_figure(path: Path, *, numbers: Numbers, places: Sequence[Place] = ()) -> None:
    """The largest error of each kind by the first method; ROC by structure and by pixel, alarms, what is shown.

    Without places the charts alone.
    """
    methods = numbers["methods"]
    made = figure(16.5 if places else 9.5, 8.2)
    halves = made.add_gridspec(1, 2, width_ratios=[1.0, 1.05] if places else [0.001, 1])
    if places:
        _gallery(made.add_subfigure(halves[0]), places, label(methods[0]))
    charts = made.add_subfigure(halves[1]).subplots(2, 2)
    roc_axes(charts[0, 0], methods, "structures", "ROC of σ̂ by structure")
    roc_axes(charts[0, 1], methods, "pixels", "ROC of σ̂ by pixel")
    _alarms(charts[1, 0], methods)
    _shown(charts[1, 1], methods)
    planted = f"{count(len(numbers['structures']), 'structure')} in {count(numbers['slices'], 'slice')}"
    wrong = f"contrast off by more than {percent(numbers['wrong_structure_share'])}, a pixel by more than "
    wrong += f"{numbers['wrong_pixel_multiple']:g} times the median error"
    made_of = f"R = {numbers['acceleration']:g}, {planted} of {count(numbers['volumes'], 'volume')}"
    caption(made, f"{made_of}. Wrong: {wrong}.\n{key_line(methods)}")
    write(made, path)


def _gallery(part: SubFigure, places: Sequence[Place], name: str) -> None:
    rows = ("truth", "reconstruction", "|error|", "σ̂")
    part.suptitle(f"The largest error of each kind: {name}", fontsize=10.5, x=0.02, ha="left", parse_math=False)
    grid = part.subplots(len(rows), max(1, len(places)), squeeze=False)
    top = max((float(np.quantile(p.std, 0.999)) for p in places), default=1.0)
    worst = max((float(np.abs(p.image - p.truth).max()) for p in places), default=1.0)
    for column, place in enumerate(places):
        white = float(np.quantile(place.truth, 0.998)) or 1.0
        shown = (
            (place.truth, "gray", white),
            (place.image, "gray", white),
            (np.abs(place.image - place.truth), "inferno", worst),
            (place.std, "viridis", top),
        )
        for axes, (image, cmap, vmax) in zip(grid[:, column], shown, strict=True):
            drawn = axes.imshow(image, cmap=cmap, vmin=0, vmax=vmax, interpolation="nearest")
            axes.set_xticks([])
            axes.set_yticks([])
            ring = Circle((place.middle[1], place.middle[0]), 1.5 * place.size + 1, fill=False, color=YELLOW)
            ring.set(linewidth=0.9, alpha=0.85)
            axes.add_patch(ring)
            if column == len(places) - 1 and cmap != "gray":
                bar = part.colorbar(drawn, ax=axes, shrink=0.85, pad=0.04)
                bar.ax.tick_params(labelsize=7)
                bar.ax.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
        grid[0, column].set_title(f"{place.kind}\ncontrast {place.contrast:+.2f}", fontsize=9)
        grid[1, column].set_title(f"shows {percent(place.shown)}", fontsize=8.5, pad=3)
    for axes, name_of in zip(grid[:, 0], rows, strict=True):
        axes.set_ylabel(name_of, fontsize=9.5)


def _alarms(axes: Axes, methods: Sequence[Numbers]) -> None:
    """Flagged structures against the flagged share of the rest of the body."""
    for method, name, colour in zip(methods, short_names(methods), colours(methods), strict=True):
        rest = [row["rest"] for row in method["alarms"]]
        for key, style, text in (("wrong", "o-", name), ("right", "o:", None)):
            values = [row[key] for row in method["alarms"]]
            if values and None not in values:
                axes.plot(rest, values, style, color=colour, linewidth=1.5, markersize=3.5, label=text)
    axes.set_xscale("log")
    axes.set_ylim(0, 1.02)
    axes.set_xticks([0.01, 0.02, 0.05, 0.1, 0.2, 0.5], minor=False)
    axes.minorticks_off()
    percent_axes(axes)
    finish(axes, title="Alarms of σ̂", x="rest of the body flagged", y="structures flagged (dotted: right ones)")


def _shown(axes: Axes, methods: Sequence[Numbers]) -> None:
    """The share of the contrast that is shown, by kind: median and quartiles."""
    kinds = list(methods[0]["kinds"])
    seen = [0.0, 1.0]
    for i, (method, colour) in enumerate(zip(methods, colours(methods), strict=True)):
        shift = (i - (len(methods) - 1) / 2) * 0.8 / len(methods)
        for k, kind in enumerate(kinds):
            quartiles = method["kinds"][kind]["shown"]
            if quartiles is not None:
                axes.plot([k + shift] * 2, [quartiles[0], quartiles[2]], color=colour, linewidth=3, alpha=0.5)
                axes.plot(k + shift, quartiles[1], "o", color=colour, markersize=4.5)
                seen += quartiles
    low, high = min(seen), max(seen)
    axes.set_ylim(low - 0.1, high + 0.35)
    for k, kind in enumerate(kinds):
        right = 0 if kind == "untouched" else 1
        axes.plot([k - 0.45, k + 0.45], [right, right], color="0.2", linewidth=1, linestyle="--")
        found = methods[0]["kinds"][kind]
        axes.text(
            k, high + 0.32, f"{found['wrong']} of {found['n']}\nwrong", ha="center", va="top", fontsize=7.5,
            color=colours(methods)[0],
        )  # fmt: skip
    axes.set_xticks(range(len(kinds)), kinds)
    percent_axes(axes, x=False)
    finish(axes, title="Contrast shown", y="of what there is (dashed: right)", legend=False)


def hallucination_text(numbers: Numbers) -> str:
    """One row per method: areas, alarms, and what a calibrated bound says."""
    heads = ["method", "passes", "s/slice", "PSNR/dB", "wrong", "of", "area by structure", "area by pixel"]
    heads.append(f"wrong flagged at {percent(BUDGET)}")
    rows = []
    for method in numbers["methods"]:
        at = next((row["wrong"] for row in method["alarms"] if row["rest"] == BUDGET), None)
        cells = [label(method), str(method["passes"]), f"{method['seconds_per_slice']:.2f}", f"{method['psnr']:.2f}"]
        cells += [str(method["structures"]["wrong"]), str(method["structures"]["n"])]
        rows.append([*cells, area_text(method["structures"]), area_text(method["pixels"]), percent(at)])
    lines = [aligned([heads, *rows])]
    lines += [_bound_line(method) for method in numbers["methods"] if method["bound"] is not None]
    lines.append(
        f"Flagged: σ̂ above a threshold, here the one that flags {percent(BUDGET)} of the rest of the body; area: the "
        "probability that a wrong one has the larger σ̂, 0.5 is chance."
    )
    return "\n".join(lines)


def _bound_line(method: Numbers) -> str:
    bound = method["bound"]
    places, pixels = bound["structures"], bound["pixels"]
    return (
        f"{method['method']}, bound at {bound['level']:g}: admits {percent(places['hits'])} of the wrong structures "
        f"({percent(places['false_alarms'])} of the right), {percent(pixels['hits'])} of the wrong pixels "
        f"({percent(pixels['false_alarms'])}); holds {percent(bound['held'])} of the structures' pixels, "
        f"{percent(bound['held_of_wrong'])} of those of wrong ones"
    )
