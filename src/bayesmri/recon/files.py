"""File in, file out: simulate, undersample and reconstruct, as the commands do."""

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bayesmri.analysis.templates import patch_files, templates
from bayesmri.errors import ConfigError, OutputError
from bayesmri.io.apart.reading import reading
from bayesmri.io.atomic import check_target
from bayesmri.io.dicom_out.folder import check_folder
from bayesmri.io.dicom_out.like import check_slices
from bayesmri.io.dicom_out.write import DicomOut, read_like
from bayesmri.io.formats import read_images, read_kspace
from bayesmri.io.guard import is_folder, one_line
from bayesmri.io.layout.given import NOTHING, Given
from bayesmri.io.masks import read_mask
from bayesmri.io.mrd.choice import FIRST, Choice
from bayesmri.io.provenance import seen_since, stamps
from bayesmri.io.results import GROUP
from bayesmri.io.sensitivity_maps import read_sensitivities
from bayesmri.kspace import Images, KSpace
from bayesmri.physics.pattern import cell_counts
from bayesmri.recon.acquisition import Sampling
from bayesmri.recon.request import Options, check_sensitivities
from bayesmri.zoo import own_files

if TYPE_CHECKING:
    from bayesmri.recon.method import Method

Progress = Callable[[int], AbstractContextManager[Callable[[], None]]]
Anatomy = Literal["knee", "head"]
ODD = re.compile(r"[^\w.+-]+")  # what names of files do without
OTHER_FORMATS = (".nii", ".nii.gz", ".png", ".json", ".npy", ".npz", ".dcm", ".txt")


@dataclass(frozen=True)
class PhantomRequest:
    """anatomy: knee or head; contrast: PD or PD-FS; shape: (H, W); slices: of one volume."""

    anatomy: Anatomy = "knee"
    contrast: Literal["PD", "PD-FS"] = "PD"
    shape: tuple[int, int] = (320, 320)
    slices: int = 1


@dataclass(frozen=True)
class ScanFile:
    """A file and how it is read: the same, on whatever machine sees it. sensitivities: a file of them."""

    path: Path
    given: Given = NOTHING
    choice: Choice = FIRST
    sensitivities: Path | None = None
    trusted: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", self.path.absolute())

    def read(self) -> KSpace:
        kspace = reading(
            lambda: read_kspace(self.path, given=self.given, choice=self.choice), self.path, trusted=self.trusted
        )
        return kspace if self.sensitivities is None else read_sensitivities(self.sensitivities.absolute(), kspace)


