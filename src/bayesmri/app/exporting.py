"""The child that writes a result in another format, for one who takes it away."""

from pathlib import Path
from typing import Any

from bayesmri.app.frames import Say, Told, answer
from bayesmri.io.apart.reading import reading_result
from bayesmri.io.write_nifti import write_nifti
from bayesmri.recon.page import report_file


def nifti(asked: Told, say: Say) -> dict[str, Any]:
    """The image as NIfTI, with the affine that the file knows."""
    with reading_result(Path(asked["path"]), trusted=False) as result:
        see = f"warnings: see {result.name}" if result.said.warnings else ""
        write_nifti(Path(asked["out"]), result.mean, result.header, told=see)
    return {}


def report(asked: Told, say: Say) -> dict[str, Any]:
    """The page that one sends."""
    return report_file(Path(asked["path"]), Path(asked["out"]), trusted=False)


if __name__ == "__main__":
    answer({"nifti": nifti, "report": report})
