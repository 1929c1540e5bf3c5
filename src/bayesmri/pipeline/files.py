"""File in, file out: simulate, undersample and reconstruct, as the commands do."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from bayesmri.atomic import check_target
from bayesmri.data.formats import read_images, read_kspace
from bayesmri.data.kspace import Header, Images, KSpace
from bayesmri.errors import ConfigError
from bayesmri.pipeline.options import Options
from bayesmri.pipeline.sampling import Sampling, undersample
from bayesmri.pipeline.sampling import single_coil as to_single_coil

if TYPE_CHECKING:
    from bayesmri.pipeline.reconstruct import Reconstruction

Progress = Callable[[int], AbstractContextManager[Callable[[], None]]]


@dataclass(frozen=True)
class PhantomRequest:
    """anatomy: knee or head; contrast: PD or PD-FS; shape: (H, W); slices: of one volume."""

    anatomy: Literal["knee", "head"] = "knee"
    contrast: Literal["PD", "PD-FS"] = "PD"
    shape: tuple[int, int] = (320, 320)
    slices: int = 1


def simulate_file(
    source: Path | PhantomRequest, out: Path, *, coils: int = 1, snr_db: float | None = None, seed: int = 0
) -> dict[str, Any]:
    """Fully sampled k-space of magnitude images or of a phantom, in fastMRI's layout."""
    if isinstance(source, Path):
        check_target(out, source)
        images, inputs = read_images(source), [source]
    else:
        check_target(out)
        images, inputs = phantom_images(source, seed=seed), []
    config = {"source": source.name if isinstance(source, Path) else asdict(source)}
    return simulate_images(images, out, coils=coils, snr_db=snr_db, seed=seed, config=config, inputs=inputs)


def simulate_images(
    images: Images,
    out: Path,
    *,
    coils: int,
    snr_db: float | None,
    seed: int,
    config: Mapping[str, Any],
    inputs: Sequence[Path] = (),
) -> dict[str, Any]:
    """What a scanner with these coils would measure of the images, written to `out`."""
    import torch

    from bayesmri.data.simulate import Scanner, acquire
    from bayesmri.export.h5 import write_kspace
    from bayesmri.pipeline.sampling import fully_sampled_image

    rng = torch.Generator().manual_seed(check_seed(seed))
    scanner = Scanner(coils=coils, snr_db=snr_db)
    u = acquire(torch.from_numpy(_unit_maximum(images.magnitude)), scanner, rng=rng).numpy()
    kspace = KSpace(z=u, mask=np.ones(u.shape[-1], dtype=bool), header=images.header)
    provenance = _provenance("simulate", {**config, **asdict(scanner)}, seed, inputs)
    write_kspace(out, kspace, provenance=provenance, truth=fully_sampled_image(u))
    return {"output": str(out), "slices": u.shape[0], "coils": u.shape[1], "shape": list(u.shape[2:]), "seed": seed}


def phantom_images(request: PhantomRequest, *, seed: int) -> Images:
    """The magnitude of a phantom; anatomy follows the seed, apart from the scanner's draws."""
    import torch

    from bayesmri.data.phantom import PhantomSpec, phantom

    spec = PhantomSpec(anatomy=request.anatomy, contrast=request.contrast, shape=request.shape, slices=request.slices)
    magnitude = phantom(spec, rng=torch.Generator().manual_seed(check_seed(seed))).numpy()
    header = Header(source="phantom", acquisition=f"phantom {request.anatomy} {request.contrast}", patient_id="phantom")
    return Images(magnitude=magnitude, header=header)


def undersample_file(
    path: Path, out: Path, sampling: Sampling, *, keep_truth: bool = True, single_coil: bool = False
) -> dict[str, Any]:
    """The lines of a mask, the others zero, in fastMRI's layout with `mask`; the truth goes along unless unwanted."""
    check_target(out, path)
    kspace = read_kspace(path)
    check_seed(sampling.seed)
    sampled = undersample(to_single_coil(kspace) if single_coil else kspace, sampling)

    from bayesmri.export.h5 import write_kspace

    config = {**asdict(sampling), "single_coil": single_coil}
    provenance = _provenance("undersample", config, sampling.seed, [path])
    write_kspace(out, sampled, provenance=provenance, truth=sampled.truth if keep_truth else None)
    return {"output": str(out), **sampling_facts(sampled)}


