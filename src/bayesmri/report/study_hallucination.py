"""The figure and the table of the study `hallucination`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import SubFigure
from matplotlib.patches import Circle
from matplotlib.ticker import PercentFormatter
from numpy.typing import NDArray

from bayesmri.report.figure_style import aligned, caption, count, figure, finish, write
from bayesmri.report.study_methods import (
    area_text,
    colours,
    key_line,
    label,
    percent,
    percent_axes,
    roc_axes,
    short_names,
)

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
