"""What a standard-deviation map costs and how wrong it is: exact samples against the fast route, on real slices.

Errors are relative, ‖σ̂ − σ_ref‖₂ / ‖σ_ref‖₂ of a slice, against a reference of other samples; costs are in units of
one deterministic reconstruction of the same slice, measured in the same run.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bayesmri import zoo
from bayesmri.complexes import rss
from bayesmri.data.simulate import Scanner, acquire
from bayesmri.errors import ModelError
from bayesmri.evaluation.cohort import Loaded, Volumes, load_stochastic, taken
from bayesmri.evaluation.request import Request
from bayesmri.evaluation.table import middle_slices
from bayesmri.io.acquired import finish
from bayesmri.kspace import KSpace
from bayesmri.physics.fourier import ifft2c
from bayesmri.recon.acquisition import Sampling
from bayesmri.recon.demo import COILS, HEAD_SHAPE, SNR_DB, head_slice
from bayesmri.recon.files import PhantomRequest
from bayesmri.recon.method import Method, learned
from bayesmri.recon.request import FAST_SAMPLES, Trial
from bayesmri.recon.samples import predicted
from bayesmri.recon.undersample import undersample
from bayesmri.recon.work import phantom_images
from bayesmri.sampler import Stream
from bayesmri.statistics import Moments, summarize
from bayesmri.training.distill import relative_error

EXACT, FAST = (2, 4, 8, 16, 32), tuple(sorted({2, 3, 4, 7, FAST_SAMPLES}))


@dataclass(frozen=True, eq=False)
class Measured:
    """One slice: errors and costs by (route, number of samples)."""

    name: str
    errors: dict[tuple[str, int], float]
    costs: dict[tuple[str, int], float]
    seconds: float


def bench_uncertainty(trial: Trial, *, say: Callable[[str], None] = lambda text: None) -> dict[str, Any]:
    """The trade-off curve, and the three numbers that stand for it."""
    loaded = load_stochastic(trial.model or _default_model())
    method = learned(loaded.model, loaded.name, torch.device("cpu"))
    if method.predictor is None:
        raise ModelError(f"got {loaded.name} without a predictor of its fast route; make one with bayesmri distill")
    rows: list[Measured] = []
    for name, kspace in _volumes(trial, loaded):
        for s in range(len(kspace.z)):
            say(f"{name}, slice {s}: {trial.reference} samples for the reference")
            rows.append(measure(f"{name}/{s}", kspace, s, method, trial))
    routes = list(rows[0].errors)
    error = {route: sum(row.errors[route] for row in rows) / len(rows) for route in routes}
    cost = {route: sum(row.costs[route] for row in rows) / len(rows) for route in routes}
    return {
        "exact32_error": error["exact", 32],
        "fast_error": error["fast", FAST_SAMPLES],
        "fast_cost": cost["fast", FAST_SAMPLES],
        "curve": [{"route": r, "samples": N, "cost": cost[r, N], "error": error[r, N]} for r, N in routes],
        "slices": [
            {"slice": row.name, "deterministic_seconds": row.seconds}
            | {f"{r}{N}_error": row.errors[r, N] for r, N in routes}
            for row in rows
        ],
        "model": loaded.facts(),
        "reference_samples": trial.reference,
        "threads": torch.get_num_threads(),
        "seed": trial.seed,
    }


@torch.no_grad()
def measure(name: str, kspace: KSpace, s: int, method: Method, trial: Trial) -> Measured:
    """One slice: samples 0 … 31 are judged, the reference is made of those after them."""
    assert method.sampler is not None
    assert method.predictor is not None
    volume = method.prepare(torch.from_numpy(kspace.z))
    z = volume[s][None] / method.scaling.factor(volume)
    mask = torch.from_numpy(kspace.mask)
    stream = Stream(trial.seed, kspace.contents()[s], s)
    at_mean, alone = _timed(lambda: method.solve(method.refine(method.begin(z, mask, None)))[0])
    D = method.refine(method.begin(z, mask, None))
    estimate = predicted(method.predictor, at_mean, ifft2c(z)[0], 1.0)
    samples, spent = [], [0.0]
    for x, seconds in _each(method.sampler.samples(D, stream, range(max(EXACT)))):
        samples.append(x[0])
        spent.append(spent[-1] + seconds)
    others = range(max(EXACT), max(EXACT) + trial.reference)
    reference = _moments(rss(x)[0] for x in method.sampler.samples(D, stream, others)).std()
    errors, costs = {}, {}
    for N in EXACT:
        errors["exact", N] = _error(_moments(rss(x) for x in samples[:N]).std(), reference)
        costs["exact", N] = spent[N] / alone
    for K in [K for K in FAST if method.predictor.config.most >= K]:
        found = summarize(samples[:K])
        std, seconds = _timed(lambda found=found: estimate(found)[1])  # type: ignore[misc]
        errors["fast", K] = _error(std, reference)
        costs["fast", K] = (alone + spent[K] + seconds) / alone
    return Measured(name, errors, costs, alone)


def _volumes(trial: Trial, loaded: Loaded) -> Iterator[tuple[str, KSpace]]:
    """Undersampled as the model was trained for."""
    R = trial.acceleration or loaded.model.acceleration or 4.0
    if trial.data is None:
        full = middle_slices(_head(trial.seed), trial.slices)
        yield "head", undersample(taken(full, loaded), Sampling(acceleration=R, seed=trial.seed))
        return
    for path, full in Volumes(Request((), trial.data, slices=trial.slices, seed=trial.seed)):
        yield path.name, undersample(taken(full, loaded), Sampling(acceleration=R, seed=trial.seed))


def _head(seed: int) -> KSpace:
    """The demo's acquisition, fully sampled."""

    images = head_slice() or phantom_images(PhantomRequest("head", "PD", HEAD_SHAPE), seed=seed)
    X = torch.from_numpy(images.magnitude / images.magnitude.max())
    u = acquire(X, Scanner(COILS, SNR_DB), rng=torch.Generator().manual_seed(seed)).numpy()
    return finish(u, images.header)


def _default_model() -> str:

    for model in zoo.shipped():
        if model.stochastic and model.record.get("predictor") is not None:
            return str(model.path)
    raise ModelError("no shipped model has a predictor of its fast route: give one with --model")


def _timed(run: Callable[[], Tensor], repeats: int = 3) -> tuple[Tensor, float]:
    """The result, and the seconds of the fastest of several runs."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        result = run()
        times.append(time.perf_counter() - began)
    return result, min(times)


def _each(samples: Iterator[Tensor]) -> Iterator[tuple[Tensor, float]]:
    """Every sample with the seconds it took."""
    while True:
        began = time.perf_counter()
        try:
            x = next(samples)
        except StopIteration:
            return
        yield x, time.perf_counter() - began


def _moments(images: Iterator[Tensor]) -> Moments:
    moments = Moments.of(next(images))
    for X in images:
        moments = moments.add(X)
    return moments


def _error(std: Tensor, reference: Tensor) -> float:
    return float(relative_error(std.double()[None], reference.double()[None]))
