"""The weights of visibility, fitted on structures planted into training subjects.

Of every structure the facts of its class of templates are taken: the true kind, size, direction and contrast to the
nearest of a few, its place to the nearest pixel, and nothing of its edges.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from bayesmri.analysis.hallucination import contrast_error
from bayesmri.analysis.sight import Sight
from bayesmri.analysis.structures import Structure, body
from bayesmri.analysis.templates import Template, TemplateKind, View, views
from bayesmri.analysis.visibility import GAIN, Facts, Weights

Floats = NDArray[np.float64]

SIZES: dict[TemplateKind, tuple[float, ...]] = {
    "lesion": (1.5, 2, 3, 4, 5),
    "line": (4, 6, 8, 10),
    "stripes": (3, 4, 5, 6),
}
CONTRASTS = (0.1, 0.14, 0.2, 0.28, 0.4, 0.57, 0.8)
TURNS = 8  # directions
KIND: dict[str, TemplateKind] = {"lesion": "lesion", "untouched": "lesion", "line": "line", "texture": "stripes"}
PLACES = 24  # of a slice, for each of a few templates, without a structure: there the spread is fitted
LOG_CHI = 0.635  # −½ E ln χ²₁: so much is the logarithm of one draw's size below that of σ, in the mean
RIDGE = 1e-3


def class_of(structure: Structure) -> Template:
    """The generic template of a structure."""
    kind = KIND[structure.kind]
    size = _nearest(structure.period if kind == "stripes" else structure.size, SIZES[kind])
    angle = round(structure.angle / (math.pi / TURNS)) % TURNS * math.pi / TURNS
    contrast = math.copysign(_nearest(abs(structure.contrast), CONTRASTS), structure.contrast)
    return Template(f"{kind}:{size:g}:{contrast:g}", kind, size, contrast, views(kind, size, angle))


def _nearest(value: float, known: Sequence[float]) -> float:
    return min(known, key=lambda one: abs(math.log(one / value)))


@dataclass(frozen=True, eq=False)
class Looked:
    """A slice whose templates are looked at once each."""

    sight: Sight
    memo: dict[tuple[TemplateKind, float, float], Facts] = field(default_factory=dict, repr=False)

    def facts(self, template: Template, view: View) -> Facts:
        key = (template.kind, template.size, view.angle)
        if key not in self.memo:
            self.memo[key] = Facts.of(self.sight, view, kind=template.kind, support=template.support)
        return self.memo[key]

    def at(self, structure: Structure) -> tuple[Template, Facts]:
        """The class of a structure, and its facts at the nearest pixel."""
        template = class_of(structure)
        H, W = self.sight.shape
        row, column = min(round(structure.row), H - 1), min(round(structure.column), W - 1)
        return template, self.facts(template, template.views[0]).at(row, column)


@dataclass(eq=False)
class Samples:
    """What is fitted. shown: features, ln(|c| b) and the contrast's error of structures. error: features of the spread
    and ln of what a matched filter finds in the error where no structure is.
    """

    spread: list[Floats] = field(default_factory=list)
    gain: list[Floats] = field(default_factory=list)
    level: list[float] = field(default_factory=list)
    deviation: list[float] = field(default_factory=list)
    error_spread: list[Floats] = field(default_factory=list)
    error_size: list[float] = field(default_factory=list)

    def add(self, looked: Looked, structures: Sequence[Structure], error: Floats, *, rng: np.random.Generator) -> None:
        """One slice. error: X − Y, in the units of the structures and of the sight."""
        inside = body(looked.sight.X, float(looked.sight.X.max()))
        for structure in structures:
            inside[structure.rows, structure.columns] = False
            if structure.kind not in KIND:
                continue
            template, facts = looked.at(structure)
            if structure.planted:
                self.spread.append(facts.spread())
                self.gain.append(facts.gain(template.contrast))
                self.level.append(float(np.log(abs(template.contrast) * facts.brightness)))
                self.deviation.append(contrast_error(structure, error))
            self._elsewhere(looked, template, error, inside, rng=rng)

    def _elsewhere(
        self, looked: Looked, template: Template, error: Floats, inside: NDArray[np.bool_], *, rng: np.random.Generator
    ) -> None:
        rows, columns = np.nonzero(inside)
        if rows.size == 0:
            return
        (view,) = template.views
        facts, a = looked.facts(template, view), view.centred
        room = a.shape[0] // 2
        wide = np.pad(error / looked.sight.peak, room)
        for i in rng.integers(rows.size, size=PLACES):
            r, c = int(rows[i]), int(columns[i])
            found = float(np.sum(wide[r : r + a.shape[0], c : c + a.shape[1]] * a) / np.sum(a * a))
            self.error_spread.append(facts.at(r, c).spread())
            self.error_size.append(0.5 * math.log(found**2 + 1e-9))


def fitted(samples: Samples, provenance: Mapping[str, Any]) -> Weights:
    """Least squares: ln s of the errors' sizes, then g and κ of the share of the contrast that came out right."""
    A, y = np.stack(samples.error_spread), np.array(samples.error_size) + LOG_CHI
    spread = np.linalg.lstsq(A, y, rcond=None)[0]
    snr = np.array(samples.level) - np.stack(samples.spread) @ spread
    gain, clutter = _gain(np.stack(samples.gain), snr, np.clip(1 - np.abs(samples.deviation), 0, 1))
    left = float(np.var(y - A @ spread))
    told = {**provenance, "structures": len(snr), "places": len(y), "log_variance_left": round(left, 3)}
    return Weights(tuple(map(float, spread)), tuple(map(float, gain)), clutter, told)


def _gain(f: Floats, snr: Floats, right: Floats) -> tuple[Floats, float]:
    """min Σ (v − right)², with a weight of the contrast that is not negative; features standardised on the way."""
    middle, scale = f.mean(axis=0), f.std(axis=0)
    middle[-1], scale[scale < 1e-9] = 0.0, 1.0
    F = (f - middle) / scale

    def loss(theta: Floats) -> float:
        g = 1 / (1 + np.exp(-np.clip(F @ theta[:-1], -30, 30)))
        v = g / (1 + np.exp(np.clip(theta[-1] - snr, -30, 30)))
        return float(np.mean((v - right) ** 2) + RIDGE * np.mean(theta[:-2] ** 2))

    bounds = [(0.0, None) if name == "contrast" else (None, None) for name in GAIN] + [(-5.0, 5.0)]
    theta = minimize(loss, np.zeros(len(GAIN) + 1), method="L-BFGS-B", bounds=bounds).x
    w = theta[:-1] / scale
    w[-1] = theta[-2] - float(np.sum((w * middle)[:-1]))
    return w, float(theta[-1])
