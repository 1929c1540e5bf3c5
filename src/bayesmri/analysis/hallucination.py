"""Which structures a reconstruction shows wrongly, and whether σ̂ says so: by structure, by pixel, and its false alarms.

With the change a of a structure, the error e = X̄ − Y of the reconstruction and â = a − mean(a) over the place,

    shown = 1 + ⟨e, â⟩ / ⟨a, â⟩

is the share of the structure's contrast that the reconstruction shows: a matched filter that is blind to brightness.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesmri.analysis.roc import area, summary
from bayesmri.analysis.structures import KINDS, Structure

Image = NDArray[np.floating]
Floats = NDArray[np.float64]

SHARE = 0.5  # of the contrast: a structure that is off by more is wrong
MULTIPLE = 3.0  # of the median |e| of the rest of the body: a pixel that is off by more is wrong
SUPPORT = 0.25  # of the largest |a|: pixels that change by more are the structure's
BUDGETS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)  # flagged shares of the rest of the body


@dataclass(frozen=True, eq=False)
class Verdict:
    """One structure in one reconstruction; brightnesses are relative to the truth's maximum.

    shown: share of the contrast, of `untouched` the share of the one that is looked for: right is 1, or 0.
    std, bound: σ̂ and the calibrated bound of the error, averaged over the structure with weights |a|.
    amplitude: |a|, averaged alike. typical: the median |e| of the body outside all places in the same slice.
    std_of, error_of, bound_of: σ̂, |e| and the bound of the structure's pixels.
    """

    structure: Structure
    shown: float
    std: float
    bound: float | None
    amplitude: float
    typical: float
    std_of: Floats = field(repr=False)
    error_of: Floats = field(repr=False)
    bound_of: Floats | None = field(repr=False)

    @property
    def deviation(self) -> float:
        """|shown − right|."""
        return abs(self.shown - (1.0 if self.structure.planted else 0.0))

    @property
    def wrong(self) -> bool:
        return self.deviation > SHARE

    @property
    def error(self) -> float:
        """What is wrong with the contrast, in brightness."""
        return self.deviation * self.amplitude


def judge_structure(
    structure: Structure, *, error: Image, std: Image, bound: Image | None, typical: float, peak: float
) -> Verdict:
    """error, std, bound: X̄ − Y, σ̂ and the bound of |X̄ − Y| of the whole image (h, w). typical: median |e| elsewhere."""
    a, e, sigma = structure.change, structure.of(error), structure.of(std) / peak
    off = contrast_error(structure, error)
    weight = np.abs(a)
    inside = weight >= SUPPORT * weight.max()
    limit = None if bound is None else structure.of(bound) / peak
    return Verdict(
        structure,
        shown=off + (1.0 if structure.planted else 0.0),
        std=float(np.average(sigma, weights=weight)),
        bound=None if limit is None else float(np.average(limit, weights=weight)),
        amplitude=float(np.average(weight, weights=weight)) / peak,
        typical=typical / peak,
        std_of=sigma[inside],
        error_of=np.abs(e[inside]) / peak,
        bound_of=None if limit is None else limit[inside],
    )


def contrast_error(structure: Structure, error: Image) -> float:
    """shown − 1 = ⟨e, â⟩ / ⟨a, â⟩ of a planted structure; of `untouched` what is shown of it."""
    a = structure.change
    centred = a - a.mean()
    return float((structure.of(error) * centred).sum() / (a * centred).sum())


def judge_structures(verdicts: Sequence[Verdict], rest: Floats, *, rng: np.random.Generator) -> dict[str, Any]:
    """JSON values of all structures in the reconstructions of one method.

    rest: σ̂ of the body outside all places, averaged over as much as a structure is.
    """
    wrong = np.array([v.wrong for v in verdicts])
    std = np.array([v.std for v in verdicts])
    amplitude = np.array([v.amplitude for v in verdicts])
    pixels = np.concatenate([v.std_of for v in verdicts])
    off = np.concatenate([v.error_of > MULTIPLE * v.typical for v in verdicts])
    places = np.repeat(np.arange(len(verdicts)), [v.std_of.size for v in verdicts])
    return {
        "structures": summary(std, wrong, rng=rng),
        "structures_over_contrast": {"area": area(std / amplitude, wrong)},
        "pixels": summary(pixels, off, rng=rng, clusters=places),
        "kinds": {kind: _of_kind([v for v in verdicts if v.structure.kind == kind]) for kind in KINDS},
        "alarms": _alarms(std, wrong, rest),
        "bound": _bound(verdicts, wrong, off),
    }


def _of_kind(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """How many are wrong, and which share of the contrast is shown: lower quartile, median, upper quartile."""
    if not verdicts:
        return {"n": 0, "wrong": 0, "shown": None, "area": None}
    quartiles = np.quantile([v.shown for v in verdicts], (0.25, 0.5, 0.75))
    wrong = [v.wrong for v in verdicts]
    found = {"n": len(verdicts), "wrong": sum(wrong), "shown": [float(q) for q in quartiles]}
    return found | {"area": area([v.std for v in verdicts], wrong)}


def _alarms(std: Floats, wrong: NDArray[np.bool_], rest: Floats) -> list[dict[str, float | None]]:
    """Which shares of wrong and right places a threshold on σ̂ flags that flags some share of the rest of the body."""
    if rest.size == 0:
        return []
    rows = []
    for budget in BUDGETS:
        flagged = std > np.quantile(rest, 1 - budget)
        rows.append({"rest": budget, "wrong": _share(flagged[wrong]), "right": _share(flagged[~wrong])})
    return rows


def _bound(verdicts: Sequence[Verdict], wrong: NDArray[np.bool_], off: NDArray[np.bool_]) -> dict[str, Any] | None:
    """What the calibrated bound says; None where there is none.

    A place is flagged where the bound admits that more than `SHARE` of the structure's contrast be wrong, a pixel where
    it admits such an error as makes it wrong. held: the share of the structures' pixels whose error the bound holds.
    """
    known = [v for v in verdicts if v.bound is not None and v.bound_of is not None]
    if len(known) < len(verdicts) or not known:
        return None
    flagged = np.array([v.bound is not None and v.bound >= SHARE * v.amplitude for v in known])
    limit = np.concatenate([v.bound_of for v in known if v.bound_of is not None])
    error = np.concatenate([v.error_of for v in known])
    allowed = np.concatenate([np.full(v.error_of.size, MULTIPLE * v.typical) for v in known])
    of_wrong = np.repeat(wrong, [v.error_of.size for v in known])
    return {
        "structures": {"hits": _share(flagged[wrong]), "false_alarms": _share(flagged[~wrong])},
        "pixels": {"hits": _share((limit > allowed)[off]), "false_alarms": _share((limit > allowed)[~off])},
        "held": _share(error <= limit),
        "held_of_wrong": _share((error <= limit)[of_wrong]),
    }


def _share(flags: NDArray[np.bool_]) -> float | None:
    return float(flags.mean()) if flags.size else None