def reconstruct_file(
    path: Path,
    out: Path,
    options: Options,
    sampling: Sampling | None = None,
    *,
    nifti: bool = False,
    png: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Reconstruct a file; write HDF5, and NIfTI and a PNG panel beside it where asked; return what was found."""
    targets = {"h5": out, **({"nifti": with_ending(out, ".nii.gz")} if nifti else {})}
    targets |= {"png": with_ending(out, ".png")} if png else {}
    for target in targets.values():
        check_target(target, path)
    kspace = read_kspace(path)
    if options.single_coil:
        kspace = to_single_coil(kspace)
    if sampling is not None:
        check_seed(sampling.seed)
        kspace = undersample(kspace, sampling)

    from bayesmri.pipeline.reconstruct import reconstruct

    if progress is None:
        result = reconstruct(kspace, options)
    else:
        with progress(len(kspace.z)) as advance:
            result = reconstruct(kspace, options, on_slice=advance)
    config = {**asdict(options), "sampling": None if sampling is None else asdict(sampling)}
    seed = None if sampling is None else sampling.seed
    save(result, targets, provenance=_provenance("recon", config, seed, [path]))
    return {
        "file": path.name,
        "method": result.method,
        "slices": len(result.image),
        **sampling_facts(kspace),
        "metrics": metrics_table(result),
        "seconds": result.seconds,
        "outputs": [str(target) for target in targets.values()],
    }


def save(result: "Reconstruction", targets: dict[str, Path], *, provenance: dict[str, Any]) -> None:
    """Write a reconstruction to each target: h5, nifti, png."""
    from bayesmri.export.h5 import write_reconstruction
    from bayesmri.export.nifti import write_nifti

    arrays: dict[str, NDArray[np.generic]] = {
        "reconstruction": result.image,
        "zero_filled": result.zero_filled,
        "mask": result.mask,
    }
    if result.truth is not None:
        arrays["target"] = result.truth
    write_reconstruction(targets["h5"], arrays, header=result.header, provenance=provenance)
    if "nifti" in targets:
        write_nifti(targets["nifti"], result.image, result.header, full_shape=result.grid)
    if "png" in targets:
        write_panel(targets["png"], result)


def write_panel(path: Path, result: "Reconstruction") -> None:
    """Truth | zero-filled | reconstruction | error of the middle slice."""
    from bayesmri.pipeline.reconstruct import common_crop
    from bayesmri.report.panel import comparison, panel

    truth, middle = result.truth, len(result.image) // 2
    estimates = {"zero-filled": result.zero_filled, result.method: result.image}
    if truth is not None:
        estimates = {name: common_crop(X, truth)[0] for name, X in estimates.items()}
        truth = common_crop(truth, result.image)[0]
    known = None
    if truth is not None:
        known = {"zero-filled": result.zero_filled_metrics(), result.method: result.metrics()}
    tiles = comparison(
        None if truth is None else truth[middle], {name: X[middle] for name, X in estimates.items()}, known
    )
    panel(path, tiles, pixel_aspect=pixel_aspect(result.header))


def pixel_aspect(header: Header) -> float:
    """Height of a pixel over its width; 1 where the file does not know."""
    from bayesmri.geometry import usable_affine, usable_voxel, voxel_sizes

    if header.affine is not None and usable_affine(header.affine):
        h, w, _ = voxel_sizes(header.affine)
        return h / w
    if header.voxel_mm is not None and usable_voxel(header.voxel_mm):
        return header.voxel_mm[0] / header.voxel_mm[1]
    return 1.0


def metrics_table(result: "Reconstruction") -> dict[str, dict[str, float]]:
    """By method: nmse, psnr, ssim; empty where no truth is known."""
    if result.truth is None:
        return {}
    return {"zero-filled": vars(result.zero_filled_metrics()), result.method: vars(result.metrics())}


def sampling_facts(kspace: KSpace) -> dict[str, Any]:
    return {
        "coils": kspace.z.shape[1],
        "acceleration": kspace.acceleration,
        "acquired_lines": int(kspace.mask.sum()),
        "lines": len(kspace.mask),
    }


def with_ending(path: Path, ending: str) -> Path:
    """scan.recon.h5 → scan.recon.nii.gz: the last ending is replaced, if it is one of ours."""
    stem = path.name.removesuffix(path.suffix) if path.suffix in (".h5", ".hdf5") else path.name
    return path.with_name(stem + ending)


def check_seed(seed: int) -> int:
    if not 0 <= seed < 2**63:
        raise ConfigError(f"seed {seed}: want a whole number from 0 to 2^63 − 1")
    return seed


def _unit_maximum(magnitude: NDArray[np.float32]) -> NDArray[np.float32]:
    """Divided by the volume's maximum: scanners' units are arbitrary, and files of one scale are easier to compare."""
    peak = float(magnitude.max())
    return magnitude / np.float32(peak) if peak > 0 else magnitude


def _provenance(command: str, config: Mapping[str, Any], seed: int | None, inputs: Sequence[Path]) -> dict[str, Any]:
    import torch

    from bayesmri.provenance import provenance

    return provenance(command=command, config=config, seed=seed, inputs=inputs, threads=torch.get_num_threads())
