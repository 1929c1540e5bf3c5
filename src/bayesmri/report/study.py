"""The same content as a page's, asked for slice by slice: what the application shows of a result."""

from collections.abc import Mapping
from typing import Any

from bayesmri.io.results import Result
from bayesmri.report.pack import QUICK, change, image
from bayesmri.report.page import dark_difference, luts
from bayesmri.report.page_data import Image, frame, kspace_frame, kspace_slice, panel_styles
from bayesmri.report.page_names import samples_name, summary
from bayesmri.report.page_samples import SAMPLES_MAX, STRONG


def study(result: Result, layers: Mapping[str, Image]) -> dict[str, Any]:
    """JSON values of all but the pixels; colour ranges of k-space and samples are those of the middle slice.

    layers: what `page_layers` made of the result, once.
    """
    n = len(result.mean)
    kspace = kspace_frame(result)
    kspace["panels"] = panel_styles(result, [kspace_slice(result, n // 2)[1]])
    return {
        **frame(result, layers, list(range(n))),
        "kspace": kspace,
        "samples": _samples(result, n // 2),
        "luts": luts() | {"change": dark_difference()},
        "name": result.name,
        "method": result.method,
        "summary": summary(result),
        "level": result.level,
        "notes": list(result.said.notes),
        "warnings": list(result.said.warnings),
    }


def study_slice(result: Result, layers: Mapping[str, Image], s: int) -> dict[str, Any]:
    """Packed layers and panels of slice s."""
    return {
        "layers": {name: image(layer[s], effort=QUICK).as_json() for name, layer in layers.items()},
        "panels": {name: part.as_json() for name, part in kspace_slice(result, s, effort=QUICK)[0].items()},
    }


def study_samples(result: Result, s: int) -> list[dict[str, float | str]]:
    """Packed samples of slice s."""
    count = min(result.n_samples, SAMPLES_MAX)
    return [change(result.sample(s, i) - result.mean[s], effort=QUICK).as_json() for i in range(count)]


def _samples(result: Result, s: int) -> dict[str, Any] | None:
    if result.n_samples < 2:
        return None
    step = max(float(part["step"]) for part in study_samples(result, s))
    return {**samples_name(), "count": min(result.n_samples, SAMPLES_MAX), "top": STRONG * 127 * step or 1.0}