def simulate_file(
    source: Path | PhantomRequest,
    out: Path,
    *,
    coils: int = 1,
    snr_db: float | None = None,
    seed: int = 0,
    force: bool = False,
    trusted: bool = True,
    anonymise: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Fully sampled k-space of magnitude images or of a phantom, in fastMRI's layout. force: `out` may be there.

    trusted: a file is read in this process, and not in a child.
    """
    inputs = [source] if isinstance(source, Path) else []
    check_target(out, *inputs, force=force)
    check_ending(out)
    given: Images | PhantomRequest
    if isinstance(source, Path):
        path, before = source, stamps([source])
        given = reading(lambda: read_images(path), path, trusted=trusted)
        (seen,) = seen_since(before, inputs)
    else:
        given, seen = source, []
    from bayesmri.recon.work import phantom_images, simulate_images

    images = given if isinstance(given, Images) else phantom_images(given, seed=seed, progress=progress)
    config = {"source": source.name if isinstance(source, Path) else asdict(source)}
    return simulate_images(
        images,
        out,
        coils=coils,
        snr_db=snr_db,
        seed=seed,
        config=config,
        inputs=seen,
        anonymise=anonymise,
        progress=progress,
    )


def undersample_file(
    path: Path,
    out: Path,
    sampling: Sampling,
    *,
    keep_truth: bool = True,
    single_coil: bool = False,
    given: Given = NOTHING,
    choice: Choice = FIRST,
    trusted: bool = True,
    strict: bool = False,
    force: bool = False,
    anonymise: bool = False,
) -> dict[str, Any]:
    """The lines of a mask, the others zero, in fastMRI's layout with `mask`; the truth goes along unless unwanted.

    choice: which image of an MRD file. trusted: the file is read in this process, and not in a child.
    strict: a warning is an error, and nothing is written. force: `out` may be there, and is overwritten.
    """
    check_file(path)
    check_target(out, path, *sampling.files, force=force)
    check_ending(out)
    before = stamps([path])
    kspace = reading(lambda: read_kspace(path, given=given, choice=choice), path, trusted=trusted)
    (seen,) = seen_since(before, [path])
    from bayesmri.recon.work import write_undersampled

    return write_undersampled(
        kspace,
        seen,
        out,
        sampling,
        keep_truth=keep_truth,
        combined=single_coil,
        strict=strict,
        anonymise=anonymise,
    )


def reconstruct_file(
    path: Path,
    out: Path,
    options: Options,
    sampling: Sampling | None = None,
    *,
    sensitivities: Path | None = None,
    given: Given = NOTHING,
    nifti: bool = False,
    png: bool = False,
    dicom: Path | None = None,
    like: Path | None = None,
    dicom_float: bool = False,
    anonymise: bool = False,
    choice: Choice = FIRST,
    trusted: bool = True,
    force: bool = False,
    progress: Progress | None = None,
    make: "Callable[[Options], Method] | None" = None,
) -> dict[str, Any]:
    """Reconstruct a file; write HDF5, NIfTI and a PNG panel beside it, DICOM where asked; return what was found.

    dicom: a folder for an MR series and Parametric Maps; like, dicom_float: as for `write_dicom`.
    anonymise: all outputs without what identifies a patient; `removed` of what is returned says what that was.

    sensitivities: a file of them, for models that know coils. given: what the user says of an array. force: outputs
    that are there are overwritten.
    choice: which image of an MRD file. trusted: the file is read in this process, and not in a child.
    make: the method of options; one that remembers loads a model once for many files.
    """
    check_file(path)
    targets = output_files(out, nifti=nifti, png=png, std=options.model is not None, visibility=options.visibility)
    inputs = files_read(path, options, sampling, sensitivities)
    sources = [*inputs, *(own_files(options.model) if isinstance(options.model, str) else [])]
    for target in targets.values():
        check_target(target, *sources, force=force)
    check_ending(out)
    asked = dicom_out(dicom, like, as_float=dicom_float, sources=sources, strict=options.strict, force=force)
    lines = read_mask(sampling.files[0]) if sampling is not None and sampling.files else None
    before = stamps(inputs)
    if sensitivities is not None:
        check_sensitivities(options)
    scan = ScanFile(path, replace(given, mask=lines), choice, sensitivities, trusted)
    kspace = scan.read()
    if asked is not None and asked.like is not None:
        check_slices(asked.like, len(kspace.z))
    seen = seen_since(before, inputs)
    from bayesmri.recon.work import reconstruct_to

    held = [kspace]
    del kspace  # a volume that is undersampled on the way is not kept beside what is left of it
    return reconstruct_to(
        held.pop(),
        targets,
        options,
        sampling,
        file=path.name,
        inputs=seen,
        dicom=asked,
        progress=progress,
        reading=reading_settings(given, choice),
        make=make,
        anonymise=anonymise,
        read=scan.read,
    )


def files_read(path: Path, options: Options, sampling: Sampling | None, sensitivities: Path | None) -> list[Path]:
    """All that a reconstruction is made of but the model, the scan first."""
    masks = [] if sampling is None else sampling.files
    return [path, *([] if sensitivities is None else [sensitivities]), *masks, *patch_files(options.visibility)]


def reading_settings(given: Given, choice: Choice) -> dict[str, Any]:
    """How a file is read, as it is recorded: what differs from the default. A mask is recorded by its file."""
    asked = {name: getattr(part, name) for part in (given, choice) for name in vars(part) if name != "mask"}
    usual = {**vars(NOTHING), **vars(FIRST)}
    return {name: value for name, value in asked.items() if value != usual[name]}


def dicom_out(
    folder: Path | None, like: Path | None, *, as_float: bool, sources: Sequence[Path], strict: bool, force: bool
) -> DicomOut | None:
    """Checked before any work, and the series to be like read; None where no DICOM is wanted."""
    if folder is None:
        if like is not None or as_float:
            raise ConfigError("got how DICOM files should be and no folder for them, expected --dicom DIR as well")
        return None
    check_folder(folder, *sources, *([] if like is None else [like]), force=force)
    return DicomOut(folder, read_like(like, trusted=False), as_float, strict)


def check_file(path: Path) -> None:
    """A folder is no k-space: said before anything is said of an output that lies in it."""
    if is_folder(path):
        read_kspace(path)


def check_ending(out: Path) -> None:
    """HDF5 is not written under the name of another format."""
    ending = next((e for e in OTHER_FORMATS if out.name.lower().endswith(e)), None)
    if ending is not None:
        raise OutputError(f"{one_line(out.name)} is to be HDF5 and ends in {ending}: give a name that ends in .h5")


def output_files(out: Path, *, nifti: bool, png: bool, std: bool, visibility: Sequence[str] = ()) -> dict[str, Path]:
    """What is written, by kind: OUT.h5, OUT.nii.gz, OUT_std, OUT_error_std, OUT_bound where known, OUT.png.

    visibility: templates, whose maps are OUT_visibility_lesion-3-0.3.nii.gz.
    """
    targets = {"h5": out}
    if nifti:
        targets["nifti"] = with_ending(out, ".nii.gz")
    if nifti and std:
        targets["nifti_std"] = with_ending(out, "_std.nii.gz")
        targets["nifti_error_std"] = with_ending(out, "_error_std.nii.gz")
        targets["nifti_bound"] = with_ending(out, "_bound.nii.gz")
    for name in (name for template in templates(visibility) for name in template.maps) if nifti else ():
        targets[nifti_kind(name)] = with_ending(out, f"_{GROUP}_{ODD.sub('-', name)}.nii.gz")
    if png:
        targets["png"] = with_ending(out, ".png")
    return targets


def nifti_kind(name: str) -> str:
    """The kind of output that a map of visibility is."""
    return f"nifti_{GROUP}_{name}"


def sampling_facts(kspace: KSpace) -> dict[str, Any]:
    return {
        "coils": kspace.z.shape[1],
        "acceleration": kspace.acceleration,
        **cell_counts(kspace.encoded_mask),
    }


def with_ending(path: Path, ending: str) -> Path:
    """scan.recon.h5 → scan.recon.nii.gz: the last ending is replaced, if it is one of ours."""
    stem = path.name.removesuffix(path.suffix) if path.suffix in (".h5", ".hdf5") else path.name
    return path.with_name(stem + ending)
