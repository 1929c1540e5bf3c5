"""Errors in units of σ̂, gathered volume by volume and kept by subject: what calibration and its study count."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesmri.analysis.intervals import LEAST_PIXELS, REGIONS
from bayesmri.analysis.quality import foreground
from bayesmri.bounds.bound import FLOOR, Calibration, unit_width
from bayesmri.bounds.conformal import chosen_cap, leave_one_out, missed, scores
from bayesmri.data.catalog import subject_of
from bayesmri.errors import DataError
from bayesmri.evaluation.request import Spread
from bayesmri.recon.crop import common_crop
from bayesmri.recon.reconstruct import Reconstruction

Scores = NDArray[np.float32]


@dataclass
class Part:
    """One region of one subject. scores: ascending. width: the sum of w = σ̂ + floor over the truth's maximum."""

    scores: Scores = field(default_factory=lambda: np.empty(0, np.float32))
    width: float = 0.0

    def add(self, found: Scores, width: float) -> None:
        self.scores = np.sort(np.concatenate([self.scores, found]))
        self.width += width

    @property
    def mean_width(self) -> float:
        return self.width / self.scores.size


@dataclass
class Subject:
    """What one subject says. files: its volumes, by name. regions: by their names; empty ones have no pixels."""

    files: list[str] = field(default_factory=list)
    regions: dict[str, Part] = field(default_factory=lambda: {region: Part() for region in REGIONS})

    @property
    def label(self) -> str:
        """The first file's name without its ending: names of patients stay out of figures and records."""
        more = len(self.files) - 1
        return Path(self.files[0]).stem + (f" +{more}" if more else "")


@dataclass
class Subjects:
    """All subjects, by the patient or subject that a file names, or the file itself where it names none.

    floor: f of w = σ + f max X̄, or where the bound is relative of w = σ + f RMSE, as expected.
    spread: σ is σ̂ of the draws, or σ_total by the model's head.
    by_file: every file is a subject of its own, whatever it names.
    """

    floor: float = FLOOR
    by_file: bool = False
    relative: bool = False
    spread: Spread = "std"
    found: dict[str, Subject] = field(default_factory=dict)

    def add(self, path: Path, result: Reconstruction) -> None:
        """One volume, reconstructed with σ and truth."""
        std = result.std if self.spread == "std" else result.error_std
        if std is None or result.truth is None:
            raise DataError(f"got {path.name} without standard deviation or truth, expected both to calibrate")
        rmse = None if result.expected is None or not self.relative else result.expected.rmse
        if self.relative and rmse is None:
            raise DataError("its expected error cannot be told, and the bound is to be relative to it")
        unit = unit_width(result.mean, std, floor=self.floor, rmse=rmse).astype(np.float32)
        width, Y = common_crop(unit, result.truth)
        error = common_crop(result.mean, result.truth)[0] - Y
        subject = self.found.setdefault(self._name(path, result), Subject())
        subject.files.append(path.name)
        peak, inside = float(Y.max()), foreground(Y)
        for region, where in (("everywhere", np.ones_like(inside)), ("foreground", inside)):
            if np.count_nonzero(where) >= LEAST_PIXELS:
                w = width[where].astype(np.float64)
                subject.regions[region].add(scores(error[where], w), float(w.sum()) / peak)

    def __len__(self) -> int:
        return len(self.found)

    @property
    def volumes(self) -> int:
        return sum(len(subject.files) for subject in self.found.values())

    def of(self, region: str) -> list[Subject]:
        """Those with pixels in the region, in the order they came."""
        return [subject for subject in self.found.values() if subject.regions[region].scores.size]

    def scores(self, region: str) -> Sequence[Scores]:
        return [subject.regions[region].scores for subject in self.of(region)]

    def _name(self, path: Path, result: Reconstruction) -> str:
        return str(path) if self.by_file else subject_of(path, result.header)


def held_out(subjects: Subjects, *, level: float, stored: Calibration | None = None) -> dict[str, Any]:
    """JSON values: by region, every subject under the bound that the others calibrate; None where they are too few.

    stored: a bound that the model came with, whose coverage is told beside.
    """
    n = len(subjects)
    cap = chosen_cap(max(1, n - 1), level)
    found: dict[str, Any] = {"level": level, "cap": cap, "floor": subjects.floor, "subjects": n}
    for region in REGIONS:
        given, known = subjects.of(region), subjects.scores(region)
        left = leave_one_out(known, level=level, cap=cap)
        parts = [subject.regions[region] for subject in given]
        rows: list[dict[str, Any]] = [
            {
                "subject": subject.label,
                "files": subject.files,
                "factor": one.factor,
                "coverage": one.coverage,
                "mean_bound": one.factor * part.mean_width,
                **({} if stored is None else {"stored": 1 - missed(part.scores, stored.factor)}),
            }
            for subject, part, one in zip(given, parts, left, strict=bool(left))
        ]
        keys = ("coverage", "mean_bound", *(() if stored is None else ("stored",)))
        means = {key: math.fsum(row[key] for row in rows) / len(rows) for key in keys} if rows else {}
        found[region] = {**means, "of_subjects": rows} if rows else None
    return found
