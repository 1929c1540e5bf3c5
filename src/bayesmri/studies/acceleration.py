"""σ̂ as R falls to 1: the less is missing, the less there is to be unsure of."""

import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bayesmri.analysis.quality import foreground
from bayesmri.errors import ConfigError
from bayesmri.recon.files import Progress
from bayesmri.recon.reconstruct import Reconstruction
from bayesmri.recon.samples import column_std
from bayesmri.report.study_acceleration import acceleration_figure, acceleration_text
from bayesmri.studies.base import Outcome, Request
from bayesmri.studies.calibration import truth_and_spread
from bayesmri.studies.volumes import Volumes, counted, load_stochastic, sample_volume

AVERAGED = (
    "std",
    "std_foreground",
    "kspace_std_acquired",
    "kspace_std_missing",
    "psnr",
    "psnr_deterministic",
    "psnr_zero_filled",
)


def acceleration_study(request: Request, progress: Progress | None) -> Outcome:
    """One model on every volume at every R; standard deviations in units of the truth's maximum."""
    if len(set(request.accelerations)) < len(request.accelerations):
        raise ConfigError("the same acceleration came twice: give each once")
    loaded = load_stochastic(request.models[0])
    volumes = Volumes(request)
    rows: list[dict[str, Any]] = []
    with counted(progress, request) as advance:
        for path, full in volumes:
            for R in request.accelerations:
                rows.append(_row(path, R, sample_volume(full, path, R, loaded, request)))
                advance()
    numbers = {
        **loaded.facts(),
        "samples": request.samples,
        **volumes.facts(),
        "means": [_mean(R, [row for row in rows if row["acceleration"] == R]) for R in request.accelerations],
        "rows": rows,
    }
    draw = partial(acceleration_figure, numbers=numbers)
    return Outcome(numbers, draw, acceleration_text(numbers), (*volumes.used, loaded.path))


def _row(path: Path, R: float, result: Reconstruction) -> dict[str, Any]:
    assert result.kspace_std is not None
    _, std, truth = truth_and_spread(result)
    peak = float(truth.max())
    acquired, missing = column_std(result.kspace_std, result.mask)
    return {
        "file": path.name,
        "acceleration": R,
        "acquired_lines": int(result.mask.sum()),
        "lines": len(result.mask),
        "std": float(std.mean(dtype=np.float64)) / peak,
        "std_foreground": float(std[foreground(truth)].mean(dtype=np.float64)) / peak,
        "kspace_std_acquired": acquired / peak,
        "kspace_std_missing": None if missing is None else missing / peak,
        "psnr": result.metrics().psnr,
        "psnr_deterministic": result.deterministic_metrics().psnr,
        "psnr_zero_filled": result.zero_filled_metrics().psnr,
    }


def _mean(R: float, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Over volumes; None where no volume has the number."""
    found: dict[str, Any] = {"acceleration": R, "volumes": len(rows)}
    for key in AVERAGED:
        known = [row[key] for row in rows if row[key] is not None]
        found[key] = math.fsum(known) / len(known) if known else None
    return found
