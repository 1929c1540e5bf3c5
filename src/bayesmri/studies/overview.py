"""The paper's main figures: one slice by every model, single- and multi-coil, at R = 4 and 8."""

from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesmri.analysis.quality import foreground
from bayesmri.analysis.regions import Region, most_telling, side
from bayesmri.errors import ConfigError, DataError, ModelError
from bayesmri.evaluation.table import COILS, fully_sampled, middle_slices
from bayesmri.evaluation.tracks import Track
from bayesmri.kspace import KSpace
from bayesmri.metrics import Metrics
from bayesmri.recon.files import Progress
from bayesmri.recon.outputs import pixel_aspect
from bayesmri.recon.reconstruct import Reconstruction, common_crop
from bayesmri.report.study_overview import OverviewTiles, overview_figure, overview_text
from bayesmri.studies.base import Outcome, Request
from bayesmri.studies.volumes import Loaded, Volumes, first_volume, load, rules, sample_volume
from bayesmri.zoo import choose

ACCELERATIONS = (4.0, 8.0)
SAME_R = 0.01  # a model trained for R = 4 is none for R = 8, though `auto` would take it for want of a better one


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
        track: Track = "single" if loaded.model.coils.Q == 1 else "multi"
        own = loaded.model.acceleration or ACCELERATIONS[0]
        found += [Setting(track, R, loaded) for R in request.accelerations or (own,)]
    if not request.models:
        for name in ("single", "multi"):
            for R in request.accelerations or ACCELERATIONS:
                try:
                    found.append(_shipped("single" if name == "single" else "multi", R, request))
                except ModelError as error:
                    missing.append(f"{name}-coil, R = {R:g}: {error}")
    keys = [(setting.loaded.path, setting.R) for setting in found]
    if len(set(keys)) < len(keys):
        raise ConfigError("the same model came twice: give each once")
    if not found:
        raise ModelError("; ".join(missing))
    return found, missing


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
        raise DataError("a reconstruction without truth came: it is wanted to show both")
    Y = common_crop(result.truth, result.image)[0][0].astype(np.float64)
    peak = float(Y.max())

    def shown(X: NDArray[np.float32]) -> NDArray[np.float64]:
        assert result.truth is not None
        cut: NDArray[np.float64] = common_crop(X, result.truth)[0][0].astype(np.float64)
        return cut / peak

    drawn = result.std is not None
    at_mean = result.image if result.deterministic is None else result.deterministic
    return OverviewTiles(
        truth=Y / peak,
        zero_filled=shown(result.zero_filled),
        deterministic=shown(at_mean),
        mean=shown(result.image) if drawn else None,
        std=None if result.std is None else shown(result.std),
    )


def _regions(tiles: list[OverviewTiles]) -> list[Region]:
    """By σ̂ and detail of all settings together, so that the rows can be compared; never by the truth."""
    shapes = {tile.truth.shape for tile in tiles}
    if len(shapes) > 1:
        raise DataError(f"images of different sizes {sorted(shapes)} came of one volume: want one size")
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
        "acquired_lines": int(result.mask.sum()),
        "lines": len(result.mask),
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
