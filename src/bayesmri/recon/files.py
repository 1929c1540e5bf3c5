"""File in, file out: simulate, undersample and reconstruct, as the commands do."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bayesmri.config import check_seed
from bayesmri.errors import OutputError
from bayesmri.io.atomic import check_target
from bayesmri.io.formats import read_images, read_kspace
from bayesmri.io.guard import is_folder, one_line
from bayesmri.io.inspect import file_notes, mask_warnings
from bayesmri.io.sensitivity_maps import read_sensitivities
from bayesmri.kspace import Header, Images, KSpace
from bayesmri.recon.acquisition import Sampling, undersample
from bayesmri.recon.acquisition import single_coil as to_single_coil
from bayesmri.recon.choice import chosen, extrapolation, renamed
from bayesmri.recon.request import Options, check_sensitivities, check_spread
from bayesmri.zoo import own_files

Progress = Callable[[int], AbstractContextManager[Callable[[], None]]]
OTHER_FORMATS = (".nii", ".nii.gz", ".png", ".json", ".npy", ".npz", ".dcm", ".txt")


@dataclass(frozen=True)
class PhantomRequest:
    """anatomy: knee or head; contrast: PD or PD-FS; shape: (H, W); slices: of one volume."""

    anatomy: Literal["knee", "head"] = "knee"
    contrast: Literal["PD", "PD-FS"] = "PD"
    shape: tuple[int, int] = (320, 320)
    slices: int = 1


def simulate_file(
    source: Path | PhantomRequest,
    out: Path,
    *,
    coils: int = 1,
    snr_db: float | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Fully sampled k-space of magnitude images or of a phantom, in fastMRI's layout."""
    if isinstance(source, Path):
        check_target(out, source)
        check_ending(out)
        images, inputs = read_images(source), [source]
    else:
        check_target(out)
        check_ending(out)
        images, inputs = phantom_images(source, seed=seed, progress=progress), []
    config = {"source": source.name if isinstance(source, Path) else asdict(source)}
    return simulate_images(
        images, out, coils=coils, snr_db=snr_db, seed=seed, config=config, inputs=inputs, progress=progress
    )


def simulate_images(
    images: Images,
    out: Path,
    *,
    coils: int,
    snr_db: float | None,
    seed: int,
    config: Mapping[str, Any],
    inputs: Sequence[Path] = (),
    progress: Progress | None = None,
) -> dict[str, Any]:
    """What a scanner with these coils would measure of the images, written to `out`."""
    import torch

    from bayesmri.data.simulate import Scanner, acquire
    from bayesmri.io.write_h5 import write_kspace
    from bayesmri.recon.acquisition import fully_sampled_image

    rng = torch.Generator().manual_seed(check_seed(seed))
    scanner = Scanner(coils=coils, snr_db=snr_db)
    magnitude = torch.from_numpy(_unit_maximum(images.magnitude))
    with progress(len(magnitude)) if progress else nullcontext() as advance:
        u = acquire(magnitude, scanner, rng=rng, on_slice=advance).numpy()
    kspace = KSpace(z=u, mask=np.ones(u.shape[-1], dtype=bool), header=images.header)
    provenance = _provenance("simulate", {**config, **asdict(scanner)}, seed, inputs)
    write_kspace(out, kspace, provenance=provenance, truth=fully_sampled_image(u))
    return {
        "output": str(out),
        "slices": u.shape[0],
        "coils": u.shape[1],
        "shape": list(u.shape[2:]),
        "seed": seed,
        "notes": file_notes(images),
    }


def phantom_images(request: PhantomRequest, *, seed: int, progress: Progress | None = None) -> Images:
    """The magnitude of a phantom; anatomy follows the seed, apart from the scanner's draws."""
    import torch

    from bayesmri.data.phantom import PhantomSpec, phantom

    spec = PhantomSpec(anatomy=request.anatomy, contrast=request.contrast, shape=request.shape, slices=request.slices)
    rng = torch.Generator().manual_seed(check_seed(seed))
    with progress(request.slices) if progress else nullcontext() as advance:
        magnitude = phantom(spec, rng=rng, on_slice=advance).numpy()
    header = Header(
        source="phantom", acquisition=f"phantom {request.anatomy} {request.contrast}", patient_id=f"phantom {seed}"
    )
    return Images(magnitude=magnitude, header=header)


def undersample_file(
    path: Path, out: Path, sampling: Sampling, *, keep_truth: bool = True, single_coil: bool = False
) -> dict[str, Any]:
    """The lines of a mask, the others zero, in fastMRI's layout with `mask`; the truth goes along unless unwanted."""
    check_file(path)
    check_target(out, path, *sampling.files)
    check_ending(out)
    kspace = read_kspace(path)
    notes = file_notes(kspace)
    sampled = undersample(to_single_coil(kspace) if single_coil else kspace, sampling)

    from bayesmri.io.write_h5 import write_kspace

    config = {**asdict(sampling), "single_coil": single_coil}
    provenance = _provenance("undersample", config, sampling.seed, [path])
    write_kspace(out, sampled, provenance=provenance, truth=sampled.truth if keep_truth else None)
    return {"output": str(out), **sampling_facts(sampled), "notes": notes + mask_warnings(sampled.mask)}


