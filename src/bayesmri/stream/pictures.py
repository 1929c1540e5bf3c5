"""A reconstruction as MRD images: mean, σ̂, error bound and typical error, each a series of its own."""

import math
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayesmri.io.geometry import usable_affine, usable_voxel, voxel_sizes
from bayesmri.io.guard import one_line
from bayesmri.io.mrd.grid import Grid
from bayesmri.stream import layout
from bayesmri.stream.messages import Image
from bayesmri.stream.parameters import Pixels

if TYPE_CHECKING:
    from bayesmri.recon.reconstruct import Reconstruction

MEAN, STD, BOUND, ERROR = "mean", "std", "error_bound", "error_std"
SERIES = {MEAN: 1, STD: 2, BOUND: 3, ERROR: 4}
COMMENTS = {
    MEAN: "reconstruction",
    STD: "standard deviation of the samples",
    BOUND: "error bound",
    ERROR: "typical error",
}
PEAK = 2047  # of the first image of a series: 12 bits with room for brighter slices
LARGEST = 4095
SHARE = 0.995  # of the pixels that a window shows
COPIED = (
    *("measurement_uid", "position", "read_dir", "phase_dir", "slice_dir", "patient_table_position"),
    *("acquisition_time_stamp", "physiology_time_stamp", "user_int", "user_float"),
)
COUNTED = ("slice", "contrast", "phase", "repetition", "set")
Meta = Mapping[str, str | Sequence[str]]


@dataclass(frozen=True)
class Scale:
    """pixel = value · factor, rounded. window: the pixel at its upper end."""

    factor: float
    window: int


UNSCALED = Scale(1.0, 0)


class Scales:
    """One factor for every series of a session, by its first image, so that slices can be compared.

    Those of σ̂ and the bounds are powers of two times the mean's. Where a slice would leave 12 bits, its factor and that
    of those after it is smaller by a power of two.
    """

    def __init__(self) -> None:
        self.known: dict[str, Scale] = {}

    def of(self, name: str, values: NDArray[np.float32]) -> tuple[Scale, bool]:
        """(scale, whether it is another than that of the images before)."""
        before = self.known.get(name)
        if before is None:
            self.known[name] = self._first(name, values)
            return self.known[name], False
        bright = float(values.max()) * before.factor / LARGEST
        if bright > 1:
            coarser = 2.0 ** math.ceil(math.log2(bright))
            self.known[name] = Scale(before.factor / coarser, before.window)
        return self.known[name], bright > 1

    def _first(self, name: str, values: NDArray[np.float32]) -> Scale:
        peak = float(values.max())
        factor = PEAK / peak if peak > 0 else 1.0
        if name != MEAN and MEAN in self.known and peak > 0:
            mean = self.known[MEAN].factor
            factor = mean * 2.0 ** math.floor(math.log2(factor / mean))
        return Scale(factor, max(2, round(float(np.quantile(values, SHARE)) * factor)))


def pictures(
    result: "Reconstruction",
    heads: Sequence[Any],
    grid: Grid,
    scales: Scales,
    *,
    pixels: Pixels,
    indices: dict[str, int],
) -> Iterator[Image]:
    """The images of a reconstruction. heads: of the first line of each slice, or slab of a 3-D scan.

    indices: how many images each series has had, counted on here.
    """
    named = {MEAN: result.mean, STD: result.std, BOUND: result.error_bound, ERROR: result.error_std}
    maps = {name: volume for name, volume in named.items() if volume is not None}
    scaled = {name: scales.of(name, volume) for name, volume in maps.items()} if pixels == "int16" else {}
    for s, head in enumerate(heads):
        for name, volume in maps.items():
            part = volume[s * grid.H : (s + 1) * grid.H].transpose(2, 1, 0) if grid.three_d else volume[s].T[None]
            scale, other = scaled.get(name, (UNSCALED, False))
            indices[name] = indices.get(name, 0) + 1
            about = attributes(result, name, head, scales, scale, other=other, window=_window(part, scale))
            yield _image(result, part, head, about, name, scale, indices[name], grid, pixels)


