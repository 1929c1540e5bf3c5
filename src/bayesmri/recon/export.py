"""OUT.h5 of `recon` as DICOM, NIfTI or without its patient, all that is asked for or nothing."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bayesmri.errors import ConfigError
from bayesmri.io.apart.reading import reading_result
from bayesmri.io.atomic import atomic_path, atomic_paths, check_target
from bayesmri.io.dicom_out.folder import atomic_folder
from bayesmri.io.dicom_out.write import write_files
from bayesmri.io.privacy.anonymous import anonymous_result
from bayesmri.io.privacy.copy_h5 import write_anonymous
from bayesmri.io.results import GROUP, Image, Result
from bayesmri.io.write_nifti import write_nifti
from bayesmri.messages import Messages
from bayesmri.recon.files import ODD, check_ending, dicom_out

ENDINGS = {"uncertainty_std": "_std", "error_std": "_error_std", "error_bound": "_bound"}


def export(
    file: Path | str,
    *,
    dicom: Path | str | None = None,
    like: Path | str | None = None,
    dicom_float: bool = False,
    nifti: Path | str | None = None,
    h5: Path | str | None = None,
    anonymise: bool = False,
    strict: bool = False,
    force: bool = False,
    trusted: bool = True,
) -> dict[str, Any]:
    """Write a stored result anew; return what was written, with all that is to be said of it.

    dicom, like, dicom_float: as for `write_dicom`. nifti: NAME.nii.gz, with NAME_std.nii.gz, … for the maps.
    h5: the same file again, for anonymise: which leaves what identifies a patient out of all outputs.
    trusted: the file is read in this process, and not in a child.
    """
    path = Path(file)
    dicom, like, nifti, h5 = (None if one is None else Path(one) for one in (dicom, like, nifti, h5))
    if dicom is None and nifti is None and h5 is None:
        raise ConfigError("got nothing to write, expected --dicom DIR, --nifti NAME.nii.gz or -o NAME.h5 --anonymise")
    if h5 is not None and not anonymise:
        raise ConfigError(
            "got another HDF5 file to write, which would be a copy, expected --anonymise; or copy the file"
        )
    for target in (target for target in (h5, nifti) if target is not None):
        check_target(target, path, force=force)
    if h5 is not None:
        check_ending(h5)
    asked = dicom_out(dicom, like, as_float=dicom_float, sources=[path], strict=strict, force=force)
    with reading_result(path, trusted=trusted) as result:  # all that is wanted of the file is in memory then
        name = result.name
    removed: tuple[str, ...] = ()
    if anonymise:
        result, removed = anonymous_result(result)
    said = result.said
    volumes = {} if nifti is None else _volumes(result, nifti)
    for target in volumes:
        check_target(target, path, force=force)
    said.check(strict=strict)
    with ExitStack() as stack:
        made = stack.enter_context(atomic_paths(list(volumes)))
        if h5 is not None:
            write_anonymous(path, stack.enter_context(atomic_path(h5)), trusted=trusted)
        see = f"warnings: see {result.name}" if said.warnings else ""
        for target, volume in zip(made, volumes.values(), strict=True):
            write_nifti(target, volume, result.header, told=see)
        if asked is not None:
            written = write_files(result, stack.enter_context(atomic_folder(asked.folder)), asked)
            said = Messages(tuple(written["notes"]), tuple(written["warnings"]))
    outputs = [*([] if asked is None else [asked.folder]), *volumes, *([] if h5 is None else [h5])]
    return {
        "file": name,
        "slices": len(result.mean),
        **({} if asked is None else {"series": written["series"], "patient": written["patient"]}),
        **({"removed": list(removed)} if anonymise else {}),
        "outputs": [str(target) for target in outputs],
        **said.as_json(),
    }


def _volumes(result: Result, out: Path) -> dict[Path, Image]:
    base = Path(out.parent, out.name.removesuffix(".gz").removesuffix(".nii"))
    maps = {ENDINGS[key]: image for key, image in result.others.items() if key in ENDINGS}
    maps |= {f"_{GROUP}_{ODD.sub('-', name)}": image for name, image in result.visibility.items()}
    return {out: result.mean} | {base.with_name(f"{base.name}{end}.nii.gz"): image for end, image in maps.items()}
