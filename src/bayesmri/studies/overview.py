"""The paper's main figures: one slice by every model, single- and multi-coil, at R = 4 and 8."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import patheffects
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from bayesmri.analysis.quality import foreground
from bayesmri.analysis.regions import Region, most_telling, side
from bayesmri.errors import ConfigError, DataError, ModelError
from bayesmri.evaluation.cohort import Loaded, Volumes, first_volume, load, rules, sample_volume
from bayesmri.evaluation.request import COILS, Request, Track
from bayesmri.evaluation.table import fully_sampled, middle_slices
from bayesmri.kspace import KSpace
from bayesmri.metrics import Metrics
from bayesmri.physics.pattern import cell_counts
from bayesmri.recon.crop import common_crop
from bayesmri.recon.files import Progress
from bayesmri.recon.outputs import pixel_aspect
from bayesmri.recon.reconstruct import Reconstruction
from bayesmri.report.figure_style import ORANGE, aligned, count, write
from bayesmri.report.panel import window
from bayesmri.studies.base import Outcome
from bayesmri.zoo import choose

ACCELERATIONS = (4.0, 8.0)
TRACKS: tuple[Track, ...] = ("single", "multi")
SAME_R = 0.01  # a model trained for R = 4 is none for R = 8, though `auto` would take it for want of a better one


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


@dataclass(frozen=True, eq=False)
class Setting:
    """One row of the figure."""

    track: Track
    R: float
    loaded: Loaded

    @property
    def name(self) -> str:
        return f"{self.track}-coil, R = {self.R:g}"


def overview_study(request: Request, progress: Progress | None) -> Outcome:
    """The middle slice of one volume in every setting that there is a model for; the enlarged regions are the same."""
    settings, left_out = _settings(request)
    volumes = Volumes(request)
    path, _ = first_volume(volumes)
    scans: dict[Track, KSpace] = {}
    results: list[Reconstruction] = []
    with progress(len(settings)) if progress else nullcontext(lambda: None) as advance:
        for setting in settings:
            full = scans.setdefault(setting.track, _scan(path, setting.track, request))
            results.append(sample_volume(full, path, setting.R, setting.loaded, request))
            advance()
    tiles = [_tiles(result) for result in results]
    regions = _regions(tiles)
    numbers = {
        "file": path.name,
        "slice": "middle",
        "samples": request.samples,
        "unit": "the truth's maximum",
        "regions": [vars(region) for region in regions],
        "left_out": left_out,
        "skipped": [*volumes.skipped, *left_out],
        "rows": [
            _row(setting, result, tile, regions) for setting, result, tile in zip(settings, results, tiles, strict=True)
        ],
    }
    aspect = pixel_aspect(results[0].header)
    draw = partial(
        overview_figure, tiles=tiles, regions=regions, numbers=numbers, pixel_aspect=aspect, errors=request.errors
    )
    models = dict.fromkeys(setting.loaded.path for setting in settings)
    return Outcome(numbers, draw, overview_text(numbers), (path, *models))


def _settings(request: Request) -> tuple[list[Setting], list[str]]:
    """The models given, each for its own coils and R; else the shipped ones, and what none of them was trained for."""
    found: list[Setting] = []
    missing: list[str] = []
    for text in request.models:
        loaded = load(text)
        own = loaded.model.acceleration or ACCELERATIONS[0]
        found += [Setting(track, R, loaded) for track in _tracks(loaded) for R in request.accelerations or (own,)]
    if not request.models:
        for track, R in product(TRACKS, request.accelerations or ACCELERATIONS):
            try:
                found.append(_shipped(track, R, request))
            except ModelError as error:
                missing.append(f"{track}-coil, R = {R:g}: {error}")
    keys = [(setting.loaded.path, setting.track, setting.R) for setting in found]
    if len(set(keys)) < len(keys):
        raise ConfigError("got the same model twice; give each once")
    if not found:
        raise ModelError("; ".join(missing))
    return found, missing


def _tracks(loaded: Loaded) -> tuple[Track, ...]:
    """What the model takes: one coil, several as its channels, or both."""
    coils = loaded.model.coils
    return TRACKS if coils.mode == "sensitivities" else TRACKS[:1] if coils.Q == 1 else TRACKS[1:]


def _shipped(track: Track, R: float, request: Request) -> Setting:
    model = choose(coils=1 if track == "single" else COILS, acceleration=R, samples=request.samples or 0)
    if model.acceleration is None or abs(model.acceleration / R - 1) > SAME_R:
        raise ModelError(f"no shipped model was trained for it; the nearest, {model.name}, can be given by --models")
    return Setting(track, R, load(str(model.path)))


def _scan(path: Path, track: Track, request: Request) -> KSpace:
    return middle_slices(fully_sampled(path, rules(request).track(track)), request.slices)


def _tiles(result: Reconstruction) -> OverviewTiles:
    """In units of the truth's maximum, cut to what truth and images share."""
    if result.truth is None:
        raise DataError("got a reconstruction without truth, expected one, to show both")
    Y = common_crop(result.truth, result.mean)[0][0].astype(np.float64)
    peak = float(Y.max())

    def shown(X: NDArray[np.float32]) -> NDArray[np.float64]:
        assert result.truth is not None
        cut: NDArray[np.float64] = common_crop(X, result.truth)[0][0].astype(np.float64)
        return cut / peak

    drawn = result.std is not None
    at_mean = result.mean if result.deterministic is None else result.deterministic
    return OverviewTiles(
        truth=Y / peak,
        zero_filled=shown(result.zero_filled),
        deterministic=shown(at_mean),
        mean=shown(result.mean) if drawn else None,
        std=None if result.std is None else shown(result.std),
    )


