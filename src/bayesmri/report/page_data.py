"""What a page carries of a reconstruction: packed layers, k-space and samples, within a limit, and what was cut."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesmri.io.geometry import center_window, edge_letters
from bayesmri.io.results import Result
from bayesmri.report.pack import BEST, Packed, decades, image
from bayesmri.report.page_budget import Budget, as_json, middle_out, slices_text
from bayesmri.report.page_names import kspace_names, layer_names, mask_name
from bayesmri.report.page_samples import page_samples
from bayesmri.report.panel import fitting_scale, window

Image = NDArray[np.float32]

DECADES = 6.0  # of k-space below its largest value that are packed
SHOWN = 4.5  # of these, in the mean
STORED = {
    "zero_filled": "zero_filled",
    "deterministic": "deterministic",
    "std": "uncertainty_std",
    "error_std": "error_std",
    "bound": "error_bound",
}
OPTIONAL = "deterministic"  # nearly the mean: the first image to go
VISIBILITY = "visibility/"  # before the text of a template
MAPS = {"std": "viridis", "error_std": "plasma", "bound": "plasma"}


def page_data(result: Result, *, limit: int) -> tuple[dict[str, Any], list[str]]:
    """JSON values for the scripts, and a sentence for all that was cut. limit: in bytes of packed data.

    Slices around the middle go first, then k-space, samples, and the deterministic image; one slice is always shown.
    """
    budget = Budget(limit)
    layers = page_layers(result)
    needed = {name: layer for name, layer in layers.items() if name != OPTIONAL}
    slices, packed = _packed_slices(needed, budget)
    kspace = _kspace(result, slices, budget)
    samples = page_samples(result, slices, budget)
    packed |= _packed_optional(layers, slices, budget)
    data = frame(result, layers, slices)
    data["layers"] = {name: {**data["layers"][name], "data": as_json(parts)} for name, parts in packed.items()}
    return {**data, "kspace": kspace, "samples": samples}, budget.notes


def frame(result: Result, layers: Mapping[str, Image], slices: list[int]) -> dict[str, Any]:
    """JSON values of all that stands around the pixels: sizes, names, colours, ranges; layers without their data."""
    white = window(layers.get("truth", layers["mean"]))
    names = layer_names(result)
    return {
        "shape": list(result.mean.shape[1:]),
        "slices": slices,
        "total_slices": len(result.mean),
        "pixel_aspect": pixel_aspect(result),
        "voxel": result.header.voxel_mm,
        "letters": edge_letters(result.header.affine),
        "white": white,
        "truth_window": truth_window(result),
        "layers": {name: {**names[name], **_map_style(name, layer, white)} for name, layer in layers.items()},
        "error": _error(layers, result, names, white),
    }


def page_layers(result: Result) -> dict[str, Image]:
    """(slices, h, w) by their names on the page; a truth of another size is cut to the image or padded with 0."""
    layers = {"mean": result.mean}
    layers |= {name: result.others[key] for name, key in STORED.items() if key in result.others}
    layers |= {f"{VISIBILITY}{name}": image for name, image in result.visibility.items()}
    if result.truth is not None:
        top, bottom, left, right = truth_window(result) or (0, 0, 0, 0)
        layers["truth"] = np.zeros_like(result.mean)
        rows, columns = center_window(_plane(result.truth), _plane(result.mean))
        layers["truth"][:, top:bottom, left:right] = result.truth[:, rows, columns]
    return layers


def truth_window(result: Result) -> tuple[int, int, int, int] | None:
    """Where the image has a truth: rows and columns, each from and to."""
    if result.truth is None:
        return None
    rows, columns = center_window(_plane(result.mean), _plane(result.truth))
    return rows.start, rows.stop, columns.start, columns.stop


def pixel_aspect(result: Result) -> float:
    """Height of a pixel over its width; 1 where the file does not know, or what it says would hide the image."""
    voxel = result.header.voxel_mm
    ratio = 1.0 if voxel is None else voxel[0] / voxel[1]
    return ratio if 0.05 <= ratio <= 20 else 1.0


def _packed_slices(layers: Mapping[str, Image], budget: Budget) -> tuple[list[int], dict[str, list[Packed]]]:
    """The slices that fit, from the middle outwards, and every layer of them."""
    n = len(layers["mean"])
    kept: dict[int, dict[str, Packed]] = {}
    for s in middle_out(range(n)):
        packed = {name: image(layer[s]) for name, layer in layers.items()}
        if not budget.take(packed) and kept:
            break
        kept[s] = packed
    slices = sorted(kept)
    if len(slices) < n:
        shown = f"{slices_text(slices)} of {n}, around the middle"
        budget.notes.append(f"To keep the page small it shows {shown}; numbers are of all slices.")
    return slices, {name: [kept[s][name] for s in slices] for name in layers}


def _packed_optional(layers: Mapping[str, Image], slices: list[int], budget: Budget) -> dict[str, list[Packed]]:
    if OPTIONAL not in layers:
        return {}
    packed = [image(layers[OPTIONAL][s]) for s in slices]
    if budget.take(packed):
        return {OPTIONAL: packed}
    budget.notes.append("To keep the page small the deterministic image is left out.")
    return {}


def _map_style(name: str, layer: Image, white: float) -> dict[str, Any]:
    """The colours of a map and the value at their top: a round part of white that nearly all of it stays below."""
    if name.startswith(VISIBILITY):
        return {"lut": "cividis", "top": 100.0, "unit": "%"}
    return {"lut": MAPS[name], "top": white / fitting_scale(layer, white)} if name in MAPS else {}


def _error(
    layers: Mapping[str, Image], result: Result, names: Mapping[str, Any], white: float
) -> dict[str, Any] | None:
    found = truth_window(result)
    if found is None:
        return None
    inside = (slice(None), slice(found[0], found[1]), slice(found[2], found[3]))
    error = np.abs(layers["mean"][inside] - layers["truth"][inside])
    return {**names["error"], "lut": "inferno", "top": white / fitting_scale(error, white)}


def _kspace(result: Result, slices: list[int], budget: Budget) -> dict[str, Any]:
    """Magnitudes relative to the largest of the slice's mean, as decades; of the image where k-space is not known."""
    known = kspace_frame(result)
    panels: dict[str, list[Packed]] = {}
    ranges: list[tuple[float, float]] = []
    for s in slices:
        packed, spread = kspace_slice(result, s)
        if not budget.take(packed):
            budget.notes.append("To keep the page small k-space is left out.")
            return known
        ranges.append(spread)
        for name, part in packed.items():
            panels.setdefault(name, []).append(part)
    styles = panel_styles(result, ranges)
    known["panels"] = {name: {**styles[name], "data": as_json(parts)} for name, parts in panels.items()}
    return known


