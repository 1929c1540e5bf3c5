"""Scale σ̂ into error bounds with data that the model has not seen, and store them with the model."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from bayesmri.bounds.bound import FLOOR, Calibration, Setting, percent
from bayesmri.bounds.conformal import (
    OVERSHOOT,
    ROUNDING,
    chosen_cap,
    conformal_factor,
    highest_level,
    least_subjects,
    leave_one_out,
    missed,
    overshoot,
)
from bayesmri.checkpoint import annotate
from bayesmri.data.catalog import probe
from bayesmri.errors import BayesMRIError, ConfigError, DataError, MaskError, ModelError, OutputError, ShapeError
from bayesmri.evaluation.cohort import Loaded, Volumes, counted, load_stochastic, n_coils, rules, sample_volume
from bayesmri.evaluation.request import Request, Spread, Wanted
from bayesmri.evaluation.subjects import Subjects
from bayesmri.evaluation.table import check_masks, data_files, sampling_of
from bayesmri.io.atomic import check_target
from bayesmri.io.provenance import provenance
from bayesmri.kspace import KSpace
from bayesmri.machine.crew import ahead
from bayesmri.model import Model
from bayesmri.physics.pattern import mask_kind
from bayesmri.recon.files import Progress
from bayesmri.recon.reconstruct import Reconstruction
from bayesmri.recon.undersample import draw_mask
from bayesmri.zoo import FOLDER as SHIPPED

LEAST = 3  # subjects: of fewer nothing can be left out and the rest still compared


def calibrate_file(
    model: str, wanted: Wanted, out: Path | None = None, *, force: bool = False, progress: Progress | None = None
) -> dict[str, Any]:
    """Calibrates a model and writes it with the bound: to `out` (.json, weights beside it), or into its own file.

    force: `out` may be there. A model's own file gains a bound and loses nothing, and needs no force.
    """

    loaded = load_stochastic(model)
    target = target_of(loaded.path, out, force=force)
    found, facts = calibrate(loaded, wanted, progress=progress)
    made = with_bound(loaded.model, found, of=wanted.of)
    if wanted.of == "error":
        weights = annotate(loaded.stored, target, error_calibrations=made.error_calibrations)
    else:
        weights = annotate(loaded.stored, target, made.calibrations)
    return {
        "model": loaded.name,
        "of": wanted.of,
        **facts,
        "outputs": [str(target), str(weights)],
    }


def with_bound(model: "Model", found: Calibration, *, of: Spread = "std") -> "Model":
    """The model with one more bound; one of the same level, setting and kind gives way."""
    known = model.calibrations if of == "std" else model.error_calibrations
    place = (found.level, found.setting, found.relative)
    kept = [c for c in known if (c.level, c.setting, c.relative) != place]
    found_all = sorted([*kept, found], key=lambda c: (c.setting.acceleration, c.level, c.setting.samples, c.relative))
    ordered = tuple(found_all)
    return replace(model, calibrations=ordered) if of == "std" else replace(model, error_calibrations=ordered)


def calibrate(
    loaded: "Loaded", wanted: Wanted, *, progress: Progress | None = None
) -> tuple[Calibration, dict[str, Any]]:
    """The bound, and what it was made of: coverage of every subject, files left out, warnings."""

    if wanted.of == "error" and loaded.model.error_head is None:
        raise ModelError(
            f"got {loaded.name} without a head of the error's size, expected one to calibrate; make it with "
            "bayesmri distill --what error"
        )
    R = wanted.acceleration if wanted.acceleration is not None else loaded.model.acceleration or 4.0
    request = wanted.request(loaded.name, R)
    _count_first(wanted, R, request)
    subjects, plain, files, skipped = _gathered(loaded, wanted, request, progress)
    setting = Setting(
        acceleration=R,
        mask=mask_kind(wanted.mask),
        center_fraction=wanted.center_fraction,
        coil_mode=loaded.model.coils.mode,
        Q=loaded.model.coils.Q,
        arrays=(min(files.values()), max(files.values())),
        samples=wanted.drawn,
        fast=wanted.fast,
    )
    origin = provenance(
        command="calibrate",
        config=asdict(wanted),
        seed=wanted.seed,
        inputs=list(files),
        threads=torch.get_num_threads(),
    )
    found, rows = fitted(subjects, wanted, setting, left_out=skipped)
    found = replace(found, provenance=origin)
    warnings = _warnings(found) + _seen_before(loaded.model, [path.name for path in files])
    facts = {**_facts(found), "spread": spread_of(rows), "rows": rows, "skipped": skipped, "warnings": warnings}
    if plain is not None:
        other = replace(wanted, relative=False, floor=FLOOR)
        _, beside = fitted(plain, other, setting, left_out=skipped)
        facts |= {"plain": {**spread_of(beside), "floor": FLOOR}, "plain_rows": beside}
    return found, facts


def spread_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """JSON values: the least and most covered subject, each left out in turn where they are enough, and the mean of the
    subjects' mean bounds over the truth's maximum.
    """
    key = "held_out" if all(row["held_out"] is not None for row in rows) else "coverage"
    covered = [row[key] for row in rows]
    width = math.fsum(row["mean_bound"] for row in rows) / len(rows)
    return {"of": key, "least": min(covered), "most": max(covered), "mean_bound": width}


def _gathered(
    loaded: "Loaded", wanted: Wanted, request: Request, progress: Progress | None
) -> tuple["Subjects", "Subjects | None", dict[Path, int], list[str]]:
    """The subjects, the same for a bound that is not relative where one is asked for that is, the files that they came
    from with the coils of each, and what had to be left out.
    """

    (R,) = request.accelerations
    volumes, subjects = Volumes(request), Subjects(wanted.floor, wanted.by_file, wanted.relative, wanted.of)
    plain = Subjects(FLOOR, wanted.by_file, spread=wanted.of) if wanted.relative else None
    files: dict[Path, int] = {}
    with counted(progress, request) as advance:

        def sampled(volume: tuple[Path, KSpace]) -> tuple[Path, int, Reconstruction | BayesMRIError]:
            path, full = volume
            coils = n_coils(full, loaded)
            try:
                _check_coils(loaded.model, coils)
                how = {"fast": wanted.fast, "check": wanted.relative, "draws": wanted.drawn > 0}
                return path, coils, sample_volume(full, path, R, loaded, request, **how)
            except (DataError, MaskError, ShapeError) as error:
                return path, coils, error

        for path, coils, result in ahead(sampled, volumes):
            try:
                if isinstance(result, BayesMRIError):
                    raise result
                subjects.add(path, result)
                if plain is not None:
                    plain.add(path, result)
            except (DataError, MaskError, ShapeError) as error:
                volumes.skipped.append(f"{path.name}: {error}")
                continue
            files[path] = coils
            advance()
    if not files:
        raise DataError(f"no volume in {wanted.data} can be calibrated with: {'; '.join(volumes.skipped[:3])}")
    return subjects, plain, files, volumes.skipped


def fitted(
    subjects: "Subjects", wanted: Wanted, setting: Setting, *, left_out: Sequence[str] = ()
) -> tuple[Calibration, list[dict[str, Any]]]:
    """λ̂ of all subjects with pixels in the region, and each one's coverage. left_out: other volumes, and why."""

    given, scores = subjects.of(wanted.region), subjects.scores(wanted.region)
    n, level = len(given), wanted.level
    pixels = min((s.size for s in scores), default=0)
    cap = _cap(wanted, n, volumes=subjects.volumes, pixels=pixels, left_out=left_out)
    factor = conformal_factor(scores, level=level, cap=cap)
    covered = [1 - missed(s, factor) for s in scores]
    body = [1 - missed(s, factor) for s in subjects.scores("foreground")]
    left = leave_one_out(scores, level=level, cap=cap)
    rows = [
        {
            "files": subject.files,
            "coverage": coverage,
            "held_out": left[i].coverage if left else None,
            "mean_bound": factor * subject.regions[wanted.region].mean_width,
        }
        for i, (subject, coverage) in enumerate(zip(given, covered, strict=True))
    ]
    found = Calibration(
        level=level,
        factor=factor,
        floor=wanted.floor,
        region=wanted.region,
        setting=setting,
        cap=cap,
        subjects=n,
        volumes=sum(len(subject.files) for subject in given),
        coverage=math.fsum(covered) / n,
        worst=min(covered),
        in_foreground=math.fsum(body) / len(body) if body else None,
        held_out=math.fsum(x.coverage for x in left) / n if left else None,
        slices=wanted.slices,
        relative=wanted.relative,
    )
    return found, rows


