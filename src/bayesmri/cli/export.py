"""bayesmri export OUT.h5 --dicom DIR."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from bayesmri.bounded import one_line
from bayesmri.cli.output import count, print_json, print_messages, print_removed, print_wrote
from bayesmri.recon.export import export as export_result


def export(
    file: Path,
    /,
    *,
    dicom: Path | None = None,
    like: Path | None = None,
    dicom_float: bool = False,
    nifti: Path | None = None,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    anonymise: bool = False,
    strict: bool = False,
    force: bool = False,
    trusted: bool = False,
    json: bool = False,
) -> None:
    """Write a reconstruction that is there as DICOM or NIfTI, or without its patient.

    Parameters
    ----------
    file
        What `bayesmri recon` wrote.
    dicom
        New folder for DICOM files: an MR series of the image, and a Parametric Map each for standard deviation, typical
        error, error bound and visibility. Patient, study and place are those of the raw file.
    like
        DICOM file or folder of the same slices: patient and study are taken from it, and the place where the raw file
        knew none.
    dicom_float
        Maps as floating-point numbers instead of 16 bit with a slope, which more viewers show.
    nifti
        NAME.nii.gz to write, with NAME_std.nii.gz, NAME_error_std.nii.gz, NAME_bound.nii.gz and
        NAME_visibility_TEMPLATE.nii.gz as far as they are known.
    output
        HDF5 file to write, with --anonymise: all that FILE holds but what identifies a patient.
    anonymise
        Leave out what identifies a patient (docs/privacy.md), and list what that was.
    strict
        Treat warnings as errors: list them, write nothing and exit with 2.
    force
        Overwrite outputs that are there; a folder only if it holds nothing but DICOM files.
    trusted
        Read the file in this process, and not in a child process with limits of memory and time.
    json
        Print JSON instead of text.
    """
    made = export_result(
        file,
        dicom=dicom,
        like=like,
        dicom_float=dicom_float,
        nifti=nifti,
        h5=output,
        anonymise=anonymise,
        strict=strict,
        force=force,
        trusted=trusted,
    )
    print_messages(made)
    print_removed(made)
    if json:
        print_json(made)
        return
    print(f"{one_line(made['file'])}: {count(made['slices'], 'slice')}")
    for name, title in made.get("series", {}).items():
        print(f"  {name}: {title}")
    print_wrote(made["outputs"])
