"""The child that writes a result in another format, for one who takes it away."""

import shutil
import zipfile
from pathlib import Path
from typing import Any

from bayesmri.app.frames import Say, Told, answer
from bayesmri.io.apart.reading import reading_result
from bayesmri.io.dicom_out.write import write_dicom
from bayesmri.io.write_nifti import write_nifti
from bayesmri.recon.export import export
from bayesmri.recon.page import report_file


def nifti(asked: Told, say: Say) -> dict[str, Any]:
    """The image as NIfTI, with the affine that the file knows."""
    with reading_result(Path(asked["path"]), trusted=False) as result:
        see = f"warnings: see {result.name}" if result.said.warnings else ""
        write_nifti(Path(asked["out"]), result.mean, result.header, told=see)
    return {}


def maps(asked: Told, say: Say) -> dict[str, Any]:
    """The image and all of its maps, as NIfTI in one archive."""
    folder = _beside(asked)
    folder.mkdir()
    export(Path(asked["path"]), nifti=folder / f"{asked['name']}.nii.gz", trusted=False)
    return _packed(folder, Path(asked["out"]), asked["name"])


def dicom(asked: Told, say: Say) -> dict[str, Any]:
    """An MR series, and Parametric Maps of what is not certain, in one archive."""
    folder = _beside(asked)
    write_dicom(Path(asked["path"]), folder, trusted=False)
    return _packed(folder, Path(asked["out"]), asked["name"])


def report(asked: Told, say: Say) -> dict[str, Any]:
    """The page that one sends."""
    return report_file(Path(asked["path"]), Path(asked["out"]), trusted=False)


def _beside(asked: Told) -> Path:
    return Path(f"{asked['out']}.files")


def _packed(folder: Path, out: Path, name: str) -> dict[str, Any]:
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for path in sorted(folder.rglob("*")):
            archive.write(path, f"{name}/{path.relative_to(folder)}")
    shutil.rmtree(folder)
    return {}


if __name__ == "__main__":
    answer({"nifti": nifti, "maps": maps, "dicom": dicom, "report": report})
