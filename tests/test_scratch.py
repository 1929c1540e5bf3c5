"""What is too large for memory waits on the disk and comes out as it went in."""

from pathlib import Path

import h5py
import numpy as np
import pytest

from bayesmri.io import write_h5
from bayesmri.kspace import Header
from bayesmri.machine import scratch


def test_a_large_room_is_on_the_disk_and_keeps_what_is_put_into_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(scratch, "LARGE", 1000)
    small, large = scratch.room((2, 3), np.float32), scratch.room((4, 5, 25), np.complex64)
    assert not isinstance(small, np.memmap)
    assert isinstance(large, np.memmap)
    wanted = np.arange(500).reshape(4, 5, 25) * (1 + 2j)
    for s in range(4):
        large[s] = wanted[s]
        scratch.out_of_sight(large)
    scratch.out_of_sight(np.asarray(large)[1])
    scratch.out_of_sight(small)
    assert np.array_equal(large, wanted)
    assert not list(tmp_path.iterdir()), "a file with a name would outlive the process"


def test_without_room_on_the_disk_it_is_in_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(scratch, "LARGE", 1000)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "file"))
    assert not isinstance(scratch.room((1000,), np.float32), np.memmap)


def test_arrays_written_slice_by_slice_are_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(scratch, "LARGE", 100)
    monkeypatch.setattr(write_h5, "LARGE", 100)
    volume = scratch.room((3, 6, 7), np.float32)
    volume[:] = np.arange(126).reshape(3, 6, 7)
    about = {"uncertainty_std": {"of": "a test"}}
    given = {"reconstruction": volume, "uncertainty_std": volume}
    write_h5.write_reconstruction(tmp_path / "out.h5", given, header=Header("test"), provenance={}, about=about)
    with h5py.File(tmp_path / "out.h5") as file:
        assert np.array_equal(file["reconstruction"][()], volume)
        assert file["uncertainty_std"].attrs["of"] == "a test"
