"""What the files say of themselves in words: what they are, how they were made, what to beware of."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bayesmri.io.guard import one_line
from bayesmri.io.results import Result
from bayesmri.messages import Messages

RESEARCH = "RESEARCH USE ONLY"
DESCRIPTION, DERIVATION, COMMENTS = 64, 1024, 10_240  # characters of LO, ST and LT
ARBITRARY = ("[arb'U]", "UCUM", "arbitrary unit")
PERCENT = ("%", "UCUM", "percent")
OURS = "99BAYESMRI"


@dataclass(frozen=True)
class Kind:
    """One series. label: a code string; title: in words; quantity and unit: (value, scheme, meaning)."""

    name: str
    label: str
    title: str
    quantity: tuple[str, str, str]
    unit: tuple[str, str, str] = ARBITRARY


MEAN = Kind("mean", "MEAN", "reconstruction", ("signal", OURS, "Magnitude of the MR signal"))
EXPECTED = Kind("expected", "EXPECTED", "expected error", ("expected_error", OURS, "Expected error"))
MAPS = {
    "uncertainty_std": Kind("std", "STD", "standard deviation", ("386136009", "SCT", "Standard Deviation")),
    "error_std": Kind("error_std", "ERROR_STD", "typical error", ("typical_error", OURS, "Typical size of the error")),
    "error_bound": Kind("bound", "ERROR_BOUND", "error bound", ("error_bound", OURS, "Calibrated bound of the error")),
}


def visibility_kind(template: str, place: int) -> Kind:
    """Of the map of a template such as lesion:3:0.3."""
    quantity = ("visibility", OURS, "Contrast of a structure that would survive")
    return Kind(f"visibility_{place}", f"VISIBILITY_{place}", f"visibility {template}", quantity, PERCENT)


def description(kind: Kind, method: str) -> str:
    """ "bayesmri typical error tdv-r4 RESEARCH USE ONLY": whatever is cut, the last words stay."""
    return f"{one_line(f'bayesmri {kind.title} {method}', limit=DESCRIPTION - len(RESEARCH) - 1)} {RESEARCH}"


def derivation(result: Result, version: str) -> str:
    """How the image was made, and how good it is where that is known."""
    parts = [f"{RESEARCH}. Reconstructed from raw k-space by bayesmri {version}, {result.method or 'unknown method'}"]
    if result.mask is not None:
        acquired, cells = int(result.mask.sum()), result.mask.size
        what = "lines" if result.mask.ndim == 1 else "points"
        parts.append(f"{acquired} of {cells} {what} acquired (R = {cells / max(1, acquired):.2f})")
    if result.drawn:
        how = "predicted from" if result.fast else "mean of"
        parts.append(f"{how} {result.drawn} samples of the posterior")
    parts += [*_expected(result.expected), *_bound(result)]
    return one_line("; ".join(parts), limit=DERIVATION)


def _expected(found: Mapping[str, float]) -> list[str]:
    if not found:
        return []
    interval = f"{found['psnr_low']:.1f} to {found['psnr_high']:.1f} for 90 % of scans"
    return [f"expected error: PSNR {found['psnr']:.1f} dB ({interval}), NMSE {found['nmse']:.4f}, by left-out lines"]


def _bound(result: Result) -> list[str]:
    if result.level is None:
        return [f"no error bound: {result.bound_note}"] if result.bound_note else []
    return [f"error bound at {100 * result.level:g} %: {result.promise.get('guarantee', 'promise not recorded')}"]


def comments(said: Messages) -> str:
    """Warnings before notes, since a viewer may show the beginning alone."""
    told = [f"{RESEARCH}, not for diagnosis.", *(f"Warning: {text}." for text in said.warnings)]
    return one_line(" ".join([*told, *(f"Note: {text}." for text in said.notes)]), limit=COMMENTS)


def window(values: np.ndarray, *, least: float) -> tuple[float, float]:
    """(centre, width) of LINEAR_EXACT from 0 to what 99.8 % of the pixels stay below."""
    top = max(float(np.percentile(values, 99.8)), least)
    return top / 2, top
