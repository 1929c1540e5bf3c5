"""Does σ̂ tell the truth? Every volume of a folder, reconstructed with samples and compared with what it was."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bayesmri.analysis.intervals import REGIONS, Judgement, check_judged, judge_volume, together
from bayesmri.bounds.bound import FLOOR, Calibration
from bayesmri.errors import DataError
from bayesmri.evaluation.subjects import Subjects, held_out
from bayesmri.io.inputs import input_files
from bayesmri.io.provenance import sha256
from bayesmri.recon.files import Progress
from bayesmri.recon.reconstruct import Reconstruction, common_crop
from bayesmri.report.study_calibration import calibration_figure, calibration_text
from bayesmri.studies.base import Outcome, Request
from bayesmri.studies.volumes import Volumes, counted, load_stochastic, n_coils, sample_volume

Judged = dict[str, list[Judgement]]
LEVEL = 0.9


def calibration(request: Request, progress: Progress | None) -> Outcome:
    """Spearman's ρ, sparsification, reliability and coverage, by slice, volume and over all; bounds by subject."""
    loaded = load_stochastic(request.models[0])
    volumes = Volumes(request)
    level = LEVEL if request.level is None else request.level
    stored = [found for found in loaded.model.calibrations if found.level == level]
    subjects = Subjects(stored[0].floor if stored else FLOOR)
    rows: list[dict[str, Any]] = []
    everything: Judged = {region: [] for region in REGIONS}
    with counted(progress, request) as advance:
        for path, full in volumes:
            result = sample_volume(full, path, request.accelerations[0], loaded, request)
            row, judged = _volume(path, result)
            rows.append(row)
            subjects.add(path, result)
            stored = [found for found in stored if _holds(found, result, n_coils(full, loaded), subjects.floor)]
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
        "bound": held_out(subjects, level=level, stored=stored[0] if stored else None)
        | {"stored": _stored(stored, volumes.used)},
    }
    draw = partial(calibration_figure, numbers=numbers)
    return Outcome(numbers, draw, calibration_text(numbers), (*volumes.used, loaded.path))


def _holds(found: Calibration, result: Reconstruction, coils: int, floor: float) -> bool:
    """Whether a bound that the model came with is for such data."""
    fits = found.setting.misfit(result.mask, coils=coils, samples=result.n_samples, fast=result.fast) is None
    return fits and found.floor == floor


def _stored(stored: list[Calibration], used: list[Path]) -> dict[str, Any] | None:
    """JSON values: the model's own bound. seen: files of this study that it was calibrated with."""
    if not stored:
        return None
    known = {entry["sha256"] for entry in stored[0].provenance.get("inputs", ())}
    seen = [path.name for path in used if any(sha256(file) in known for file in input_files(path))]
    return {"factor": stored[0].factor, "region": stored[0].region, "subjects": stored[0].subjects, "seen": seen}


def _volume(path: Path, result: Reconstruction) -> tuple[dict[str, Any], Judged]:
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
