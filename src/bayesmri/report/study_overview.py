"""The figure and the table of the study `overview`: the paper's main figures, with two enlarged regions each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import patheffects
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from bayesmri.report.figure_style import ORANGE, aligned, count, write
from bayesmri.report.panel import window
from bayesmri.report.study_samples import Square

Numbers = Mapping[str, Any]
Image = NDArray[np.float64]

COLUMNS = ("Ground truth", "Zero filling", "Deterministic", "Mean", "Standard deviation")
COLOURS = (ORANGE, "#3fa7d6")
TILE, GAP, ROW_GAP = 2.5, 0.04, 0.16  # inches: an image's width, space between images, between settings
LEFT, RIGHT, TOP, BOTTOM = 0.34, 0.72, 0.62, 0.06  # inches: row names, colour bars, titles, border
QUANTILE = 0.998  # of σ̂ and of errors, shown in the top colour


@dataclass(frozen=True, eq=False)
class OverviewTiles:
    """One setting's images (h, w) in units of the truth's maximum; mean, std: None of a model without a posterior."""

    truth: Image
    zero_filled: Image
    deterministic: Image
    mean: Image | None
    std: Image | None

    @property
    def best(self) -> Image:
        """The image that the setting stands for."""
        return self.deterministic if self.mean is None else self.mean

    def images(self) -> tuple[Image | None, ...]:
        return self.truth, self.zero_filled, self.deterministic, self.mean, self.std


@dataclass(frozen=True)
class _Canvas:
    """Places in inches from the upper left corner; constrained layouts leave too much space between images."""

    figure: Figure
    width: float
    height: float

    def axes(self, x: float, y: float, w: float, h: float) -> Axes:
        place = (x / self.width, 1 - (y + h) / self.height, w / self.width, h / self.height)
        return self.figure.add_axes(place)

    def text(self, x: float, y: float, words: str, **look: Any) -> None:
        self.figure.text(x / self.width, 1 - y / self.height, words, parse_math=False, **look)


@dataclass(frozen=True)
class _Scales:
    """The top of the colours of σ̂ and of errors, the same in all settings; tall: an image's height in inches."""

    std: float
    error: float
    tall: float


def overview_figure(
    path: Path,
    *,
    tiles: Sequence[OverviewTiles],
    regions: Sequence[Square],
    numbers: Numbers,
    pixel_aspect: float = 1.0,
    errors: bool = False,
) -> None:
    """A band per setting: images with PSNR and SSIM in the corner, the marked regions enlarged, error maps if asked."""
    h, w = tiles[0].truth.shape
    scales = _scales(tiles, TILE * h * pixel_aspect / w)
    zoom = (TILE - GAP) / 2
    band = scales.tall + GAP + zoom * pixel_aspect + (GAP + scales.tall if errors else 0)
    width = LEFT + 5 * TILE + 4 * GAP + RIGHT
    height = TOP + len(tiles) * band + (len(tiles) - 1) * ROW_GAP + BOTTOM
    canvas = _Canvas(Figure(figsize=(width, height)), width, height)
    _heads(canvas, numbers)
    for i, (tile, row) in enumerate(zip(tiles, numbers["rows"], strict=True)):
        y = TOP + i * (band + ROW_GAP)
        named = f"{row['setting']}   ({row['model']})"
        canvas.text(0.1, y + band / 2, named, rotation=90, va="center", fontsize=10, weight="bold")
        _band(canvas, y, tile, row, regions, scales=scales, aspect=pixel_aspect)
        if errors:
            below = y + scales.tall + 2 * GAP + zoom * pixel_aspect
            _errors(canvas, below, tile, scales=scales, aspect=pixel_aspect)
    write(canvas.figure, path)


def _scales(tiles: Sequence[OverviewTiles], tall: float) -> _Scales:
    std = [float(np.quantile(tile.std, QUANTILE)) for tile in tiles if tile.std is not None]
    error = [float(np.quantile(np.abs(tile.deterministic - tile.truth), QUANTILE)) for tile in tiles]
    return _Scales(max(std, default=1.0) or 1.0, max(error) or 1.0, tall)


def _heads(canvas: _Canvas, numbers: Numbers) -> None:
    drawn = count(numbers["samples"], "sample")
    canvas.text(
        LEFT,
        0.18,
        f"{numbers['file']}, middle slice, {drawn}; in units of the truth's maximum",
        fontsize=9,
        color="0.3",
        va="center",
    )
    for c, title in enumerate(COLUMNS):
        canvas.text(LEFT + c * (TILE + GAP), 0.46, title, fontsize=11.5, weight="bold", va="center")


