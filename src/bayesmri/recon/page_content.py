"""What stands on the page of a reconstruction."""

import math
from typing import Any

import numpy as np

from bayesmri.analysis.foreground import foreground
from bayesmri.errors import BayesMRIError
from bayesmri.io.results import Result
from bayesmri.metrics import slice_metrics, volume_metrics
from bayesmri.recon.crop import common_crop
from bayesmri.report import page_sections as sections
from bayesmri.report.page import Page, render
from bayesmri.report.page_data import page_data
from bayesmri.report.page_names import layer_names, summary
from bayesmri.report.page_sections import FOREGROUND, Compared


def content(result: Result, *, limit: int) -> tuple[str, dict[str, Any]]:
    """The page of a result, and what is on it."""
    data, notes = page_data(result, limit=limit)
    compared = _compared(result)
    page = Page(
        title=result.name,
        summary=summary(result),
        notes=notes,
        kspace=sections.kspace_section(result),
        quality=sections.expected_section(result) + sections.quality_section(compared, linked=data["slices"]),
        bounds=sections.bounds_section(result, compared),
        reading=sections.reading_section(result),
        origin=sections.origin_section(result),
        data=data,
        said=result.said.notes,
        warnings=result.said.warnings,
    )
    shown = 0 if data["samples"] is None else data["samples"]["count"]
    facts = {"slices": len(result.mean), "slices_shown": len(data["slices"]), "samples_shown": shown}
    facts |= {"notes": [*result.said.notes, *notes], "warnings": list(result.said.warnings)}
    return render(page), facts


def _compared(result: Result) -> Any:
    """Metrics of the volume and its slices, zero-filled first, the estimate last."""

    if result.truth is None:
        return Compared({}, {}, missing="No fully sampled image is known: there is nothing to compare with.")
    names = layer_names(result)
    estimates = {
        names[key]["title"]: result.others[key] for key in ("zero_filled", "deterministic") if key in result.others
    } | {names["mean"]["title"]: result.mean}
    pairs = {name: common_crop(X, result.truth) for name, X in estimates.items()}
    try:
        volume = {name: volume_metrics(*pair) for name, pair in pairs.items()}
        slices = {name: slice_metrics(*pair) for name, pair in pairs.items()}
    except BayesMRIError as error:  # a truth without signal, or smaller than SSIM's window
        return Compared({}, {}, missing=f"The metrics have no value here: {error}.")
    return Compared(volume, slices, *_coverage(result))


def _coverage(result: Result) -> tuple[float | None, list[float]]:
    """mean(|X − Y| ≤ bound) of the volume and of every slice, over the pixels that the bound speaks of."""

    if "error_bound" not in result.others or result.truth is None:
        return None, []
    X, Y = common_crop(result.mean, result.truth)
    bound, _ = common_crop(result.others["error_bound"], result.truth)
    inside = foreground(Y) if result.promise.get("region") == FOREGROUND else np.ones(Y.shape, bool)
    held = np.abs(X - Y) <= bound
    slices = [float(h[i].mean()) if i.any() else math.nan for h, i in zip(held, inside, strict=True)]
    return float(held[inside].mean()), slices
