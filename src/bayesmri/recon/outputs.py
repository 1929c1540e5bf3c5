"""A reconstruction as files and as facts: HDF5, NIfTI, a panel, and what a command prints."""

from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesmri.analysis.foreground import foreground
from bayesmri.bounds.expected import Expected
from bayesmri.io.atomic import atomic_paths
from bayesmri.io.dicom_out.folder import atomic_folder
from bayesmri.io.dicom_out.write import DicomOut, write_files
from bayesmri.io.geometry import crop_affine, usable_affine, usable_voxel, voxel_sizes
from bayesmri.io.results import GROUP, open_result
from bayesmri.io.write_h5 import name_files, write_reconstruction
from bayesmri.io.write_nifti import write_nifti
from bayesmri.kspace import Header
from bayesmri.messages import Messages
from bayesmri.metrics import Metrics
from bayesmri.recon.crop import common_crop
from bayesmri.recon.files import nifti_kind
from bayesmri.recon.reconstruct import Reconstruction
from bayesmri.recon.samples import column_std
from bayesmri.recon.visibility import about_visibility, visibility_maps
from bayesmri.report.panel import comparison, panel, visibility_tiles


def save(
    result: Reconstruction, targets: dict[str, Path], *, provenance: dict[str, Any], dicom: DicomOut | None = None
) -> Messages:
    """Write a reconstruction to all targets, or to none: h5, nifti, nifti_std, …, png, a folder of DICOM.

    Returns what was said of it, and of its DICOM files.
    """
    volumes = {"nifti": result.mean, "nifti_std": result.std, "nifti_bound": result.error_bound}
    volumes["nifti_error_std"] = result.error_std
    volumes |= {nifti_kind(name): volume for name, volume in visibility_maps(result).items()}
    targets = {kind: path for kind, path in targets.items() if volumes.get(kind, result.mean) is not None}
    with ExitStack() as stack:
        paths = stack.enter_context(atomic_paths(list(targets.values())))
        made = dict(zip(targets, paths, strict=True))
        told = about(result) | about_visibility(result) | {"reconstruction": image_attributes(result)}
        said = Messages(result.notes, result.warnings)
        write_reconstruction(
            made["h5"],
            datasets(result),
            header=shown_header(result),
            provenance=provenance,
            about=told,
            said=said,
        )
        for kind, volume in volumes.items():
            if kind in made and volume is not None:
                see = f"warnings: see {targets['h5'].name}" if said.warnings else ""
                write_nifti(made[kind], volume, result.header, full_shape=result.grid, told=see)
        if "png" in made:
            write_panel(made["png"], result)
        beside = {targets[kind].name: path for kind, path in made.items() if kind != "h5"}
        if dicom is not None:
            folder = stack.enter_context(atomic_folder(dicom.folder))
            with open_result(made["h5"]) as stored:  # what `export` would make of the file
                pass
            written = write_files(stored, folder, dicom)
            said = Messages(tuple(written["notes"]), tuple(written["warnings"]))
            if dicom.folder.parent.resolve() == targets["h5"].parent.resolve():
                beside[dicom.folder.name] = folder
        if beside:
            name_files(made["h5"], beside)
        return said


def shown_header(result: Reconstruction) -> Header:
    """The header with the affine of the images, which may be a central crop of the grid that was measured."""
    affine = result.header.affine
    if affine is None or not usable_affine(affine):
        return result.header
    h, w = result.mean.shape[1:]
    return replace(result.header, affine=crop_affine(affine, result.grid, (h, w)))


def datasets(result: Reconstruction) -> dict[str, NDArray[np.generic]]:
    """By their names in the HDF5 file; what is not known is not there."""
    arrays: dict[str, NDArray[np.generic] | None] = {
        "reconstruction": result.mean,
        "uncertainty_std": result.std,
        "error_std": result.error_std,
        "error_bound": result.error_bound,
        "deterministic": result.deterministic,
        "zero_filled": result.zero_filled,
        "target": result.truth,
        "mask": result.mask,
        "kspace_mean": result.kspace_mean,
        "kspace_std": result.kspace_std,
        "coil_std": result.coil_std,
        "samples": result.samples,
        **{f"{GROUP}/{name}": volume for name, volume in visibility_maps(result).items()},
    }
    return {name: array for name, array in arrays.items() if array is not None}


def image_attributes(result: Reconstruction) -> dict[str, object]:
    """Of the image: scale; expected_psnr, expected_rmse, …, tuned_steps, …, as far as left-out lines told them."""
    known: dict[str, object] = {} if result.scale is None else {"scale": result.scale}
    known |= {} if result.tuned is None else {f"tuned_{name}": value for name, value in asdict(result.tuned).items()}
    if result.expected is None:
        return known
    return known | {f"expected_{name}": value for name, value in expected_facts(result.expected).items() if value != ""}


def expected_facts(found: Expected) -> dict[str, Any]:
    """JSON values."""
    return {**asdict(found), "slices": list(found.slices)}


def about(result: Reconstruction) -> dict[str, dict[str, object]]:
    """Attributes of single datasets: what the error bound promises, or beside σ̂ why there is none."""
    found = result.calibration
    if found is None:
        return {} if result.bound_note is None else {"uncertainty_std": {"bound_note": result.bound_note}}
    names = ("level", "factor", "floor", "relative", "region", "cap", "subjects", "guarantee")
    return {"error_bound": {name: getattr(found, name) for name in names} | {"of": result.bound_of}}