def _band(
    canvas: _Canvas,
    y: float,
    tile: OverviewTiles,
    row: Numbers,
    regions: Sequence[Square],
    *,
    scales: _Scales,
    aspect: float,
) -> None:
    scores = (None, row["zero_filled"], row["deterministic"], row["mean"], None)
    white = window(tile.truth)
    small = (TILE - GAP) / 2
    for c, (image, score) in enumerate(zip(tile.images(), scores, strict=True)):
        x = LEFT + c * (TILE + GAP)
        spread = c == len(COLUMNS) - 1
        cmap, top = ("viridis", scales.std) if spread else ("gray", white)
        axes = canvas.axes(x, y, TILE, scales.tall)
        if image is None:
            _empty(axes)
            continue
        shown = axes.imshow(image, cmap=cmap, vmin=0, vmax=top, aspect="auto", interpolation="antialiased")
        axes.set_axis_off()
        _mark(axes, regions)
        if score is not None:
            _corner(axes, f"PSNR {score['psnr']:.2f} dB\nSSIM {score['ssim']:.3f}")
        for k, region in enumerate(regions):
            place = (x + k * (small + GAP), y + scales.tall + GAP, small, small * aspect)
            _zoom(canvas.axes(*place), region, image, cmap=cmap, top=top, colour=COLOURS[k % len(COLOURS)])
        if spread:
            _corner(axes, f"mean {100 * row['std_foreground']:.2f} %")
            _bar(canvas, y, scales.tall, shown, "σ̂, %")


def _errors(canvas: _Canvas, y: float, tile: OverviewTiles, *, scales: _Scales, aspect: float) -> None:
    """|X − Y| under zero filling, deterministic and mean."""
    for c, image in enumerate(tile.images()[:4]):
        if c == 0 or image is None:
            continue
        axes = canvas.axes(LEFT + c * (TILE + GAP), y, TILE, scales.tall)
        error = np.abs(image - tile.truth)
        shown = axes.imshow(error, cmap="inferno", vmin=0, vmax=scales.error, aspect="auto")
        axes.set_axis_off()
        _corner(axes, "|error|")
        place = c
    right = LEFT + (place + 1) * (TILE + GAP) + 0.02
    _bar(canvas, y, scales.tall, shown, "|error|, %", x=right)


def _zoom(axes: Axes, region: Square, image: Image, *, cmap: str, top: float, colour: str) -> None:
    part = np.asarray(region.of(image), dtype=np.float64)
    axes.imshow(part, cmap=cmap, vmin=0, vmax=top, aspect="auto", interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set(color=colour, linewidth=2)


def _mark(axes: Axes, regions: Sequence[Square]) -> None:
    for k, region in enumerate(regions):
        corner = (region.column - 0.5, region.row - 0.5)
        colour = COLOURS[k % len(COLOURS)]
        axes.add_patch(Rectangle(corner, region.size, region.size, fill=False, color=colour, linewidth=1.3))


def _corner(axes: Axes, words: str) -> None:
    """White letters with a dark rim: readable on any image."""
    rim = [patheffects.withStroke(linewidth=2, foreground="black")]
    axes.text(0.02, 0.98, words, transform=axes.transAxes, color="white", fontsize=8.5, va="top", path_effects=rim)


def _empty(axes: Axes) -> None:
    axes.set_xticks([])
    axes.set_yticks([])
    axes.text(0.5, 0.5, "no posterior", transform=axes.transAxes, color="0.5", fontsize=9, ha="center", va="center")
    for spine in axes.spines.values():
        spine.set(color="0.85")


def _bar(canvas: _Canvas, y: float, tall: float, shown: Any, label: str, *, x: float | None = None) -> None:
    at = LEFT + 5 * TILE + 4 * GAP + 0.05 if x is None else x
    axes = canvas.axes(at, y, 0.09, tall)
    bar = canvas.figure.colorbar(shown, cax=axes, format=lambda v, _: f"{100 * v:g}")
    bar.locator = MaxNLocator(5)
    bar.update_ticks()
    axes.tick_params(labelsize=8, length=2, pad=2)
    axes.set_ylabel(f"{label} of the maximum", fontsize=8, labelpad=3)
    bar.outline.set_linewidth(0.5)


def overview_text(numbers: Numbers) -> str:
    """One line per setting."""
    rows = [["setting", "model", "zero filling", "deterministic", "mean", "SSIM", "std %", "error %"]]
    for row in numbers["rows"]:
        best = row["mean"] or row["deterministic"]
        spread = "none" if row["std_foreground"] is None else f"{100 * row['std_foreground']:.2f}"
        mean = "none" if row["mean"] is None else f"{row['mean']['psnr']:.2f}"
        psnr = [f"{row[key]['psnr']:.2f}" for key in ("zero_filled", "deterministic")]
        error = f"{100 * row['error_foreground']:.2f}"
        rows.append([row["setting"], row["model"], *psnr, mean, f"{best['ssim']:.3f}", spread, error])
    return f"{numbers['file']}, middle slice: PSNR in dB; std and error in the foreground\n{aligned(rows)}"
