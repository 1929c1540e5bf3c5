"""What a name stands for: a pair of files is recorded whole, and no output replaces a part of an input."""

import hashlib
import json
from pathlib import Path

import h5py
import pytest

from bayesmri.errors import OutputError
from bayesmri.io.atomic import check_target
from bayesmri.io.inputs import input_files
from bayesmri.recon.files import reconstruct_file
from bayesmri.recon.request import Options
from reader_files import bart_kspace, write_cfl

ZERO_FILLED = Options(method="zero-filled")


@pytest.mark.parametrize("suffix", ["", ".cfl", ".hdr"])
def test_a_pair_reconstructs_under_any_of_its_names_and_both_halves_are_recorded(tmp_path: Path, suffix: str) -> None:
    write_cfl(tmp_path / "scan", bart_kspace(16, 17, 2))
    out = tmp_path / "out.h5"
    reconstruct_file(tmp_path / f"scan{suffix}", out, ZERO_FILLED)
    with h5py.File(out) as file:
        inputs = json.loads(file.attrs["provenance"])["inputs"]
    sums = {name: hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() for name in ("scan.hdr", "scan.cfl")}
    assert {row["name"]: row["sha256"] for row in inputs} == sums


@pytest.mark.parametrize("suffix", ["", ".cfl", ".hdr"])
@pytest.mark.parametrize("target", ["scan.cfl", "scan.hdr"])
def test_neither_half_of_a_pair_is_overwritten(tmp_path: Path, suffix: str, target: str) -> None:
    write_cfl(tmp_path / "scan", bart_kspace(16, 17, 2))
    before = (tmp_path / target).read_bytes()
    with pytest.raises(OutputError, match="input itself"):
        reconstruct_file(tmp_path / f"scan{suffix}", tmp_path / target, ZERO_FILLED)
    assert (tmp_path / target).read_bytes() == before


def test_no_file_of_an_input_folder_is_overwritten(tmp_path: Path) -> None:
    folder = tmp_path / "dicom"
    (folder / "series").mkdir(parents=True)
    (folder / "series" / "1.dcm").write_bytes(b"slice")
    (tmp_path / "link").symlink_to(folder)
    for source in (folder, tmp_path / "link"):
        with pytest.raises(OutputError, match="input folder"):
            check_target(tmp_path / "link" / "series" / "1.dcm", source)
        check_target(folder / "series" / "2.h5", source)


def test_other_names_stand_for_themselves(tmp_path: Path) -> None:
    for name in ("scan.h5", "alone.cfl", "absent", "x" * 5000, "nul\0"):
        assert input_files(tmp_path / name) == (tmp_path / name,)
