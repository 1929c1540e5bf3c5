"""Does σ̂ tell the truth? Every volume of a folder, reconstructed with samples and compared with what it was."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bayesmri.analysis.calibration import REGIONS, Judgement, check_judged, judge_volume, together
from bayesmri.data.kspace import KSpace
from bayesmri.errors import DataError
from bayesmri.pipeline.files import Progress
from bayesmri.pipeline.reconstruct import Reconstruction, common_crop
from bayesmri.pipeline.study import Outcome, Request
from bayesmri.pipeline.study_volumes import Loaded, Volumes, counted, load_stochastic, sample_volume
from bayesmri.report.study_calibration import calibration_figure, calibration_text

Judged = dict[str, list[Judgement]]


def calibration(request: Request, progress: Progress | None) -> Outcome:
    """Spearman's ρ, sparsification, reliability and coverage, by slice, volume and over all."""
    loaded = load_stochastic(request.models[0])
    volumes = Volumes(request)
    rows: list[dict[str, Any]] = []
    everything: Judged = {region: [] for region in REGIONS}
    with counted(progress, request) as advance:
        for path, full in volumes:
            row, judged = _volume(path, full, loaded, request)
            rows.append(row)
            for region in REGIONS:
                everything[region] += judged[region]
            advance()
    check_judged(together(everything["everywhere"]))
    numbers = {
        **loaded.facts(),
        "acceleration": request.accelerations[0],
        "samples": request.samples,
        **volumes.facts(),
        "rows": rows,
        "all": {region: together(everything[region]).full() for region in REGIONS},
    }
    draw = partial(calibration_figure, numbers=numbers)
    return Outcome(numbers, draw, calibration_text(numbers), (*volumes.used, loaded.path))


def _volume(path: Path, full: KSpace, loaded: Loaded, request: Request) -> tuple[dict[str, Any], Judged]:
    result = sample_volume(full, path, request.accelerations[0], loaded, request)
    judged = judge_volume(*truth_and_spread(result))
    row = {
        "file": path.name,
        "slices": len(result.image),
        "lines": len(result.mask),
        "acquired_lines": int(result.mask.sum()),
        "psnr": result.metrics().psnr,
        "psnr_deterministic": result.deterministic_metrics().psnr,
        "psnr_zero_filled": result.zero_filled_metrics().psnr,
        "seconds": result.seconds,
        **{region: together(judged[region]).brief() for region in REGIONS},
        "of_slices": [{region: judged[region][s].brief() for region in REGIONS} for s in range(len(result.image))],
    }
    return row, judged


def truth_and_spread(result: Reconstruction) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X̄, σ̂ and Y, cut to the centre they share."""
    if result.std is None or result.truth is None:
        raise DataError("a reconstruction without samples or truth came: both are wanted to judge one by the other")
    std, truth = common_crop(result.std, result.truth)
    return common_crop(result.image, result.truth)[0], std, truth
