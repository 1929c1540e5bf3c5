"""Quality and reliability of σ̂ over slices and volumes: everywhere, and in the foreground alone."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesmri.analysis.quality import FRACTIONS, Floats, Measure, Quality, foreground, quality, sparsification
from bayesmri.analysis.reliability import EDGES, WIDTHS, Reliability, coverage, normal_coverage, reliability
from bayesmri.errors import DataError

Volume = NDArray[np.floating]

REGIONS = ("everywhere", "foreground")
MEASURES: tuple[Measure, ...] = ("mae", "rmse")
LEAST_PIXELS = 100  # of a region of a slice: the order of fewer says nothing


def _no_curves() -> dict[Measure, Floats]:
    return {measure: np.zeros((3, FRACTIONS.size)) for measure in MEASURES}


@dataclass(frozen=True, eq=False)
class Judgement:
    """What one region of some slices says; judgements of more slices add up.

    slices: one answer for each. curves: by measure the sums over slices of (σ̂, oracle, random), each slice relative to
    its error at fraction 0, so that no bright slice outweighs the rest. reliability: relative to the truth's maximum.
    covered: pixels with |e| ≤ kσ̂, by k.
    """

    slices: tuple[Quality, ...] = ()
    curves: dict[Measure, Floats] = field(default_factory=_no_curves)
    reliability: Reliability = field(default_factory=lambda: _nothing())
    covered: Floats = field(default_factory=lambda: np.zeros(len(WIDTHS)))

    def __add__(self, other: "Judgement") -> "Judgement":
        return Judgement(
            self.slices + other.slices,
            {measure: self.curves[measure] + other.curves[measure] for measure in MEASURES},
            self.reliability + other.reliability,
            self.covered + other.covered,
        )

    @property
    def pixels(self) -> int:
        return sum(found.pixels for found in self.slices)

    def brief(self) -> dict[str, Any]:
        """The means over slices, as JSON values: {slices, pixels, spearman, ause, ause_random, coverage, …}."""
        if not self.slices:
            return {"slices": 0, "pixels": 0}
        return {
            "slices": len(self.slices),
            "pixels": self.pixels,
            "spearman": _mean([found.spearman for found in self.slices]),
            "ause": {m: _mean([found.ause[m] for found in self.slices]) for m in MEASURES},
            "ause_random": {m: _mean([found.random[m] for found in self.slices]) for m in MEASURES},
            "coverage": [
                {"k": k, "share": float(n / self.pixels), "normal": normal_coverage(k)}
                for k, n in zip(WIDTHS, self.covered, strict=True)
            ],
            "rms_error_over_rms_std": self.reliability.ratio,
        }

    def full(self) -> dict[str, Any]:
        """The means with curves, bins and every slice's rank correlation."""
        if not self.slices:
            return self.brief()
        names = ("std", "oracle", "random")
        means = {m: (self.curves[m] / len(self.slices)).tolist() for m in MEASURES}
        curves: dict[str, Any] = {m: dict(zip(names, means[m], strict=True)) for m in MEASURES}
        return self.brief() | {
            "spearman_of_slices": [found.spearman for found in self.slices],
            "sparsification": {"removed": FRACTIONS.tolist(), **curves},
            "reliability": self.reliability.rows(),
        }


def judge_volume(mean: Volume, std: Volume, truth: Volume) -> dict[str, list[Judgement]]:
    """By region, one judgement for every slice: (slices, h, w) each; an empty one where a slice has next to nothing."""
    inside = foreground(truth)
    peak = float(truth.max())
    found: dict[str, list[Judgement]] = {region: [] for region in REGIONS}
    for X, sigma, Y, body in zip(mean, std, truth, inside, strict=True):
        for region, where in (("everywhere", np.ones_like(body)), ("foreground", body)):
            found[region].append(judge(sigma[where] / peak, (X[where] - Y[where]) / peak))
    return found


def judge(std: Floats, error: Floats) -> Judgement:
    """The pixels of one slice, relative to the truth's maximum."""
    if std.size < LEAST_PIXELS:
        return Judgement()
    curves: dict[Measure, Floats] = {}
    for measure in MEASURES:
        c = sparsification(std, error, measure=measure)
        start = c.oracle[0] if c.oracle[0] > 0 else 1.0
        curves[measure] = np.stack((c.std, c.oracle, c.random)) / start
    covered = np.array(coverage(std, error)) * std.size
    return Judgement((quality(std, error),), curves, reliability(std, error), covered)


def together(judgements: Sequence[Judgement]) -> Judgement:
    """Of all slices."""
    total = Judgement()
    for found in judgements:
        total += found
    return total


def check_judged(judgement: Judgement) -> None:
    if not judgement.slices:
        raise DataError(f"no slice has {LEAST_PIXELS} pixels to judge: give larger images")


def _nothing() -> Reliability:
    n = EDGES.size + 1
    return Reliability(EDGES, np.zeros(n, np.int64), np.zeros(n), np.zeros(n))


def _mean(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return math.fsum(known) / len(known) if known else None
