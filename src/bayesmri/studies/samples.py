"""Single realisations beside their mean and standard deviation, where they differ most."""

from functools import partial
from typing import Any

import numpy as np

from bayesmri.analysis.quality import foreground
from bayesmri.analysis.regions import Region, most_different, most_spread, side
from bayesmri.errors import DataError
from bayesmri.recon.files import Progress
from bayesmri.recon.outputs import pixel_aspect
from bayesmri.recon.reconstruct import Reconstruction, common_crop
from bayesmri.report.study_samples import SampleTiles, samples_figure, samples_text
from bayesmri.studies.base import Outcome, Request
from bayesmri.studies.volumes import Volumes, counted, first_volume, load_stochastic, sample_volume, slice_facts


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
        raise DataError("a reconstruction without truth or samples came: both are wanted to show them")
    truth = common_crop(result.truth, result.image)[0][0]
    mean, std = (common_crop(X, result.truth)[0][0] for X in (result.image, result.std))
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
