"""RECON.h5 in, one page out; torch is loaded only after the file was found good."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from bayesmri.errors import BayesMRIError, ConfigError
from bayesmri.io.atomic import atomic_path, check_target
from bayesmri.io.results import Result, open_result

MEGABYTES = 30.0


def report_file(path: Path, out: Path, *, megabytes: float = MEGABYTES) -> dict[str, Any]:
    """Write the page; return its name, size, slices and what was cut.

    megabytes: of packed data; what does not fit is left out, and the page says so.
    """
    if not 0.1 <= megabytes <= 500:
        raise ConfigError(f"a page of {megabytes:g} MB: want 0.1 to 500; browsers show more with difficulty")
    check_target(out, path)
    with open_result(path) as result:
        text, facts = _page(result, limit=round(megabytes * 1e6))
    with atomic_path(out) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return {"file": result.name, "output": str(out), "bytes": len(text.encode()), **facts}


def _page(result: Result, *, limit: int) -> tuple[str, dict[str, Any]]:
    from bayesmri.report import page_sections as sections
    from bayesmri.report.page import Page, render
    from bayesmri.report.page_data import page_data
    from bayesmri.report.page_names import summary

    data, notes = page_data(result, limit=limit)
    compared = _compared(result)
    page = Page(
        title=result.name,
        summary=summary(result),
        notes=notes,
        kspace=sections.kspace_section(result),
        quality=sections.quality_section(compared, linked=data["slices"]),
        bounds=sections.bounds_section(result, compared),
        reading=sections.reading_section(result),
        origin=sections.origin_section(result),
        data=data,
    )
    shown = 0 if data["samples"] is None else data["samples"]["count"]
    facts = {"slices": len(result.image), "slices_shown": len(data["slices"]), "samples_shown": shown, "notes": notes}
    return render(page), facts


def _compared(result: Result) -> Any:
    """Metrics of the volume and its slices, zero-filled first, the estimate last."""
    from bayesmri.metrics import slice_metrics, volume_metrics
    from bayesmri.recon.reconstruct import common_crop
    from bayesmri.report.page_names import layer_names
    from bayesmri.report.page_sections import Compared

    if result.truth is None:
        return Compared({}, {}, missing="No fully sampled image is known: there is nothing to compare with.")
    names = layer_names(result)
    estimates = {
        names[key]["title"]: result.others[key] for key in ("zero_filled", "deterministic") if key in result.others
    } | {names["mean"]["title"]: result.image}
    pairs = {name: common_crop(X, result.truth) for name, X in estimates.items()}
    try:
        volume = {name: volume_metrics(*pair) for name, pair in pairs.items()}
        slices = {name: slice_metrics(*pair) for name, pair in pairs.items()}
    except BayesMRIError as error:  # a truth without signal, or smaller than SSIM's window
        return Compared({}, {}, missing=f"The metrics have no value here: {error}.")
    return Compared(volume, slices, *_coverage(result))


def _coverage(result: Result) -> tuple[float | None, list[float]]:
    """mean(|X − Y| ≤ bound) of the volume and of every slice, over the pixels that the bound speaks of."""
    from bayesmri.analysis.quality import foreground
    from bayesmri.recon.reconstruct import common_crop
    from bayesmri.report.page_sections import FOREGROUND

    if "error_bound" not in result.others or result.truth is None:
        return None, []
    X, Y = common_crop(result.image, result.truth)
    bound, _ = common_crop(result.others["error_bound"], result.truth)
    inside = foreground(Y) if result.promise.get("region") == FOREGROUND else np.ones(Y.shape, bool)
    held = np.abs(X - Y) <= bound
    slices = [float(h[i].mean()) if i.any() else math.nan for h, i in zip(held, inside, strict=True)]
    return float(held[inside].mean()), slices
