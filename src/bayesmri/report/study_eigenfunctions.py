"""The figure and the table of the study `eigenfunctions`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from bayesmri.report.figure_style import BLUE, GREEN, GREY, ORANGE, aligned, caption, figure, finish, write
from bayesmri.report.panel import window

Numbers = Mapping[str, Any]
Image = NDArray[np.float64]
COLOURS = (BLUE, ORANGE, GREEN, GREY, "#8a4fa3", "#b03a5b")
TILE = 3.3  # inches: the width of an image


@dataclass(frozen=True, eq=False)
class EigenTiles:
    """Root-sum-of-squares images (h, w) of the start and of the eigenfunction found from it, in one unit."""

    start: Image
    end: Image


def eigenfunctions_figure(
    path: Path, *, tiles: Sequence[EigenTiles], numbers: Numbers, pixel_aspect: float = 1.0
) -> None:
    """A row per start: start | eigenfunction | difference; beside them the residuals and Λ over the iterations."""
    h, w = tiles[0].start.shape
    tall = TILE * h * pixel_aspect / w + 0.45
    made = figure(3 * TILE + 0.6 + 4.2, max(len(tiles) * tall + 0.4, 5.2))
    halves = made.add_gridspec(1, 2, width_ratios=[3 * TILE + 0.6, 4.2])
    left, right = made.add_subfigure(halves[0]), made.add_subfigure(halves[1])
    several = len(numbers["models"]) > 1
    names = [f"{row['model']}, {row['start']}" if several else str(row["start"]) for row in numbers["rows"]]
    grid = left.subplots(len(tiles), 3, squeeze=False)
    for line, tile, row, name in zip(grid, tiles, numbers["rows"], names, strict=True):
        _row(line, tile, row, name=name, aspect=pixel_aspect)
    upper, lower = right.subplots(2, 1)
    for row, name, colour in zip(numbers["rows"], names, _cycle(len(names)), strict=True):
        upper.semilogy(row["residuals"], color=colour, linewidth=1.6, label=name)
        lower.plot(row["eigenvalues"], color=colour, linewidth=1.6, label=name)
    for axis in (upper.yaxis.set_major_formatter, upper.yaxis.set_minor_formatter):
        axis(lambda v, _: f"{v:g}")
    finish(upper, title="Residual ‖∇R(v) − Λ(v)v‖", x="iteration", y="relative to ‖∇R‖ at the start")
    finish(lower, title="Rayleigh quotient Λ(v)", x="iteration", y="Λ", legend=False)
    lower.ticklabel_format(axis="y", style="sci", scilimits=(-2, 3), useMathText=True)
    model = "" if several else f"{numbers['rows'][0]['model']}, "
    caption(made, f"{model}{numbers['file']}, R = {numbers['acceleration']:g}; root-sum-of-squares of v, ‖v‖ kept")
    write(made, path)


def _row(line: Sequence[Axes], tile: EigenTiles, row: Numbers, *, name: str, aspect: float) -> None:
    white = window(tile.start)
    change = tile.end - tile.start
    size = float(np.quantile(np.abs(change), 0.995)) or 1.0
    shown = (
        (f"Start: {name}", f"Λ = {row['eigenvalue_start']:.3g}", tile.start, "gray", 0.0, white),
        ("Eigenfunction", f"Λ = {row['eigenvalue']:.3g}", tile.end, "gray", 0.0, white),
        ("Eigenfunction − start", f"±{100 * size / white:.0f} % of white", change, "RdBu_r", -size, size),
    )
    for axes, (title, small, image, cmap, low, high) in zip(line, shown, strict=True):
        axes.imshow(image, cmap=cmap, vmin=low, vmax=high, aspect=aspect, interpolation="nearest")
        axes.set_title(title, fontsize=10, loc="left", weight="bold", parse_math=False)
        axes.set_title(small, fontsize=8.5, loc="right", color="0.3")
        axes.set_axis_off()


def _cycle(n: int) -> list[str]:
    return [COLOURS[i % len(COLOURS)] for i in range(n)]


def eigenfunctions_text(numbers: Numbers) -> str:
    """One line per start: Λ, the residual and the energy there and where the search ended."""
    rows = [["model", "start", "iterations", "Λ at start", "Λ", "residual at start", "residual", "R at start", "R"]]
    for row in numbers["rows"]:
        pairs = [f"{row[key]:.4g}" for name in ("eigenvalue", "residual", "energy") for key in (f"{name}_start", name)]
        rows.append([row["model"], row["start"], str(row["iterations"]), *pairs])
    return f"{numbers['file']}, middle slice, R = {numbers['acceleration']:g}\n{aligned(rows)}"
