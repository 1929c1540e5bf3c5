"""Expected errors beside actual ones, volume by volume; and the few numbers that scale the first, fitted to both."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bayesmri.bounds.expected import ENOUGH, MANY, SEEN, ErrorScale, Expected
from bayesmri.checkpoint import annotate
from bayesmri.complexes import rss
from bayesmri.data.catalog import subject_of
from bayesmri.errors import DataError, MaskError, ShapeError
from bayesmri.evaluation.calibrate import LEAST, target_of
from bayesmri.evaluation.cohort import Loaded, Volumes, counted, load, rules, taken
from bayesmri.evaluation.request import Request, Wanted
from bayesmri.evaluation.table import check_masks, sampling_of
from bayesmri.io.provenance import provenance
from bayesmri.kspace import KSpace
from bayesmri.machine.crew import ahead
from bayesmri.metrics import CROP, Metrics, center_crop, volume_metrics
from bayesmri.model import Model
from bayesmri.physics.fourier import fft2c
from bayesmri.recon.check import Checker
from bayesmri.recon.crop import common_crop
from bayesmri.recon.expectation import Told, expect
from bayesmri.recon.files import Progress
from bayesmri.recon.method import Method, make_method
from bayesmri.recon.reconstruct import checked_slices, whole_task
from bayesmri.recon.request import Options
from bayesmri.recon.undersample import undersample

Weights = NDArray[np.float64]
PRIOR = 1.0  # how many subjects the default g is worth


@dataclass(frozen=True, eq=False)
class Case:
    """One volume at one R. told: what left-out lines say of its slices; the rest needs the truth.

    complex_error: ‖x − y‖² of the coil images as the method takes them, None where its coils are not those of the data.
    magnitude_error: ‖X − Y‖², peak: max Y, both of what metrics count.
    """

    file: str
    subject: str
    coils: int
    told: tuple[Told, ...]
    left_out: int
    metrics: Metrics
    complex_error: float | None
    magnitude_error: float
    peak: float

    def expected(self, scale: ErrorScale) -> Expected:
        return expect(self.told, scale, left_out=self.left_out)


def judge(full: KSpace, path: Path, R: float, loaded: Loaded, request: Request) -> Case:
    """Undersampled, reconstructed at μ, checked and compared. A volume of too few lines is a DataError."""
    mine = taken(full, loaded)
    sampled = undersample(mine, sampling_of(path, R, rules(request)))
    method = make_method(Options(model=loaded.model, device=request.device))
    task = whole_task(sampled, method)
    checker = Checker.of(task.scan(), sampled, method, sampled.header.recon_shape)
    u = _same_coils(method, mine, sampled)
    images, wrong = [], 0.0
    for s, one in enumerate(checked_slices(task, name=path.name)):
        x = one.x * task.factor
        checker.add(s, x, one.without)
        images.append(rss(x).cpu().numpy())
        if u is not None:
            wrong += float((fft2c(x).cpu() - u[s]).abs().double().square().sum())
    found, why = checker.expected()
    if found is None:
        raise DataError(why)
    assert sampled.truth is not None
    X, Y = common_crop(np.stack(images), sampled.truth)
    peak = float(center_crop(torch.from_numpy(Y), CROP).max())
    metrics = volume_metrics(X, Y)
    return Case(
        file=path.name,
        subject=subject_of(path, full.header),
        coils=sampled.z.shape[1],
        told=tuple(checker.slices),
        left_out=checker.left_out,
        metrics=metrics,
        complex_error=None if u is None else wrong,
        magnitude_error=peak**2 * 10 ** (-metrics.psnr / 10) * sum(told.pixels for told in checker.slices),
        peak=peak,
    )


def _same_coils(method: Method, full: KSpace, sampled: KSpace) -> Tensor | None:
    """Fully sampled k-space in the coils that the method made of the undersampled one."""
    u = torch.from_numpy(full.z)
    if method.prepare_maps is not None:
        return method.prepare_maps(u, torch.from_numpy(sampled.z))
    return u if u.shape[1] == 1 else None


def fit_scale(cases: Sequence[Case], R: float) -> ErrorScale:
    """Every subject weighs the same, however many volumes it has.

    bias: median of actual over expected energy on missing lines. seen: least squares of log κ/κ_r, drawn to the
    default. peak: median, so that half of the PSNRs lie above. spread_db: 90 % quantile of the distance of PSNR.
    """
    counts = Counter(case.subject for case in cases)
    if len(counts) < LEAST:
        raise DataError(
            f"got {len(counts)} subjects to fit expected errors to, expected at least {LEAST}; give more data"
        )
    w = np.array([1 / counts[case.subject] for case in cases])
    first = ErrorScale(spread_db=1.0, bias=_bias(cases, w))
    scale = replace(first, seen=_seen(cases, w, first))
    apart = np.array([case.metrics.psnr - case.expected(scale).psnr for case in cases])
    offset = quantile(apart, w, 0.5)
    scale = replace(scale, peak=10 ** (offset / 20))
    lines = np.array([min(case.left_out, MANY) for case in cases])
    spread = quantile(np.abs(apart - offset) * np.sqrt(lines / ENOUGH), w, 0.9)
    coils = [case.coils for case in cases]
    return replace(
        scale,
        spread_db=max(spread, 1e-3),
        arrays=(min(coils), max(coils)) if max(coils) == 1 else (2, max(32, *coils)),
        acceleration=R,
        volumes=len(cases),
        subjects=len(counts),
    )


def _bias(cases: Sequence[Case], w: Weights) -> float:
    known = [
        (math.log(max(case.complex_error - misfit, 1e-6 * missing) / missing), weight)
        for case, weight in zip(cases, w, strict=True)
        if case.complex_error is not None
        and (missing := math.fsum(told.missing for told in case.told)) > 0
        and (misfit := math.fsum(told.misfit for told in case.told)) >= 0
    ]
    values, weights = np.array(known).reshape(-1, 2).T
    return math.exp(quantile(values, weights, 0.5)) if known else 1.0


def _seen(cases: Sequence[Case], w: Weights, scale: ErrorScale) -> tuple[float, float, float]:
    """g of log κ/κ_r = g₀ + g₁ c + g₂ ν, the features of a volume being those of its slices by their energy."""
    rows, values = [], []
    for case in cases:
        totals = np.array([told.total(scale) for told in case.told])
        share = totals / max(totals.sum(), 1e-30)
        noise = min(1.0, math.fsum(told.noise for told in case.told) / max(float(totals.sum()), 1e-30))
        rows.append((1.0, float(share @ [told.coherence for told in case.told]), noise))
        whole = float(totals.sum()) if case.complex_error is None else case.complex_error
        kappa = case.magnitude_error / max(whole, 1e-30)
        values.append(math.log(max(kappa, 1e-6) / max(float(share @ [told.seen for told in case.told]), 1e-6)))
    A, y, prior = np.array(rows), np.array(values), np.array(SEEN)
    v = w / w.mean()
    g = prior + np.linalg.solve((A.T * v) @ A + PRIOR * np.eye(3), (A.T * v) @ (y - A @ prior))
    return float(g[0]), float(g[1]), float(g[2])


def quantile(values: NDArray[np.float64], w: Weights, q: float) -> float:
    """Of weighted values, between them by lines."""
    order = np.argsort(values)
    reached = np.cumsum(w[order]) - 0.5 * w[order]
    return float(np.interp(q, reached / w.sum(), values[order]))


def fit_file(
    model: str, wanted: Wanted, out: Path | None = None, *, force: bool = False, progress: Progress | None = None
) -> dict[str, Any]:
    """The expected error of a model, fitted to a folder, and stored with it as `calibrate_file` does with bounds."""
    loaded = load(model)
    target = target_of(loaded.path, out, force=force)
    scale, facts = fit(loaded, wanted, progress=progress)
    weights = annotate(loaded.stored, target, scales=with_scale(loaded.model, scale).scales)
    return {"model": loaded.name, **facts, "outputs": [str(target), str(weights)]}


def with_scale(model: Model, scale: ErrorScale) -> Model:
    """The model with one more scale; one of the same R and coils gives way."""

    def place(found: ErrorScale) -> tuple[float, bool]:
        return found.acceleration, found.arrays[0] > 1

    kept = [found for found in model.scales if place(found) != place(scale)]
    return replace(model, scales=tuple(sorted([*kept, scale], key=place)))


def fit(loaded: Loaded, wanted: Wanted, *, progress: Progress | None = None) -> tuple[ErrorScale, dict[str, Any]]:
    """The scale, and what it was made of."""
    R = wanted.acceleration if wanted.acceleration is not None else loaded.model.acceleration or 4.0
    request = replace(wanted.request(loaded.name, R), samples=None)
    check_masks(rules(request), (R,))
    cases: list[Case] = []
    skipped: dict[str, None] = {}
    with counted(progress, replace(request, models=("",) * wanted.repeats)) as advance:
        for i in range(wanted.repeats):
            volumes = Volumes(replace(request, seed=request.seed + i))

            def judged(volume: tuple[Path, KSpace], request: Request = volumes.request) -> Case | str:
                path, full = volume
                try:
                    return judge(full, path, R, loaded, request)
                except (DataError, MaskError, ShapeError) as error:
                    return f"{path.name}: {error}"

            for found in ahead(judged, volumes):
                if isinstance(found, Case):
                    cases.append(found)
                else:
                    volumes.skipped.append(found)
                advance()
            skipped |= dict.fromkeys(volumes.skipped)
    scale = fit_scale(cases, R)
    used = [path for path in volumes.used if path.name in {case.file for case in cases}]
    config = {key: value for key, value in asdict(wanted).items() if key not in ("level", "cap", "floor", "region")}
    origin = provenance(
        command="calibrate --expected", config=config, seed=wanted.seed, inputs=used, threads=torch.get_num_threads()
    )
    facts = {**asdict(scale), "provenance": {}, "skipped": list(skipped), "warnings": []}
    return replace(scale, provenance=origin), facts
