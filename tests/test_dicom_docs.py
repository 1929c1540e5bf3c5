"""Every command of docs/dicom.md runs, in the order of the page, and writes what the page says."""

from pathlib import Path

import h5py
import pytest

from bayesmri.cli import main
from bayesmri.io.dicom_out.write import write_dicom
from bayesmri.recon.acquisition import Sampling
from bayesmri.recon.files import PhantomRequest, simulate_file, undersample_file
from dicom_results import oblique
from doc_commands import commands

pytest.importorskip("highdicom", reason="highdicom is not installed")


def scan(folder: Path) -> None:
    """folder/scan.h5: undersampled, of one coil and an unknown place."""
    simulate_file(PhantomRequest("knee", "PD", (36, 32), 2), folder / "full.h5", snr_db=30)
    undersample_file(folder / "full.h5", folder / "scan.h5", Sampling(2.0), keep_truth=False)
    (folder / "full.h5").unlink()


def scanner_series(folder: Path) -> None:
    """folder/scanner_series: the same slices, with a place, as a scanner would have made them."""
    with h5py.File(folder / "scan.recon.h5", "r") as file:
        attributes, image = dict(file.attrs), file["reconstruction"][()]
    del attributes["checksums"]  # of other content
    with h5py.File(folder / "other.h5", "w") as file:
        file["reconstruction"] = image
        file.attrs.update({**attributes, "affine": oblique()})
    write_dicom(folder / "other.h5", folder / "scanner_series")


def test_the_commands_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    scan(tmp_path)
    first, second, third = commands("dicom.md")
    assert main(first[1:]) == 0
    assert main(second[1:]) == 0
    made = sorted(p.relative_to(tmp_path / "scan_dicom") for p in (tmp_path / "scan_dicom").rglob("*.dcm"))
    assert {str(path) for path in made} >= {"mean/0001.dcm", "mean/0002.dcm", "std.dcm", "error_std.dcm"}
    for path in made:
        assert (tmp_path / "scan_dicom" / path).read_bytes() == (tmp_path / "again" / path).read_bytes()
    scanner_series(tmp_path)
    assert main(third[1:]) == 0
    assert len(list((tmp_path / "placed" / "mean").iterdir())) == 2
