"""The covariances that were learned: of the model alone, no data."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import TwoSlopeNorm
from matplotlib.ticker import MaxNLocator

from bayesmri.analysis.covariance import layer_covariances
from bayesmri.evaluation.cohort import load_stochastic
from bayesmri.evaluation.request import Request
from bayesmri.recon.files import Progress
from bayesmri.report.figure_style import BLUE, ORANGE, aligned, caption, figure, finish, write
from bayesmri.studies.base import Outcome

Numbers = Mapping[str, Any]
Row = Mapping[str, Any]
COLOURS = (BLUE, ORANGE)


def covariance_study(request: Request, progress: Progress | None) -> Outcome:
    """The mean covariance of the kernels of every layer, and its magnitude by depth."""
    loaded = load_stochastic(request.models[0])
    rows = [layer.row() for layer in layer_covariances(loaded.model.distribution().blocks)]
    numbers = {**loaded.facts(), "rows": rows}
    return Outcome(numbers, partial(covariance_figure, numbers=numbers), covariance_text(numbers), (loaded.path,))


def covariance_figure(path: Path, *, numbers: Numbers) -> None:
    """Mean covariances of the last kernel of every residual block (K2), macroblocks below each other; std by depth.

    Positive and negative values have scales of their own, shared by the macroblocks for each residual block.
    """
    last = max(row["kernel"] for row in numbers["rows"])
    shown = [row for row in numbers["rows"] if row["kernel"] == last]
    blocks = sorted({row["macroblock"] or 1 for row in shown})
    places = sorted({row["residual"] or 1 for row in shown})
    columns, lines = len(places), len(blocks)
    width = max(7.0, 2.5 * columns)
    made = figure(width, 2.6 * lines + 3.2)
    halves = made.add_gridspec(2, 1, height_ratios=[2.6 * lines, 3.0])
    upper, lower = made.add_subfigure(halves[0]), made.add_subfigure(halves[1])
    grid = upper.subplots(lines, columns, squeeze=False)
    norms = {place: _norm([row for row in shown if (row["residual"] or 1) == place]) for place in places}
    for row in shown:
        axes = grid[blocks.index(row["macroblock"] or 1)][places.index(row["residual"] or 1)]
        _matrix(axes, row, norms[row["residual"] or 1])
    _depth(lower.subplots(), numbers["rows"])
    beta = "" if numbers["beta"] is None else f", β = {numbers['beta']:g}"
    caption(made, f"{numbers['model']}, H̄ = {numbers['entropy']:.2f}{beta}: mean covariance of {last}")
    write(made, path)


def _norm(rows: Sequence[Row]) -> TwoSlopeNorm:
    values = np.concatenate([np.ravel(row["matrix"]) for row in rows])
    high = float(values.max())
    return TwoSlopeNorm(0, vmin=min(float(values.min()), -1e-6 * high), vmax=high)


def _matrix(axes: Axes, row: Row, norm: TwoSlopeNorm) -> None:
    place = "" if row["macroblock"] is None else f"MB{row['macroblock']} R{row['residual']}  "
    shown = axes.imshow(row["matrix"], cmap="RdBu_r", norm=norm, interpolation="nearest")
    axes.set_title(f"{place}std {row['std']:.3g}", fontsize=9.5, loc="left")
    axes.set_xticks([])
    axes.set_yticks([])
    assert norm.vmin is not None
    assert norm.vmax is not None
    ticks = [norm.vmin, 0.0, norm.vmax] if norm.vmin < -1e-5 * norm.vmax else [0.0, norm.vmax]
    bar = axes.figure.colorbar(shown, ax=axes, shrink=0.8, pad=0.03, ticks=ticks, format=lambda v, _: f"{v:.1e}")
    bar.ax.tick_params(labelsize=7)


def _depth(axes: Axes, rows: Sequence[Row]) -> None:
    """The std of a weight over the depth of its residual block, macroblocks one after the other."""
    depths = list(dict.fromkeys((row["macroblock"] or 1, row["residual"] or 1) for row in rows))
    for kernel, colour in zip(sorted({row["kernel"] for row in rows}), COLOURS * len(rows), strict=False):
        part = [row for row in rows if row["kernel"] == kernel]
        x = [depths.index((row["macroblock"] or 1, row["residual"] or 1)) for row in part]
        axes.plot(x, [row["std"] for row in part], "o-", color=colour, markersize=4.5, label=kernel)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.set_xticks(range(len(depths)), [f"MB{m} R{r}" for m, r in depths], rotation=90 if len(depths) > 10 else 0)
    finish(axes, title="Magnitude by depth", x="residual block", y="std of a weight")


def covariance_text(numbers: Numbers) -> str:
    """One line per layer."""
    rows = [["layer", "kernels", "std", "least variance", "largest", "mean |covariance|", "mean |correlation|"]]
    for row in numbers["rows"]:
        sizes = [f"{row[key]:.3g}" for key in ("std", "variance_low", "variance_high", "covariance")]
        rows.append([row["name"], str(row["kernels"]), *sizes, f"{row['correlation']:.3f}"])
    return aligned(rows)