def _regions(tiles: list[OverviewTiles]) -> list[Region]:
    """By σ̂ and detail of all settings together, so that the rows can be compared; never by the truth."""
    shapes = {tile.truth.shape for tile in tiles}
    if len(shapes) > 1:
        raise DataError(f"got images of different sizes {sorted(shapes)} of one volume, expected one size")
    h, w = shapes.pop()
    spreads = [tile.std for tile in tiles if tile.std is not None]
    std = np.sqrt(np.mean([np.square(s) for s in spreads], axis=0)) if spreads else None
    return most_telling(np.mean([tile.best for tile in tiles], axis=0), std, size=side((h, w)))


def _row(setting: Setting, result: Reconstruction, tiles: OverviewTiles, regions: list[Region]) -> dict[str, Any]:
    """JSON values of one setting; standard deviations and errors are means, in the foreground and in the regions."""
    inside = foreground(tiles.truth)
    error = np.abs(tiles.best - tiles.truth)
    return {
        "setting": setting.name,
        "track": setting.track,
        "acceleration": setting.R,
        **setting.loaded.facts(),
        **cell_counts(result.mask),
        "zero_filled": _scores(result.zero_filled_metrics()),
        "deterministic": _scores(result.deterministic_metrics()),
        "mean": _scores(result.metrics()) if tiles.std is not None else None,
        "std_foreground": None if tiles.std is None else float(tiles.std[inside].mean()),
        "error_foreground": float(error[inside].mean()),
        "std_regions": None if tiles.std is None else [_mean_in(region, tiles.std) for region in regions],
        "error_regions": [_mean_in(region, error) for region in regions],
    }


def _mean_in(region: Region, image: NDArray[np.float64]) -> float:
    return float(np.mean(np.asarray(region.of(image), dtype=np.float64)))


def _scores(metrics: Metrics) -> dict[str, float]:
    return dict(vars(metrics))


def overview_figure(
    path: Path,
    *,
    tiles: Sequence[OverviewTiles],
    regions: Sequence[Region],
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
    regions: Sequence[Region],
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


def _zoom(axes: Axes, region: Region, image: Image, *, cmap: str, top: float, colour: str) -> None:
    part = np.asarray(region.of(image), dtype=np.float64)
    axes.imshow(part, cmap=cmap, vmin=0, vmax=top, aspect="auto", interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set(color=colour, linewidth=2)


def _mark(axes: Axes, regions: Sequence[Region]) -> None:
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