def attributes(
    result: "Reconstruction",
    name: str,
    head: Any,
    scales: Scales,
    scale: Scale,
    *,
    other: bool,
    window: tuple[float, float],
) -> Meta:
    """Meta attributes: those of the standard by their names, our own with BAYESMRI_ before them."""
    version = metadata.version("bayesmri")
    warnings = list(result.warnings)
    if other:
        warnings.append(
            "this image is brighter than 12 bits hold in the scale of those before it: BAYESMRI_Scale has changed, for "
            "this image and those after it"
        )
    known: dict[str, str | list[str]] = {
        "DataRole": ["Image"] if name == MEAN else ["Image", "Quantitative"],
        "ImageProcessingHistory": ["BAYESMRI", version, result.method],
        "SeriesDescriptionAdditional": f"bayesmri_{name}",
        "ImageComments": ["RESEARCH USE ONLY", COMMENTS[name]],
        "WindowCenter": f"{window[0]:.0f}" if scale.window else f"{window[0]:.6g}",
        "WindowWidth": f"{window[1]:.0f}" if scale.window else f"{window[1]:.6g}",
        "Keep_image_geometry": "1",
        "ImageRowDir": _direction(head["read_dir"]),
        "ImageColumnDir": _direction(head["phase_dir"]),
        "BAYESMRI_Map": name,
        "BAYESMRI_Scale": f"{1 / scale.factor:.9g}",
        "BAYESMRI_Unit": "that of the unitary inverse Fourier transform of the lines sent: pixel x BAYESMRI_Scale",
        "BAYESMRI_Method": result.method,
        "BAYESMRI_ModelSHA256": "" if result.model_file is None else result.model_file.sha256,
        "BAYESMRI_Samples": str(result.n_samples),
        "BAYESMRI_Seed": "" if result.seed is None else str(result.seed),
        **_promise(result, name),
        **_expected(result),
        "BAYESMRI_Warnings": warnings,
        "BAYESMRI_Notes": list(result.notes),
    }
    mean = scales.known.get(MEAN)
    if scale.window and mean is not None:
        known["BAYESMRI_StepsPerMeanStep"] = f"{scale.factor / mean.factor:.9g}"
    return {key: value for key, value in known.items() if value}


def meta_xml(about: Meta) -> str:
    """<ismrmrdMeta> with a <meta> for each name."""
    root = ET.Element("ismrmrdMeta")
    for name, values in about.items():
        node = ET.SubElement(root, "meta")
        ET.SubElement(node, "name").text = name
        for value in [values] if isinstance(values, str) else values:
            ET.SubElement(node, "value").text = one_line(value, limit=2000)
    text: str = ET.tostring(root, encoding="unicode")
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + text


def _direction(vector: Any) -> list[str]:
    """Nothing where it was not sent."""
    return [f"{v:.9g}" for v in vector] if np.any(vector) else []


def _promise(result: "Reconstruction", name: str) -> dict[str, str]:
    found = result.calibration
    if name != BOUND or found is None:
        return {}
    return {"BAYESMRI_Level": f"{found.level:g}", "BAYESMRI_Guarantee": found.guarantee}


def _expected(result: "Reconstruction") -> dict[str, str]:
    found = result.expected
    return (
        {}
        if found is None
        else {"BAYESMRI_ExpectedPSNR": f"{found.psnr:.2f}", "BAYESMRI_ExpectedNMSE": f"{found.nmse:.5g}"}
    )


def _window(part: NDArray[np.float32], scale: Scale) -> tuple[float, float]:
    """(centre, width), in pixels as they are sent."""
    top = float(scale.window) if scale.window else float(np.quantile(part, SHARE)) or 1.0
    return top / 2, top


def _image(
    result: "Reconstruction",
    part: NDArray[np.float32],
    line: Any,
    about: Meta,
    name: str,
    scale: Scale,
    index: int,
    grid: Grid,
    pixels: Pixels,
) -> Image:
    """part: (z, y, x), x along the readout."""
    head = np.zeros((), layout.IMAGE_HEAD)
    for field in COPIED:
        head[field] = line[field]
    for field in COUNTED:
        head[field] = line["idx"][field]
    head["version"], head["channels"], head["image_type"] = 1, 1, layout.MAGNITUDE
    head["data_type"] = layout.FLOAT if pixels == "float32" else layout.SHORT
    head["matrix_size"] = part.shape[::-1]
    head["field_of_view"] = _field_of_view(result, part.shape, grid)
    head["image_index"], head["image_series_index"] = index % 65_536, SERIES[name]
    sent = part if pixels == "float32" else np.rint(part.astype(np.float64) * scale.factor)
    kind = "<f4" if pixels == "float32" else "<i2"
    return Image(head, meta_xml(about), np.ascontiguousarray(sent, dtype=kind)[None])


def _field_of_view(result: "Reconstruction", shape: tuple[int, ...], grid: Grid) -> tuple[float, float, float]:
    """Along (x, y, z); zeros where it is not known."""
    header = result.header
    if header.affine is not None and usable_affine(header.affine):
        voxel = voxel_sizes(header.affine)
    elif header.voxel_mm is not None and usable_voxel(header.voxel_mm):
        voxel = header.voxel_mm
    else:
        return 0.0, 0.0, 0.0
    along = (voxel[2], voxel[0], voxel[1]) if grid.three_d else voxel
    z, y, x = shape
    return along[0] * x, along[1] * y, along[2] * z
