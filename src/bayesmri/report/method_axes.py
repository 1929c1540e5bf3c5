"""How studies of several methods with a standard deviation name and draw them: one colour and one short name each."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from bayesmri.report.figure_style import BLUE, GREEN, GREY, ORANGE, finish

Numbers = Mapping[str, Any]

COLOURS = {"posterior": BLUE, "dropout": ORANGE, "variance": GREEN, "ensemble": "#8a5aa8", "error": "#b0433f"}
OTHERS = ("#5a9aa8", "#c9a227", "0.35")  # where a kind comes again
KIND_NAMES = {
    "posterior": "Bayesian",
    "dropout": "MC dropout",
    "variance": "predicted σ",
    "ensemble": "ensemble",
    "error": "typical error",
}


def colours(methods: Sequence[Numbers]) -> list[str]:
    """One for each: the same kind has the same in all figures, its second method another."""
    kinds = [str(method["kind"]) for method in methods]
    again = [kind in kinds[:i] for i, kind in enumerate(kinds)]
    return [OTHERS[sum(again[:i]) % len(OTHERS)] if again[i] else COLOURS[kind] for i, kind in enumerate(kinds)]


def label(method: Numbers) -> str:
    """The method's name, and what kind of σ̂ it has."""
    return f"{method['method']} ({KIND_NAMES[method['kind']]})"


def short_names(methods: Sequence[Numbers]) -> list[str]:
    """For legends: the kind of σ̂, where no two methods share it."""
    kinds = [KIND_NAMES[method["kind"]] for method in methods]
    return kinds if len(set(kinds)) == len(kinds) else [str(method["method"]) for method in methods]


def key_line(methods: Sequence[Numbers]) -> str:
    """What the short names stand for."""
    return ", ".join(f"{KIND_NAMES[method['kind']]}: {method['method']}" for method in methods)


def area_text(found: Numbers) -> str:
    """ "0.71 (0.66 to 0.76)"."""
    if found["area"] is None:
        return "none"
    text = f"{found['area']:.2f}"
    return text if found["low"] is None else f"{text} ({found['low']:.2f} to {found['high']:.2f})"


def percent(value: float | None) -> str:
    return "none" if value is None else f"{100 * value:.0f} %"


def percent_axes(axes: Axes, *, x: bool = True, y: bool = True) -> None:
    for wanted, axis in ((x, axes.xaxis), (y, axes.yaxis)):
        if wanted:
            axis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))


def roc_axes(axes: Axes, methods: Sequence[Numbers], key: str, title: str) -> None:
    """Hits against false alarms; the area with its interval in the legend."""
    f = np.arange(101) / 100
    for method, name, colour in zip(methods, short_names(methods), colours(methods), strict=True):
        found = method[key]
        if found["hits"] is not None:
            axes.plot(f, found["hits"], color=colour, linewidth=1.6, label=f"{name}: {area_text(found)}")
    axes.plot([0, 1], [0, 1], "--", color=GREY, linewidth=1, label="chance: 0.50")
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    percent_axes(axes)
    finish(axes, title=title, x="right ones flagged", y="wrong ones flagged", legend=False)
    legend = axes.legend(fontsize=7.5, loc="lower right", title="area (95 % interval)", title_fontsize=7.5)
    legend.get_frame().set(alpha=0.75, linewidth=0)
