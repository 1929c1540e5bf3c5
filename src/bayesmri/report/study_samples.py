"""The figure and the text of the study `samples`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from bayesmri.report.figure_style import BLUE, GREEN, ORANGE, aligned, caption, count, figure, write
from bayesmri.report.panel import window

Numbers = Mapping[str, Any]
Image = NDArray[np.float64]
COLOURS = (ORANGE, "#3fa7d6", "#7bc950", BLUE, GREEN)


class Square(Protocol):
    """A square of pixels."""

    @property
    def row(self) -> int: ...
    @property
    def column(self) -> int: ...
    @property
    def size(self) -> int: ...
    def of(self, image: NDArray[np.generic]) -> NDArray[np.generic]: ...


@dataclass(frozen=True, eq=False)
class SampleTiles:
    """truth, mean, std: (h, w). samples: (N, h, w). regions: to be enlarged; pairs: the two samples shown of each."""

    truth: Image
    mean: Image
    std: Image
    samples: Image
    regions: tuple[Any, ...]
    pairs: tuple[tuple[int, int], ...]


def samples_figure(path: Path, *, tiles: SampleTiles, numbers: Numbers, pixel_aspect: float = 1.0) -> None:
    """Mean and σ̂ with the regions marked; then a row per region: truth, two samples, their difference, mean, σ̂."""
    n = len(tiles.regions)
    h, w = tiles.truth.shape
    tall = 4.0 * h * pixel_aspect / w
    small = 15 / 6 * pixel_aspect * 0.95
    made = figure(15, tall + n * small + 0.6)
    halves = made.add_gridspec(2, 1, height_ratios=[tall + 0.3, n * small])
    upper, lower = made.add_subfigure(halves[0]), made.add_subfigure(halves[1])
    white, top = window(tiles.truth), float(np.quantile(tiles.std, 0.999)) or 1.0
    for axes, title, image, cmap, vmax in zip(
        upper.subplots(1, 3),
        ("Truth", "Mean of samples", "Standard deviation"),
        (tiles.truth, tiles.mean, tiles.std),
        ("gray", "gray", "viridis"),
        (white, white, top),
        strict=True,
    ):
        shown = axes.imshow(image, cmap=cmap, vmin=0, vmax=vmax, aspect=pixel_aspect)
        _bare(axes, title)
        _mark(axes, tiles.regions)
    bar = upper.colorbar(shown, ax=axes, shrink=0.8, pad=0.02)
    bar.ax.tick_params(labelsize=8)
    rows = lower.subplots(n, 6, squeeze=False)
    for row, region, pair, colour in zip(rows, tiles.regions, tiles.pairs, _cycle(n), strict=True):
        _zooms(row, tiles, region, pair, colour=colour, limits=(white, top), aspect=pixel_aspect)
    caption(
        made,
        f"{numbers['model']}, {numbers['file']}, R = {numbers['acceleration']:g}, "
        f"{count(numbers['samples'], 'sample')}; in units of the truth's maximum",
    )
    write(made, path)


def _zooms(
    row: Sequence[Axes],
    tiles: SampleTiles,
    region: Square,
    pair: tuple[int, int],
    *,
    colour: str,
    limits: tuple[float, float],
    aspect: float,
) -> None:
    i, j = pair
    a, b = tiles.samples[i], tiles.samples[j]
    white, top = limits
    size = float(np.abs(np.asarray(region.of(a - b), dtype=np.float64)).max()) or 1.0
    shown = (
        ("Truth", tiles.truth, "gray", 0.0, white),
        (f"Sample {i}", a, "gray", 0.0, white),
        (f"Sample {j}", b, "gray", 0.0, white),
        (f"Difference, ±{size:.2g}", a - b, "RdBu_r", -size, size),
        ("Mean", tiles.mean, "gray", 0.0, white),
        ("Standard deviation", tiles.std, "viridis", 0.0, top),
    )
    for axes, (title, image, cmap, low, high) in zip(row, shown, strict=True):
        part = np.asarray(region.of(image), dtype=np.float64)
        axes.imshow(part, cmap=cmap, vmin=low, vmax=high, aspect=aspect, interpolation="nearest")
        _bare(axes, title)
        for spine in axes.spines.values():
            spine.set(visible=True, color=colour, linewidth=2)


def _mark(axes: Axes, regions: Sequence[Square]) -> None:
    for region, colour in zip(regions, _cycle(len(regions)), strict=True):
        corner = (region.column - 0.5, region.row - 0.5)
        axes.add_patch(Rectangle(corner, region.size, region.size, fill=False, color=colour, linewidth=1.8))


def _bare(axes: Axes, title: str) -> None:
    axes.set_title(title, fontsize=10, loc="left")
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)


def _cycle(n: int) -> list[str]:
    return [COLOURS[i % len(COLOURS)] for i in range(n)]


def samples_text(numbers: Numbers) -> str:
    """One line per region: where, the spread of the samples and the error of their mean, in % of the maximum."""
    rows = [["region", "row", "column", "pixels", "std %", "error %", "samples", "differ by %"]]
    for k, r in enumerate(numbers["regions"], start=1):
        spread = [f"{100 * r[key]:.2f}" for key in ("std", "error")]
        shown = "{} and {}".format(*r["samples_shown"])
        place = [str(r["row"]), str(r["column"]), f"{r['size']}x{r['size']}"]
        rows.append([str(k), *place, *spread, shown, f"{100 * r['rms_difference']:.2f}"])
    means = [f"{100 * numbers[key]:.2f}" for key in ("std_foreground", "error_foreground")]
    rows.append(["foreground", "", "", "", *means, "", ""])
    return f"{numbers['file']}, middle slice\n{aligned(rows)}"
