"""Visibility: the share of a template's contrast that would come out right here, at every place.

    v = g / (1 + κ s/(c b)),   g = 1/(1 + e^{−⟨w, f⟩})

g: the share that the measured lines and the model carry. s: the size of what the reconstruction may have wrong in the
shape of the template, so that c b/s is contrast over clutter and noise; b: brightness around, c: contrast. The features
f and s come from `sight.Sight`, without the truth; the few weights were fitted on training subjects
(scripts/fit_visibility.py) and lie in visibility.json. Larger contrasts are never less visible.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesmri.analysis.sight import Sight
from bayesmri.analysis.templates import Template, TemplateKind, View
from bayesmri.errors import ConfigError, ModelError

Floats = NDArray[np.float64]

SEEN = 0.5  # of the contrast: what comes out with less is lost
EDGE = 0.03  # η is told apart between this and 1 − EDGE
QUIET = 1e-4  # of the peak, added to the noise
SPREAD = ("filled", "folded", "image", "noise", "missing", "brightness", "one")  # of ln s, in this order
GAIN = (
    "kept",
    "contrast",
    "brightness",
    "filled",
    "folded",
    "image",
    "noise",
    "line",
    "stripes",
    "coils",
    "array_R",
    "one",
)
MEANING = (
    "percent of the contrast of a structure like the template that would come out right at this place, were it there: "
    "estimated from the measured lines, clutter and noise, with weights fitted on other subjects"
)


@dataclass(frozen=True)
class Weights:
    """spread: of ln s. gain: of ⟨w, f⟩. clutter: ln κ. provenance: what they were fitted on."""

    spread: tuple[float, ...]
    gain: tuple[float, ...]
    clutter: float
    provenance: Mapping[str, Any]

    @property
    def name(self) -> str:
        """One line for a file."""
        return str(self.provenance.get("about", "weights of your own"))

    def as_json(self) -> dict[str, Any]:
        return {
            "spread": dict(zip(SPREAD, self.spread, strict=True)),
            "gain": dict(zip(GAIN, self.gain, strict=True)),
            "clutter": self.clutter,
            "provenance": dict(self.provenance),
        }

    @staticmethod
    def of(record: Mapping[str, Any]) -> "Weights":
        try:
            spread, gain = (
                tuple(float(record[k][n]) for n in names) for k, names in (("spread", SPREAD), ("gain", GAIN))
            )
            found = Weights(spread, gain, float(record["clutter"]), record["provenance"])
        except (KeyError, TypeError, ValueError) as error:
            raise ModelError(
                f"got weights of visibility without {error}, expected those of scripts/fit_visibility.py"
            ) from error
        if not np.isfinite([*spread, *gain, found.clutter]).all() or gain[GAIN.index("contrast")] < 0:
            raise ModelError("got weights of visibility that are not finite or fall with the contrast; fit them anew")
        return found


@cache
def shipped_weights() -> Weights:
    """Those that came with the package."""
    text = (resources.files("bayesmri.analysis") / "visibility.json").read_text(encoding="utf-8")
    return Weights.of(json.loads(text))


@dataclass(frozen=True, eq=False)
class Facts:
    """What is known of one view of a template: η in [0, 1], all else over the slice's peak; maps (h, w), or at places.

    noise: of the matched filter. brightness: b. coils: whether there are several. R: of the lines, which says how well
    several coils are known.
    """

    kept: Floats
    filled: Floats
    folded: Floats
    image: Floats
    brightness: Floats
    noise: Floats
    kind: TemplateKind
    coils: bool
    R: float

    @staticmethod
    def of(sight: Sight, view: View, *, kind: TemplateKind, support: float) -> "Facts":
        clutter = sight.clutter(view)
        noise = sight.noise / np.sqrt(2 * np.sum(view.centred**2)) / sight.peak
        return Facts(
            sight.kept(view),
            **{name: image / sight.peak for name, image in clutter.items()},
            brightness=sight.brightness(support) / sight.peak,
            noise=np.full(sight.shape, noise),
            kind=kind,
            coils=len(sight.z) > 1,
            R=sight.acceleration,
        )

    def at(self, row: int, column: int) -> "Facts":
        """Of one place."""
        names = ("kept", "filled", "folded", "image", "brightness", "noise")
        values = {name: np.asarray(getattr(self, name))[row, column] for name in names}
        return Facts(**values, kind=self.kind, coils=self.coils, R=self.R)

    def spread(self) -> Floats:
        """The features of ln s, (…, 7)."""
        logs = (np.log(part) for part in (self.filled, self.folded, self.image, self.noise + QUIET))
        return np.stack([*logs, np.log(1.02 - self.kept), np.log(self.brightness), np.ones_like(self.kept)], axis=-1)

    def gain(self, contrast: float | Floats) -> Floats:
        """f, (…, 12)."""
        one, eta = np.ones_like(self.kept), np.clip(self.kept, EDGE, 1 - EDGE)
        logs = (np.log(part) for part in (self.filled, self.folded, self.image, self.noise + QUIET))
        array = one * self.coils
        kinds = (one * (self.kind == "line"), one * (self.kind == "stripes"), array, array * np.log(self.R / 4))
        known = (np.log(eta / (1 - eta)), one * np.log(np.abs(contrast)), np.log(self.brightness))
        return np.stack([*known, *logs, *kinds, one], axis=-1)


def share(facts: Facts, contrast: float | Floats, weights: Weights) -> Floats:
    """v in [0, 1]."""
    g = 1 / (1 + np.exp(-np.clip(facts.gain(contrast) @ np.array(weights.gain), -30, 30)))
    return np.asarray(g / (1 + np.exp(np.clip(weights.clutter - snr(facts, contrast, weights), -30, 30))))


def snr(facts: Facts, contrast: float | Floats, weights: Weights) -> Floats:
    """ln(c b/s)."""
    return np.asarray(np.log(np.abs(contrast) * facts.brightness) - facts.spread() @ np.array(weights.spread))


def smallest_contrast(facts: Facts, weights: Weights, *, least: float = 0.01, most: float = 5.0) -> Floats:
    """The contrast from which on v ≥ ½, by bisection; `most` where not even that would be seen."""
    low, high = np.full_like(facts.kept, np.log(least)), np.full_like(facts.kept, np.log(most))
    for _ in range(12):
        middle = (low + high) / 2
        seen = share(facts, np.exp(middle), weights) >= SEEN
        low, high = np.where(seen, low, middle), np.where(seen, middle, high)
    return np.asarray(np.exp(high))


@dataclass(frozen=True, eq=False)
class Survey:
    """A template in one slice, maps (h, w).

    mean: percent, over the directions asked for. worst: of the worst direction, None where there is but one.
    visible_from: the smallest contrast with v ≥ 50 %, in the mean over directions.
    """

    mean: Floats
    worst: Floats | None
    visible_from: Floats


def survey(sight: Sight, template: Template, weights: Weights | None = None) -> Survey:
    """One template at every place of a slice."""
    known = weights or shipped_weights()
    largest = max(template.views[0].a.shape)
    if largest > min(sight.shape):
        raise ConfigError(
            f"got the template {template.text} of {largest} pixels with an image of {sight.shape[0]}x{sight.shape[1]}, "
            "expected one that fits into it; ask for a smaller one"
        )
    views = [Facts.of(sight, view, kind=template.kind, support=template.support) for view in template.views]
    shares = np.stack([share(facts, template.contrast, known) for facts in views])
    smallest = np.stack([smallest_contrast(facts, known) for facts in views])
    worst = shares.min(axis=0) if len(views) > 1 else None
    return Survey(
        100 * shares.mean(axis=0),
        None if worst is None else 100 * worst,
        np.exp(np.log(smallest).mean(axis=0)),
    )


def median_of(values: Sequence[Floats] | Floats, inside: NDArray[np.bool_]) -> float:
    """The median over the body, or over all where there is none."""
    array = np.asarray(values)
    return float(np.median(array[inside] if inside.any() else array))
