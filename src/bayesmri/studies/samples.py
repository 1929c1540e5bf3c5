"""Single realisations beside their mean and standard deviation, where they differ most."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from bayesmri.analysis.quality import foreground
from bayesmri.analysis.regions import Region, most_different, most_spread, side
from bayesmri.errors import DataError
from bayesmri.evaluation.cohort import Volumes, counted, first_volume, load_stochastic, sample_volume, slice_facts
from bayesmri.evaluation.request import Request
from bayesmri.recon.crop import common_crop
from bayesmri.recon.files import Progress
from bayesmri.recon.outputs import pixel_aspect
from bayesmri.recon.reconstruct import Reconstruction
from bayesmri.report.figure_style import BLUE, GREEN, ORANGE, aligned, caption, count, figure, write
from bayesmri.report.panel import window
from bayesmri.studies.base import Outcome

Numbers = Mapping[str, Any]
Image = NDArray[np.float64]
COLOURS = (ORANGE, "#3fa7d6", "#7bc950", BLUE, GREEN)


@dataclass(frozen=True, eq=False)
class SampleTiles:
    """truth, mean, std: (h, w). samples: (N, h, w). regions: to be enlarged; pairs: the two samples shown of each."""

    truth: Image
    mean: Image
    std: Image
    samples: Image
    regions: tuple[Region, ...]
    pairs: tuple[tuple[int, int], ...]


def samples_study(request: Request, progress: Progress | None) -> Outcome:
    """The middle slice of one volume; regions are found by σ̂ alone, without the truth."""
    loaded = load_stochastic(request.models[0])
    volumes = Volumes(request)
    with counted(progress, request, one_volume=True) as advance:
        path, full = first_volume(volumes)
        result = sample_volume(full, path, request.accelerations[0], loaded, request, keep=True)
        advance()
    tiles = _tiles(result)
    regions = [_facts(tiles, region) for region in tiles.regions]
    inside = foreground(tiles.truth)
    numbers = {
        **slice_facts(loaded, path, volumes),
        "unit": "the truth's maximum",
        "std_foreground": float(tiles.std[inside].mean()),
        "error_foreground": float(np.abs(tiles.mean - tiles.truth)[inside].mean()),
        "regions": regions,
    }
    draw = partial(samples_figure, tiles=tiles, numbers=numbers, pixel_aspect=pixel_aspect(result.header))
    return Outcome(numbers, draw, samples_text(numbers), (path, loaded.path))


def _tiles(result: Reconstruction) -> SampleTiles:
    """In units of the truth's maximum."""
    if result.truth is None or result.std is None or result.samples is None:
        raise DataError("got a reconstruction without truth or samples, expected both, to show them")
    truth = common_crop(result.truth, result.mean)[0][0]
    mean, std = (common_crop(X, result.truth)[0][0] for X in (result.mean, result.std))
    samples = common_crop(result.samples[0], result.truth)[0]
    peak = float(truth.max())
    h, w = std.shape
    regions = most_spread(std, size=side((h, w)))
    pairs = [most_different(np.asarray(region.of(samples), dtype=np.float64)) for region in regions]
    Y, X, sigma, drawn = (np.asarray(V, dtype=np.float64) / peak for V in (truth, mean, std, samples))
    return SampleTiles(Y, X, sigma, drawn, regions=tuple(regions), pairs=tuple(pairs))


def _facts(tiles: SampleTiles, region: Region) -> dict[str, Any]:
    """Where it is, how much the samples spread there, and how wrong their mean is."""
    i, j = tiles.pairs[tiles.regions.index(region)]
    part = np.asarray(region.of(tiles.samples), dtype=np.float64)
    return {
        "row": region.row,
        "column": region.column,
        "size": region.size,
        "std": float(np.mean(np.asarray(region.of(tiles.std), dtype=np.float64))),
        "error": float(np.mean(np.abs(np.asarray(region.of(tiles.mean - tiles.truth), dtype=np.float64)))),
        "samples_shown": [i, j],
        "rms_difference": float(np.sqrt(np.mean(np.square(part[i] - part[j])))),
    }


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
    region: Region,
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


def _mark(axes: Axes, regions: Sequence[Region]) -> None:
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
