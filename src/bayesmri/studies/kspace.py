"""k-space as in the paper: mask, zero-filled, fully sampled, mean and standard deviation of the samples."""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from bayesmri.recon.files import Progress
from bayesmri.recon.reconstruct import Reconstruction
from bayesmri.recon.samples import column_std
from bayesmri.report.study_kspace import KSpaceTiles, kspace_figure, kspace_text
from bayesmri.studies.base import Outcome, Request
from bayesmri.studies.volumes import (
    Volumes,
    counted,
    first_volume,
    load_stochastic,
    sample_volume,
    slice_facts,
    taken,
)


def kspace_study(request: Request, progress: Progress | None) -> Outcome:
    """The middle slice of one volume; coils are combined to the root-sum-of-squares at every point of k-space."""
    loaded = load_stochastic(request.models[0])
    volumes = Volumes(request)
    with counted(progress, request, one_volume=True) as advance:
        path, full = first_volume(volumes)
        result = sample_volume(full, path, request.accelerations[0], loaded, request)
        advance()
    measured = _rss(taken(full, loaded).z[0])
    mean, std = _found(result)
    unit = float(measured.max())
    acquired, missing = column_std(result.kspace_std, result.mask) if result.kspace_std is not None else (0.0, None)
    numbers = {
        **slice_facts(loaded, path, volumes),
        "acquired": np.flatnonzero(result.mask).tolist(),
        "lines": len(result.mask),
        "unit": "the largest magnitude of the fully sampled k-space",
        "std_acquired": acquired / unit,
        "std_missing": None if missing is None else missing / unit,
        "columns": {"std": _columns(std / unit), "mean": _columns(mean / unit), "truth": _columns(measured / unit)},
    }
    tiles = KSpaceTiles(result.mask, measured / unit, mean / unit, std / unit)
    draw = partial(kspace_figure, tiles=tiles, numbers=numbers)
    return Outcome(numbers, draw, kspace_text(numbers), (path, loaded.path))


def _found(result: Reconstruction) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    assert result.kspace_mean is not None
    assert result.kspace_std is not None
    return _rss(result.kspace_mean[0]), _rss(result.kspace_std[0])


def _rss(u: NDArray[np.generic]) -> NDArray[np.float64]:
    """(Σ_q |u_q|²)^{1/2}: (Q, H, W) → (H, W)."""
    power: NDArray[np.float64] = np.sum(np.square(np.abs(u), dtype=np.float64), axis=0)
    return np.sqrt(power)


def _columns(magnitude: NDArray[np.float64]) -> list[float]:
    """The root mean square of every column."""
    found: list[float] = np.sqrt(np.mean(np.square(magnitude), axis=0)).tolist()
    return found
