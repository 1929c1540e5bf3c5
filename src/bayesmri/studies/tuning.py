"""Is it worth to let a scan's own left-out lines choose ρ and the number of steps? Every volume, tuned and not."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bayesmri.errors import DataError, MaskError, ShapeError
from bayesmri.evaluation.cohort import Loaded, Volumes, counted, load, rules, taken
from bayesmri.evaluation.request import Request, setting_name
from bayesmri.evaluation.table import sampling_of
from bayesmri.kspace import KSpace
from bayesmri.recon.files import Progress
from bayesmri.recon.reconstruct import reconstruct
from bayesmri.recon.request import Options
from bayesmri.recon.undersample import undersample
from bayesmri.report.figure_style import BLUE, GREY, ORANGE, aligned, caption, count, figure, finish, write
from bayesmri.studies.base import Outcome
from bayesmri.studies.holdout import anatomy, nearest, tracks_of

Numbers = Mapping[str, Any]
Row = dict[str, Any]
COLOURS = {"single": BLUE, "multi": ORANGE}


def tuning_study(request: Request, progress: Progress | None) -> Outcome:
    """Every volume as one coil and as an array, at every R by the model of the nearest R, at μ."""
    models = [load(name) for name in request.models]
    found = {track: Volumes(replace(request, track=track)) for track in tracks_of(models, request)}
    rows: list[Row] = []
    skipped: list[str] = []
    with counted(progress, replace(request, models=("",) * len(found))) as advance:
        for track, volumes in found.items():
            for path, full in volumes:
                for R in request.accelerations:
                    try:
                        row = _row(path, full, R, nearest(models, R), volumes.request)
                        rows.append({"setting": setting_name(track, R), "track": track, **row})
                    except (DataError, MaskError, ShapeError) as error:
                        skipped.append(f"{path.name}, {track}-coil, R = {R:g}: {error}")
                    advance()
    if not rows:
        raise DataError(f"no volume in {request.data} can be judged: {'; '.join(skipped[:3])}")
    first = next(iter(found.values()))
    numbers = {
        "model": " and ".join(loaded.name for loaded in models),
        **first.facts(),
        "skipped": sorted({line for volumes in found.values() for line in volumes.skipped} | set(skipped)),
        "groups": groups(rows),
        "rows": rows,
    }
    inputs = (*first.used, *(loaded.path for loaded in models))
    return Outcome(numbers, partial(tuning_figure, numbers=numbers), tuning_text(numbers), inputs)


def _row(path: Path, full: KSpace, R: float, loaded: Loaded, request: Request) -> Row:
    """JSON values. residual: of the left-out lines, over that of the model as it is."""
    sampled = undersample(taken(full, loaded), sampling_of(path, R, rules(request)))
    options = Options(model=loaded.model, device=request.device)
    own, tuned = (reconstruct(sampled, replace(options, tune=tune)) for tune in (False, True))
    before, after = own.metrics(), tuned.metrics()
    if tuned.tuned is None:
        raise DataError(tuned.notes[-1])
    return {
        "file": path.name,
        "anatomy": anatomy(path, full),
        "acceleration": R,
        "model": loaded.name,
        "psnr": before.psnr,
        "tuned_psnr": after.psnr,
        "ssim": before.ssim,
        "tuned_ssim": after.ssim,
        "rho_factor": tuned.tuned.rho_factor,
        "steps": tuned.tuned.steps,
        "own_steps": loaded.model.S,
        "residual": tuned.tuned.residual,
    }


def groups(rows: Sequence[Row]) -> dict[str, dict[str, Any]]:
    """Of every setting: how many gain, and how much PSNR and SSIM on the mean, at least and at most."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["setting"], []).append(row)
    return {name: _judged(part) for name, part in found.items()}


def _judged(rows: Sequence[Row]) -> dict[str, Any]:
    gain = np.array([row["tuned_psnr"] - row["psnr"] for row in rows])
    return {
        "scans": len(rows),
        "psnr": float(np.mean([row["psnr"] for row in rows])),
        "gain": float(gain.mean()),
        "least": float(gain.min()),
        "most": float(gain.max()),
        "gaining": int((gain > 0).sum()),
        "ssim_gain": float(np.mean([row["tuned_ssim"] - row["ssim"] for row in rows])),
    }


def tuning_figure(path: Path, numbers: Numbers) -> None:
    """The gain of every scan, by setting."""
    made = figure(8.5, 4.6)
    axes = made.subplots()
    names = list(numbers["groups"])
    for name in names:
        part = [row for row in numbers["rows"] if row["setting"] == name]
        place = names.index(name) + np.linspace(-0.25, 0.25, len(part))
        gains = [row["tuned_psnr"] - row["psnr"] for row in part]
        axes.plot(place, gains, "o", markersize=4, color=COLOURS[part[0]["track"]], alpha=0.7)
        axes.plot([names.index(name) - 0.3, names.index(name) + 0.3], [np.mean(gains)] * 2, color=GREY, linewidth=2)
    axes.axhline(0, color=GREY, linewidth=0.8, linestyle="--")
    axes.set_xticks(range(len(names)), names)
    finish(axes, title="PSNR with ρ and steps chosen by left-out lines", y="gain, dB", legend=False)
    caption(made, f"{numbers['model']}, {count(len(numbers['rows']), 'scan')}; bars: means")
    write(made, path)


def tuning_text(numbers: Numbers) -> str:
    """One row per setting."""
    heads = ["scans of", "n", "PSNR", "gain/dB", "least", "most", "gaining", "SSIM"]
    lines = [
        [
            name,
            str(found["scans"]),
            f"{found['psnr']:.2f}",
            f"{found['gain']:+.2f}",
            f"{found['least']:+.2f}",
            f"{found['most']:+.2f}",
            str(found["gaining"]),
            f"{found['ssim_gain']:+.3f}",
        ]
        for name, found in numbers["groups"].items()
    ]
    last = (
        "PSNR of the model as it is, and what is gained with the ρ and steps that two folds of left-out lines choose."
    )
    return "\n".join([aligned([heads, *lines]), last])