def kspace_frame(result: Result) -> dict[str, Any]:
    """Mask and sizes; no panels yet."""
    mask = None if result.mask is None else "".join("1" if cell else "0" for cell in result.mask.flat)
    known: dict[str, Any] = {"mask": mask, "mask_about": mask_name(result), "panels": {}}
    if result.mask is not None:
        known["mask_width"] = result.mask.shape[-1]
    return known | {"shape": list(result.grid or result.mean.shape[1:])}


def kspace_slice(result: Result, s: int, *, effort: int = BEST) -> tuple[dict[str, Packed], tuple[float, float]]:
    """The panels of slice s, and from where to where the decades of the deviation reach."""
    readers: dict[str, Callable[[int], Image]] = (
        {"mean": result.kspace_mean, "std": result.kspace_std}
        if result.grid is not None
        else {"mean": lambda s: fourier_magnitude(result.mean[s])}
    )
    found = {name: read(s) for name, read in readers.items()}
    peak = float(found["mean"].max())
    packed = {name: decades(part, peak, below=DECADES, effort=effort) for name, part in found.items()}
    if "std" not in found or peak <= 0:
        return packed, (0.0, -DECADES)
    spread = np.log10(np.maximum(found["std"] / peak, 10**-DECADES))
    return packed, (min(0.0, float(np.quantile(spread, 0.01))), max(-DECADES, float(spread.max())))


def panel_styles(result: Result, ranges: Sequence[tuple[float, float]]) -> dict[str, dict[str, Any]]:
    """Names, colours and ranges of the panels of k-space. ranges: as `kspace_slice` found them."""
    lowest, highest = min(low for low, _ in ranges), max(high for _, high in ranges)
    shown = {"mean": [-SHOWN, 0.0], "std": [min(lowest, highest - 1), highest]}
    return {
        name: {**names, "range": shown[name], "lut": "viridis" if name == "std" else ""}
        for name, names in kspace_names(result).items()
    }


def fourier_magnitude(X: Image) -> Image:
    """|F X|, zero frequency in the centre."""
    axes = (-2, -1)
    u = np.fft.fftshift(np.fft.fft2(np.fft.ifftshift(X.astype(np.float64), axes=axes), norm="ortho"), axes=axes)
    return np.abs(u).astype(np.float32)


def _plane(volume: Image) -> tuple[int, int]:
    return volume.shape[1], volume.shape[2]