def reconstruct_file(
    path: Path,
    out: Path,
    options: Options,
    sampling: Sampling | None = None,
    *,
    sensitivities: Path | None = None,
    nifti: bool = False,
    png: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Reconstruct a file; write HDF5, and NIfTI and a PNG panel beside it where asked; return what was found.

    sensitivities: a file of them, for models that know coils.
    """
    check_file(path)
    targets = output_files(out, nifti=nifti, png=png, std=options.model is not None)
    sources = [path, *([] if sampling is None else sampling.files)]
    sources += own_files(options.model) if isinstance(options.model, str) else []
    more = [] if sensitivities is None else [sensitivities]
    sources += more
    for target in targets.values():
        check_target(target, *sources)
    check_ending(out)
    kspace = measured = read_kspace(path)
    notes = file_notes(kspace)
    if sensitivities is not None:
        check_sensitivities(options)
        kspace = read_sensitivities(sensitivities, kspace)
    if options.single_coil:
        kspace = to_single_coil(kspace)
    if sampling is not None:
        kspace = undersample(kspace, sampling, otherwise=f"leave {sampling.given} out to reconstruct it as it is")
        notes += mask_warnings(kspace.mask)
    options, choice = chosen(options, kspace)
    check_spread(options.samples)
    notes += renamed(options) + extrapolation(options, kspace)

    from bayesmri.recon.outputs import facts, save
    from bayesmri.recon.reconstruct import reconstruct
    from bayesmri.sampler import slice_digest

    # of the measured coils: the fit of the emulated one may differ in its last bits between machines
    contents = [slice_digest(z, kspace.mask) for z in measured.z] if options.samples else None
    del measured
    with progress(len(kspace.z) * max(1, options.samples)) if progress else nullcontext(None) as advance:
        result = reconstruct(kspace, options, contents=contents, on_step=advance)
    if result.std is None:
        targets.pop("nifti_std", None)
    if result.error_bound is None:
        targets.pop("nifti_bound", None)
    save(result, targets, provenance=_recon_provenance(path, options, sampling, choice, more))
    return {
        "file": path.name,
        **facts(result),
        **({} if choice is None else {"chosen": choice}),
        **sampling_facts(kspace),
        "outputs": [str(target) for target in targets.values()],
        "notes": [*notes, *result.notes],
    }


def check_file(path: Path) -> None:
    """A folder is no k-space: said before anything is said of an output that lies in it."""
    if is_folder(path):
        read_kspace(path)


def check_ending(out: Path) -> None:
    """HDF5 is not written under the name of another format."""
    ending = next((e for e in OTHER_FORMATS if out.name.lower().endswith(e)), None)
    if ending is not None:
        raise OutputError(f"{one_line(out.name)} is to be HDF5 and ends in {ending}: give a name that ends in .h5")


def output_files(out: Path, *, nifti: bool, png: bool, std: bool) -> dict[str, Path]:
    """What is written, by kind: OUT.h5, OUT.nii.gz, OUT_std.nii.gz and OUT_bound.nii.gz where known, OUT.png."""
    targets = {"h5": out}
    if nifti:
        targets["nifti"] = with_ending(out, ".nii.gz")
    if nifti and std:
        targets["nifti_std"] = with_ending(out, "_std.nii.gz")
        targets["nifti_bound"] = with_ending(out, "_bound.nii.gz")
    if png:
        targets["png"] = with_ending(out, ".png")
    return targets


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


def _unit_maximum(magnitude: NDArray[np.float32]) -> NDArray[np.float32]:
    """Divided by the volume's maximum: scanners' units are arbitrary, and files of one scale are easier to compare."""
    peak = float(magnitude.max())
    return magnitude / np.float32(peak) if peak > 0 else magnitude


def _recon_provenance(
    path: Path, options: Options, sampling: Sampling | None, choice: str | None, more: Sequence[Path]
) -> dict[str, Any]:
    """One seed serves the mask and the samples, each deriving its own stream from it.

    A model is an input: its JSON file, which holds the checksum of its weights. choice: what `auto` chose, and why.
    """
    from bayesmri.recon.method import model_name
    from bayesmri.runs import locate

    named = options if options.model is None else replace(options, model=model_name(options.model))
    config = {**asdict(named), "sampling": None if sampling is None else asdict(sampling)}
    if options.model is not None:
        del config["method"]  # whose place the model took
    if choice is not None:
        config["chosen"] = choice
    seed = options.seed if options.samples else None if sampling is None else sampling.seed
    inputs = [path, locate(Path(options.model))] if isinstance(options.model, str) else [path]
    return _provenance("recon", config, seed, [*inputs, *more])


def _provenance(command: str, config: Mapping[str, Any], seed: int | None, inputs: Sequence[Path]) -> dict[str, Any]:
    import torch

    from bayesmri.io.provenance import provenance

    return provenance(command=command, config=config, seed=seed, inputs=inputs, threads=torch.get_num_threads())
