"""What a page carries of a reconstruction: packed layers, k-space and samples, within a limit, and what was cut."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesmri.data.results import Result
from bayesmri.geometry import center_window
from bayesmri.report.pack import Packed, change, decades, image
from bayesmri.report.page_names import kspace_names, layer_names, mask_name, samples_name
from bayesmri.report.panel import fitting_scale, window

Image = NDArray[np.float32]

SAMPLES_MAX = 16  # a flicker tells no more with the seventeenth
DECADES = 6.0  # of k-space below its largest value that are packed
SHOWN = 4.5  # of these, in the mean
QUANTILE = 0.999
STORED = {
    "zero_filled": "zero_filled",
    "deterministic": "deterministic",
    "std": "uncertainty_std",
    "bound": "error_bound",
}
MAPS = {"std": "viridis", "bound": "plasma"}


@dataclass
class Budget:
    """Characters that are left, and what did not fit."""

    left: int
    notes: list[str] = field(default_factory=list)

    def take(self, packed: Mapping[str, Packed] | list[Packed]) -> bool:
        """Spend what these need, if it is there."""
        parts = packed.values() if isinstance(packed, Mapping) else packed
        needed = sum(len(part.text) for part in parts)
        if needed > self.left:
            return False
        self.left -= needed
        return True


def page_data(result: Result, *, limit: int) -> tuple[dict[str, Any], list[str]]:
    """JSON values for the scripts, and a sentence for all that was cut. limit: in bytes of packed data.

    Slices around the middle go first, then k-space, then samples; one slice is always shown.
    """
    budget = Budget(limit)
    layers = page_layers(result)
    slices, packed = _packed_slices(layers, budget)
    white = window(layers.get("truth", layers["mean"]))
    names = layer_names(result)
    data: dict[str, Any] = {
        "shape": list(result.image.shape[1:]),
        "slices": slices,
        "total_slices": len(result.image),
        "pixel_aspect": pixel_aspect(result),
        "white": white,
        "truth_window": truth_window(result),
        "layers": {
            name: {**names[name], **_map_style(name, layer, white), "data": [part[name].as_json() for part in packed]}
            for name, layer in layers.items()
        },
        "error": _error(layers, result, names, white),
        "kspace": _kspace(result, slices, budget),
        "samples": _samples(result, slices, budget),
    }
    return data, budget.notes


def page_layers(result: Result) -> dict[str, Image]:
    """(slices, h, w) by their names on the page; a truth of another size is cut to the image or padded with 0."""
    layers = {"mean": result.image}
    stored = {
        "zero_filled": "zero_filled",
        "deterministic": "deterministic",
        "std": "uncertainty_std",
        "bound": "error_bound",
    }
    layers |= {name: result.others[key] for name, key in stored.items() if key in result.others}
    if result.truth is not None:
        top, bottom, left, right = truth_window(result) or (0, 0, 0, 0)
        layers["truth"] = np.zeros_like(result.image)
        rows, columns = center_window(_plane(result.truth), _plane(result.image))
        layers["truth"][:, top:bottom, left:right] = result.truth[:, rows, columns]
    return layers


def truth_window(result: Result) -> tuple[int, int, int, int] | None:
    """Where the image has a truth: rows and columns, each from and to."""
    if result.truth is None:
        return None
    rows, columns = center_window(_plane(result.image), _plane(result.truth))
    return rows.start, rows.stop, columns.start, columns.stop


def pixel_aspect(result: Result) -> float:
    """Height of a pixel over its width; 1 where the file does not know, or what it says would hide the image."""
    voxel = result.header.voxel_mm
    ratio = 1.0 if voxel is None else voxel[0] / voxel[1]
    return ratio if 0.05 <= ratio <= 20 else 1.0


def _packed_slices(layers: Mapping[str, Image], budget: Budget) -> tuple[list[int], list[dict[str, Packed]]]:
    n = len(layers["mean"])
    kept: dict[int, dict[str, Packed]] = {}
    for s in sorted(range(n), key=lambda s: (abs(s - n // 2), s)):
        packed = {name: image(layer[s]) for name, layer in layers.items()}
        if not budget.take(packed) and kept:
            break
        kept[s] = packed
    slices = sorted(kept)
    if len(slices) < n:
        budget.notes.append(
            f"To keep the page small it shows {_slices(slices)} of {n}, around the middle; numbers are of all slices."
        )
    return slices, [kept[s] for s in slices]


def _map_style(name: str, layer: Image, white: float) -> dict[str, Any]:
    """The colours of a map and the value at their top: a round part of white that nearly all of it stays below."""
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
    mask = None if result.mask is None else "".join("1" if line else "0" for line in result.mask)
    known: dict[str, Any] = {"mask": mask, "mask_about": mask_name(result), "panels": {}}
    known["shape"] = list(result.grid or result.image.shape[1:])
    readers: dict[str, Callable[[int], Image]] = (
        {"mean": result.kspace_mean, "std": result.kspace_std}
        if result.grid is not None
        else {"mean": lambda s: fourier_magnitude(result.image[s])}
    )
    panels: dict[str, list[Packed]] = {name: [] for name in readers}
    highest, lowest = -DECADES, 0.0
    for s in slices:
        peak = float(readers["mean"](s).max())
        packed = {name: decades(read(s), peak, below=DECADES) for name, read in readers.items()}
        if not budget.take(packed):
            budget.notes.append("To keep the page small k-space is left out.")
            return known
        for name, part in packed.items():
            panels[name].append(part)
        if "std" in readers and peak > 0:
            spread = np.log10(np.maximum(readers["std"](s) / peak, 10**-DECADES))
            lowest, highest = min(lowest, float(np.quantile(spread, 0.01))), max(highest, float(spread.max()))
    ranges = {"mean": [-SHOWN, 0.0], "std": [min(lowest, highest - 1), highest]}
    names = kspace_names(result)
    known["panels"] = {
        name: {**names[name], "range": ranges[name], "lut": "viridis" if name == "std" else "", "data": _json(parts)}
        for name, parts in panels.items()
    }
    return known


def fourier_magnitude(X: Image) -> Image:
    """|F X|, zero frequency in the centre."""
    axes = (-2, -1)
    u = np.fft.fftshift(np.fft.fft2(np.fft.ifftshift(X.astype(np.float64), axes=axes), norm="ortho"), axes=axes)
    return np.abs(u).astype(np.float32)


def _samples(result: Result, slices: list[int], budget: Budget) -> dict[str, Any] | None:
    """The first samples of every slice, as what they differ from the mean by."""
    kept: list[list[Packed]] = []
    top = 0.0
    for i in range(min(result.n_samples, SAMPLES_MAX)):
        differences = [result.sample(s, i) - result.image[s] for s in slices]
        packed = [change(D) for D in differences]
        if not budget.take(packed):
            break
        kept.append(packed)
        top = max(top, *(float(np.quantile(np.abs(D), QUANTILE)) for D in differences))
    if result.n_samples and len(kept) < 2:
        why = "to keep the page small" if result.n_samples > 1 else "one does not flicker"
        budget.notes.append(f"The samples in the file are left out: {why}.")
        return None
    if len(kept) < result.n_samples:
        budget.notes.append(f"To keep the page small it shows {len(kept)} of the {result.n_samples} samples kept.")
    if not kept:
        return None
    return {
        **samples_name(result),
        "top": top or 1.0,
        "data": [_json([part[j] for part in kept]) for j in range(len(slices))],
    }


def _json(parts: list[Packed]) -> list[dict[str, float | str]]:
    return [part.as_json() for part in parts]


def _slices(slices: list[int]) -> str:
    return f"slice {slices[0] + 1}" if len(slices) == 1 else f"slices {slices[0] + 1} to {slices[-1] + 1}"


def _plane(volume: Image) -> tuple[int, int]:
    return volume.shape[1], volume.shape[2]
