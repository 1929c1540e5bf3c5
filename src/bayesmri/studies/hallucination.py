"""Structures planted into fully sampled data or erased from it: does σ̂ flag those that come out wrong?"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from bayesmri.analysis.hallucination import MULTIPLE, SHARE, Verdict, judge_structure, judge_structures
from bayesmri.analysis.structures import BLUR, KINDS, Structure, body
from bayesmri.errors import ConfigError, DataError
from bayesmri.evaluation.table import data_files, sampling_of
from bayesmri.kspace import KSpace
from bayesmri.recon.acquisition import undersample
from bayesmri.recon.files import Progress
from bayesmri.recon.reconstruct import Reconstruction
from bayesmri.report.study_hallucination import Place, hallucination_figure, hallucination_text
from bayesmri.sampler import slice_digest
from bayesmri.studies.base import SAMPLES, Outcome, Request
from bayesmri.studies.plant import plant_volume
from bayesmri.studies.spreads import Spread, same_coils, spread
from bayesmri.studies.volumes import Volumes, rules, taken

AROUND = 24  # pixels on each side of a structure that the figure shows
KEPT = 100_000  # of σ̂ outside all places, for a method: enough for its quantiles


@dataclass(eq=False)
class Tally:
    """What a method made of all structures so far.

    seconds, slices: of its reconstructions. rest: σ̂ outside all places, blurred, over the truth's maximum, by slice.
    """

    spread: Spread
    samples: int
    verdicts: list[Verdict] = field(default_factory=list)
    rest: list[NDArray[np.float64]] = field(default_factory=list)
    psnr: list[float] = field(default_factory=list)
    levels: set[float | None] = field(default_factory=set)
    seconds: float = 0.0
    slices: int = 0

    def add(self, result: Reconstruction, structures: list[list[Structure]]) -> list[Verdict]:
        """The verdicts of one volume."""
        if result.std is None or result.truth is None:
            raise DataError("a reconstruction without a standard deviation or truth came: both are wanted here")
        peak = float(result.truth.max())
        new: list[Verdict] = []
        for s, part in enumerate(structures):
            bound = None if result.error_bound is None else result.error_bound[s]
            error = result.image[s].astype(np.float64) - result.truth[s]
            elsewhere = _elsewhere(result.truth[s], part, peak)
            typical = float(np.median(np.abs(error[elsewhere]))) if elsewhere.any() else 0.0
            new += [
                judge_structure(one, error=error, std=result.std[s], bound=bound, typical=typical, peak=peak)
                for one in part
            ]
            # averaged over as much as a structure is, so that both can be held against one threshold
            self.rest.append(gaussian_filter(result.std[s].astype(np.float64), BLUR)[elsewhere] / peak)
        self.verdicts += new
        self.psnr.append(result.metrics().psnr)
        self.levels.add(None if result.calibration is None else result.calibration.level)
        self.seconds += result.seconds
        self.slices += len(structures)
        return new

    def numbers(self, *, seed: int) -> dict[str, Any]:
        """JSON values; the bootstrap is drawn with the seed."""
        rng = np.random.default_rng(seed)
        rest = np.concatenate(self.rest)
        rest = rest if rest.size <= KEPT else rest[:: rest.size // KEPT]
        found = judge_structures(self.verdicts, rest, rng=rng)
        if found["bound"] is not None and len(self.levels) == 1:
            found["bound"] |= {"level": next(iter(self.levels))}
        else:  # of several levels, or only of some volumes
            found["bound"] = None
        return {
            **self.spread.facts(),
            "samples": self.samples if self.spread.draws else 0,
            "passes": self.spread.passes(self.samples),
            "psnr": float(np.mean(self.psnr)),
            "seconds_per_slice": self.seconds / self.slices,
            **found,
        }


def hallucination_study(request: Request, progress: Progress | None) -> Outcome:
    """Every method on the same planted data: ROC of σ̂ by structure and by pixel, and false alarms."""
    spreads = [spread(text) for text in request.models]
    check_names(spreads)
    taker = same_coils(spreads)
    tallies = [Tally(s, request.samples or SAMPLES) for s in spreads]
    volumes = Volumes(request)
    where: list[dict[str, Any]] = []
    places: list[Place] = []
    with steps(progress, request) as advance:
        for path, full in volumes:
            planted, structures = plant_volume(taken(full, taker), seed=request.seed, name=path.name)
            sampled = undersample(planted, sampling_of(path, request.accelerations[0], rules(request)))
            where += [_facts(one, path.name, s) for s, part in enumerate(structures) for one in part]
            for tally in tallies:
                result = reconstructed(tally, sampled, request)
                verdicts = tally.add(result, structures)
                if tally is tallies[0]:
                    places += _places(result, structures, verdicts)
                advance()
    if not where:
        raise DataError("no slice has room for a structure: give larger images, or such with more than air")
    numbers = {
        "acceleration": request.accelerations[0],
        "samples": request.samples,
        **volumes.facts(),
        "volumes": len(volumes.used),
        "slices": tallies[0].slices,
        "wrong_structure_share": SHARE,
        "wrong_pixel_multiple": MULTIPLE,
        "methods": [tally.numbers(seed=request.seed) for tally in tallies],
        "structures": [row | _answers(i, tallies) for i, row in enumerate(where)],
    }
    shown = [max((p for p in places if p.kind == kind), key=lambda p: p.error, default=None) for kind in KINDS]
    draw = partial(hallucination_figure, numbers=numbers, places=[place for place in shown if place is not None])
    inputs = (*volumes.used, *(member.path for s in spreads for member in s.members))
    return Outcome(numbers, draw, hallucination_text(numbers), inputs)


def reconstructed(tally: Tally, sampled: KSpace, request: Request) -> Reconstruction:
    """By one method, with its own number of samples."""
    contents = [slice_digest(z, sampled.mask) for z in sampled.z]
    return tally.spread(sampled, samples=tally.samples, seed=request.seed, device=request.device, contents=contents)


def check_names(spreads: list[Spread]) -> None:
    names = [s.name for s in spreads]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise ConfigError(f"{', '.join(twice)} came twice: give every method once, under a name of its own")


def steps(progress: Progress | None, request: Request, *, times: int = 1) -> AbstractContextManager[Callable[[], None]]:
    """Its value is to be called after every reconstruction of a volume by a method."""
    assert request.data is not None
    total = times * len(data_files(request.data)) * len(request.models)
    return progress(total) if progress else nullcontext(lambda: None)


def _elsewhere(truth: NDArray[np.float32], structures: list[Structure], peak: float) -> NDArray[np.bool_]:
    """The body outside all places."""
    outside = body(truth, peak)
    for structure in structures:
        outside[structure.rows, structure.columns] = False
    return outside


def _facts(structure: Structure, file: str, s: int) -> dict[str, Any]:
    return {
        "file": file,
        "slice": s,
        "kind": structure.kind,
        "row": round(structure.row, 2),
        "column": round(structure.column, 2),
        "size": round(structure.size, 2),
        "contrast": round(structure.contrast, 4),
    }


def _answers(i: int, tallies: list[Tally]) -> dict[str, Any]:
    """What each method shows of structure i, and how unsure it is there."""
    verdicts = {tally.spread.name: tally.verdicts[i] for tally in tallies}
    return {
        "methods": {
            name: {"shown": round(v.shown, 4), "wrong": v.wrong, "std": v.std, "bound": v.bound}
            for name, v in verdicts.items()
        }
    }


def _places(result: Reconstruction, structures: list[list[Structure]], verdicts: list[Verdict]) -> list[Place]:
    """Pictures of every structure and what is around it, relative to the truth's maximum."""
    assert result.truth is not None
    assert result.std is not None
    peak = float(result.truth.max())
    slices = [s for s, part in enumerate(structures) for _ in part]
    return [
        _place(v, *(images[s].astype(np.float64) / peak for images in (result.truth, result.image, result.std)))
        for s, v in zip(slices, verdicts, strict=True)
    ]


def _place(verdict: Verdict, *images: NDArray[np.float64]) -> Place:
    """The structure in the middle of a square, or as near to it as the border allows. images: truth, image, std."""
    one = verdict.structure
    row, column = (
        max(0, min(round(c) - AROUND, n - 2 * AROUND - 1))
        for c, n in zip((one.row, one.column), images[0].shape, strict=True)
    )
    side = 2 * AROUND + 1
    truth, image, std = (part[row : row + side, column : column + side].copy() for part in images)
    middle = (one.row - row, one.column - column)
    return Place(one.kind, one.contrast, verdict.shown, verdict.error, middle, one.size, truth, image, std)
