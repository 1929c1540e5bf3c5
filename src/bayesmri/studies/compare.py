"""Methods with a standard deviation at equal compute: do they know where they err, how much, and what they invent?"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesmri.analysis.hallucination import MULTIPLE, SHARE
from bayesmri.analysis.intervals import Judgement, check_judged, judge, judge_volume, together
from bayesmri.analysis.quality import foreground
from bayesmri.evaluation.table import sampling_of
from bayesmri.metrics import volume_metrics
from bayesmri.recon.acquisition import undersample
from bayesmri.recon.files import Progress
from bayesmri.recon.reconstruct import Reconstruction
from bayesmri.report.study_compare import compare_figure, compare_text
from bayesmri.sampler import slice_digest
from bayesmri.studies.base import SAMPLES, Outcome, Request
from bayesmri.studies.calibration import truth_and_spread
from bayesmri.studies.hallucination import Tally, check_names, reconstructed, steps
from bayesmri.studies.plant import plant_volume
from bayesmri.studies.spreads import Spread, equal_samples, same_coils, spread
from bayesmri.studies.volumes import Volumes, rules, taken

GRID = (256, 256)  # of the slice that costs are counted on
REGION = "foreground"  # air is easy and would flatter all
Images = NDArray[np.float32]


@dataclass(eq=False)
class Entry:
    """One method. planted: what it made of structures. ladder: by n, of its first n samples alone."""

    spread: Spread
    samples: int
    planted: Tally
    judged: list[Judgement] = field(default_factory=list)
    psnr: list[float] = field(default_factory=list)
    ladder: dict[int, tuple[list[Judgement], list[float]]] = field(default_factory=dict)
    seconds: float = 0.0
    slices: int = 0

    def add(self, result: Reconstruction) -> None:
        """A volume without planted structures."""
        mean, std, truth = truth_and_spread(result)
        self.judged += judge_volume(mean, std, truth)[REGION]
        self.psnr.append(volume_metrics(mean, truth).psnr)
        self.seconds += result.seconds
        self.slices += len(mean)
        for n, first, spread_of in _subsets(result):
            judgements, scores = self.ladder.setdefault(n, ([], []))
            judgements += _foreground(first, spread_of, truth)
            scores.append(volume_metrics(first, truth).psnr)

    def numbers(self, *, seed: int) -> dict[str, Any]:
        """JSON values; gflop: of the convolutions of one slice of 256 x 256."""
        cost = self.spread.cost(GRID) / 1e9
        passes = self.spread.passes(self.samples)
        found = together(self.judged)
        check_judged(found)
        own = {"n": passes, "gflop": passes * cost, **_brief(found), "psnr": float(np.mean(self.psnr))}
        rows = [
            {"n": n, "gflop": n * cost, **_brief(together(judged)), "psnr": float(np.mean(psnr))}
            for n, (judged, psnr) in sorted(self.ladder.items())
        ]
        planted = self.planted.numbers(seed=seed)
        kept = ("structures", "structures_over_contrast", "pixels", "kinds", "alarms", "bound")
        return {
            **self.spread.facts(),
            "samples": self.samples if self.spread.draws else 0,
            "passes": passes,
            "gflop": passes * cost,
            "seconds_per_slice": self.seconds / self.slices,
            "psnr": own["psnr"],
            REGION: found.full(),
            "ladder": [*rows, own],
            **{key: planted[key] for key in kept},
        }


def compare_study(request: Request, progress: Progress | None) -> Outcome:
    """The questions of `calibration` and `hallucination` to all methods, on the same data."""
    spreads = [spread(text) for text in request.models]
    check_names(spreads)
    taker = same_coils(spreads)
    samples = equal_samples(spreads, request.samples or SAMPLES, GRID)
    entries = [Entry(s, n, Tally(s, n)) for s, n in zip(spreads, samples, strict=True)]
    volumes = Volumes(request)
    with steps(progress, request, times=2) as advance:
        for path, full in volumes:
            own = taken(full, taker)
            lines = sampling_of(path, request.accelerations[0], rules(request))
            plain = undersample(own, lines)
            planted, structures = plant_volume(own, seed=request.seed, name=path.name)
            planted = undersample(planted, lines)
            contents = [slice_digest(z, plain.mask) for z in full.z]
            for entry in entries:
                entry.add(
                    entry.spread(
                        plain,
                        samples=entry.samples,
                        seed=request.seed,
                        device=request.device,
                        contents=contents,
                        keep=True,
                    )
                )
                advance()
                entry.planted.add(reconstructed(entry.planted, planted, request), structures)
                advance()
    numbers = {
        "acceleration": request.accelerations[0],
        "samples": request.samples,
        **volumes.facts(),
        "volumes": len(volumes.used),
        "slices": entries[0].slices,
        "wrong_structure_share": SHARE,
        "wrong_pixel_multiple": MULTIPLE,
        "methods": [entry.numbers(seed=request.seed) for entry in entries],
    }
    inputs = (*volumes.used, *(member.path for s in spreads for member in s.members))
    return Outcome(numbers, partial(compare_figure, numbers=numbers), compare_text(numbers), inputs)


def _subsets(result: Reconstruction) -> Iterator[tuple[int, Images, Images]]:
    """n, mean and standard deviation of the first n = 2, 4, 8, … samples, fewer than all."""
    if result.samples is None:
        return
    n = 2
    while n < result.samples.shape[1]:
        first = result.samples[:, :n]
        yield n, first.mean(axis=1), first.std(axis=1)
        n *= 2


def _foreground(mean: Images, std: Images, truth: Images) -> list[Judgement]:
    """As `judge_volume`, of one region."""
    peak = float(truth.max())
    inside = foreground(truth)
    return [judge(s[w] / peak, (X[w] - Y[w]) / peak) for X, s, Y, w in zip(mean, std, truth, inside, strict=True)]


def _brief(found: Judgement) -> dict[str, Any]:
    brief = found.brief()
    return {key: brief.get(key) for key in ("spearman", "ause", "ause_random", "rms_error_over_rms_std")}