def _count_first(wanted: Wanted, R: float, request: Request) -> None:
    """Too few subjects or pixels are refused before anything is reconstructed.

    Files that cannot be read, or have too few lines for R, do not count. The pixels are those of the whole grid: the
    region may hold fewer.
    """

    check_masks(rules(request), (R,))
    pixels: Counter[str] = Counter()
    volumes, left_out = 0, []
    for path in data_files(wanted.data):
        try:
            found = probe(path)
            draw_mask((found.shape[-2], found.shape[-1]), sampling_of(path, R, rules(request)))
        except BayesMRIError as error:
            left_out.append(f"{path.name}: {error}")
            continue
        slices = found.slices if wanted.slices is None else min(found.slices, wanted.slices)
        pixels[str(path) if wanted.by_file else found.subject] += slices * math.prod(found.shape)
        volumes += 1
    _cap(wanted, len(pixels), volumes=volumes, pixels=min(pixels.values(), default=0), left_out=left_out)


def _check_coils(model: "Model", coils: int) -> None:
    """Of one volume, as the model takes it; what else is wrong with a model is so for all volumes."""
    if model.coils.mode == "raw" and coils != model.coils.Q:
        Q = model.coils.Q
        raise ShapeError(f"got data of {coils} coil{'s' * (coils != 1)} for a model of {Q} raw coil{'s' * (Q != 1)}")