def bound_facts(result: Reconstruction) -> dict[str, Any]:
    """JSON values: the bound, how wide it is, and the share of its region that it holds where the truth is known."""
    if result.calibration is None or result.error_bound is None:
        return {} if result.bound_note is None else {"bound_note": result.bound_note}
    known = {**about(result)["error_bound"], "mean_over_mean_image": _ratio(result.error_bound, result.mean)}
    if result.truth is not None:
        X, Y = common_crop(result.mean, result.truth)
        bound, _ = common_crop(result.error_bound, result.truth)
        inside = foreground(Y) if result.calibration.region == "foreground" else np.ones(Y.shape, dtype=bool)
        if inside.any():
            known["covered"] = float(np.mean((np.abs(X - Y) <= bound)[inside]))
    return {"error_bound": known}


def facts(result: Reconstruction) -> dict[str, Any]:
    """JSON values: method, slices, metrics, seconds; with samples also how they spread, and the error bound."""
    known: dict[str, Any] = {
        "method": result.method,
        "slices": len(result.mean),
        "metrics": {name: vars(row) for name, row in metrics_table(result).items()},
        "seconds": result.seconds,
        **({} if result.scale is None else {"scale": result.scale}),
        **({} if result.tuned is None else {"tuned": asdict(result.tuned)}),
        **({} if result.expected is None else {"expected": expected_facts(result.expected)}),
        **bound_facts(result),
    }
    if result.error_std is not None:
        known["error_std"] = error_facts(result.error_std, result)
    if result.visibility:
        inside = foreground(result.mean)
        known["visibility"] = {text: found.facts(inside) for text, found in result.visibility.items()}
    if result.std is None:
        return known
    uncertainty: dict[str, float | None] = {
        "mean_std": float(result.std.mean(dtype=np.float64)),
        "max_std": float(result.std.max()),
        "mean_std_over_mean_image": _ratio(result.std, result.mean),
    }
    if result.kspace_std is None:  # predicted by the network, of the image alone
        return known | {"uncertainty": uncertainty}
    acquired, missing = column_std(result.kspace_std, result.mask)
    uncertainty |= {"kspace_std_acquired": acquired, "kspace_std_missing": missing}
    drawn = {"samples": result.n_samples, "fast": result.fast, "seed": result.seed}
    return known | drawn | {"uncertainty": uncertainty}


def error_facts(total: NDArray[np.float32], result: Reconstruction) -> dict[str, Any]:
    """JSON values: how large σ_total is, with how many draws it was made, and the actual error's size over it."""
    known: dict[str, Any] = {"mean_over_mean_image": _ratio(total, result.mean), "samples": result.n_samples}
    if result.truth is not None:
        X, Y = common_crop(result.mean, result.truth)
        inside, (size, _) = foreground(Y), common_crop(total, result.truth)
        power = float(np.square(size[inside], dtype=np.float64).sum())
        if power > 0:
            known["error_over_it"] = float(np.sqrt(np.square((X - Y)[inside], dtype=np.float64).sum() / power))
    return known


def metrics_table(result: Reconstruction) -> dict[str, Metrics]:
    """By the estimate's name; empty where no truth is known."""
    if result.truth is None:
        return {}
    rows = {"zero-filled": result.zero_filled_metrics()}
    if result.deterministic is not None:
        rows["deterministic"] = result.deterministic_metrics()
    return rows | {estimate_name(result): result.metrics()}


def estimate_name(result: Reconstruction) -> str:
    """Of the image: the method's, or what it is of the samples."""
    return "mean" if result.n_samples else result.method


def write_panel(path: Path, result: Reconstruction) -> None:
    """Truth | zero-filled | deterministic | mean | std | error std | error bound | error of the middle slice."""
    middle = len(result.mean) // 2

    def shown(X: NDArray[np.float32]) -> NDArray[np.float32]:
        cut = X if result.truth is None else common_crop(X, result.truth)[0]
        return np.asarray(cut[middle])

    estimates = {"zero-filled": result.zero_filled, "deterministic": result.deterministic}
    estimates[estimate_name(result)] = result.mean
    tiles = comparison(
        None if result.truth is None else common_crop(result.truth, result.mean)[0][middle],
        {name: shown(X) for name, X in estimates.items() if X is not None},
        metrics_table(result),
        std=None if result.std is None else (shown(result.std), result.n_samples),
        predicted=result.fast,
        error_std=None if result.error_std is None else shown(result.error_std),
        bound=None
        if result.error_bound is None or result.calibration is None
        else (shown(result.error_bound), result.calibration.level),
    )
    tiles += visibility_tiles({name: shown(volume) for name, volume in visibility_maps(result).items()}, tiles[0][1])
    panel(path, tiles, pixel_aspect=pixel_aspect(result.header), warnings=result.warnings)


def pixel_aspect(header: Header) -> float:
    """Height of a pixel over its width; 1 where the file does not know."""
    if header.affine is not None and usable_affine(header.affine):
        h, w, _ = voxel_sizes(header.affine)
        return h / w
    if header.voxel_mm is not None and usable_voxel(header.voxel_mm):
        return header.voxel_mm[0] / header.voxel_mm[1]
    return 1.0


def _ratio(std: NDArray[np.float32], image: NDArray[np.float32]) -> float:
    return float(std.sum(dtype=np.float64) / max(float(image.sum(dtype=np.float64)), 1e-300))