def _cap(wanted: Wanted, n: int, *, volumes: int, pixels: int, left_out: Sequence[str]) -> float:
    """B for n subjects, if they are enough for a finite factor. pixels: of the smallest of them."""

    level, cap = wanted.level, wanted.cap
    if cap is None:
        cap = chosen_cap(max(1, n), level)
    need, highest = max(LEAST, least_subjects(level, cap)), highest_level(n, pixels, wanted.cap)
    if n < need:
        or_level = f", or a level of at most {_down(highest)}" if n >= LEAST else ""
        without = f"; left out: {'; '.join(left_out[:3])}" if left_out else ""
        raise DataError(
            f"got {volumes} fully sampled volumes of {n} subject{'s' * (n != 1)} to calibrate at the level {level}, "
            f"expected at least {need} subjects{or_level}, or --by-file where every file is a subject of "
            f"its own{without}"
        )
    if level > highest + ROUNDING:
        raise DataError(
            f"the level {level} lets a subject of {pixels} pixels miss less than one of them, a promise of nothing; "
            f"take a level of at most {_down(highest)}, or more slices of every subject"
        )
    return cap


def _down(level: float) -> str:
    """Rounded so that it is not above itself, to the second digit of what is missing to 1."""
    digits = 1 - math.floor(math.log10(1 - level))
    return f"{math.floor(level * 10**digits) / 10**digits:.{digits}f}".rstrip("0")


def _facts(found: Calibration) -> dict[str, Any]:
    """JSON values, without the provenance."""
    return {**asdict(replace(found, provenance={})), "guarantee": found.guarantee}


def _warnings(found: Calibration) -> list[str]:
    """What limits the promise, one sentence each."""

    said, alpha = [], 1 - found.level
    if found.cap < 1:
        many = math.ceil((1 - alpha) / OVERSHOOT)
        said.append(
            f"{found.subjects} subjects are few: the promise counts no subject with more than {100 * found.cap:.3g} % "
            f"of its pixels; {many} subjects or more give one without that limit"
        )
    if 1 - found.worst > found.cap:
        said.append(
            f"one subject exceeds the bound in {percent(1 - found.worst, '.0f')} % of its pixels: subjects differ more "
            "than the promise covers; calibrate for one kind of data at a time"
        )
    if overshoot(found.subjects, found.level, found.cap) > OVERSHOOT:
        said.append(
            f"the correction for {found.subjects} subjects widens the bound: they are covered to "
            f"{percent(found.coverage, '.1f')} % on average"
        )
    if found.slices is not None:
        said.append("only middle slices were calibrated: the promise is for such slices")
    return said


def _seen_before(model: "Model", names: list[str]) -> list[str]:
    """Files called as one that the model was trained on."""
    data = model.card.get("data") or {}
    trained = set((data.get("train") or {}).get("sources", ()))
    same = [name for name in names if name in trained]
    if not same:
        return []
    shown = ", ".join(same[:3]) + (", …" if len(same) > 3 else "")
    return [f"{shown}: the model was trained on files of this name; if they are the same, nothing is promised"]


def target_of(path: Path, out: Path | None, *, force: bool) -> Path:
    """Where the model goes; never into the installed package, nor into a training run."""
    if out is None:
        if path.parent.resolve() == SHIPPED.resolve() or path.with_suffix(".state.safetensors").exists():
            raise ConfigError(f"{path.stem} is not to be written to: give -o MODEL.json, a copy with the bound is made")
        out = path
    if out.suffix != ".json":
        raise ConfigError(f"got the output {out.name}, expected a name that ends in .json, with the weights beside it")
    if out.parent.resolve() == SHIPPED.resolve():
        raise OutputError(f"cannot write {out.name} into the installed package: give a folder of your own")
    own = out.resolve() == path.resolve()
    for file in (out, out.with_suffix(".safetensors")):
        check_target(file, force=force or own)
    if out.exists() and out.resolve() != path.resolve() and out.with_suffix(".state.safetensors").exists():
        raise ModelError(f"{out.name} is a checkpoint of a training run: give another name")
    return out
