"""The door: measured data is read, torch is not woken, and a bad file is refused at once in a fresh process."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bayesmri.io.formats import read, sniff
from bayesmri.kspace import Images, KSpace

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
FILES = sorted(SHARED.glob("*/*/*.h5"))


@pytest.mark.skipif(not FILES, reason="the measured data of ../shared/data is not here")
def test_all_measured_data_is_read() -> None:
    for path in FILES:
        data = read(path)
        if path.parent.name == "raw":
            assert isinstance(data, KSpace)
            assert sniff(path) == "fastmri"
            assert data.fully_sampled
            assert data.truth is not None
            assert data.header.acquisition
        else:
            assert isinstance(data, Images)
            assert sniff(path) == "images-h5"
            assert data.magnitude.max() <= 4095
        # two files were written with an FFT that is not unitary, which the reader must notice
        assert all("other units" in note for note in data.header.notes), path.name
        assert len(data.header.notes) == (path.name in ("jiawang_8ch.h5", "neonate_semi_32ch.h5")), path.name


@pytest.mark.skipif(not FILES, reason="the measured data of ../shared/data is not here")
def test_truth_of_measured_data_is_its_own_image() -> None:
    from reader_files import ifft2c

    for path in (path for path in FILES if path.parent.name == "raw"):
        data = read(path)
        assert isinstance(data, KSpace)
        assert data.truth is not None
        image = np.sqrt((np.abs(ifft2c(data.z)) ** 2).sum(axis=1))
        np.testing.assert_allclose(image, data.truth, atol=1e-3 * data.truth.max())


def test_a_bad_file_is_refused_at_once_and_without_torch(tmp_path: Path) -> None:
    (tmp_path / "a.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))
    script = (
        "import sys, bayesmri.io.formats as formats, bayesmri.errors as errors\n"
        "try:\n    formats.read(sys.argv[1])\n"
        "except errors.FormatError as error:\n    print(error)\n"
        "assert not {'torch', 'nibabel', 'pydicom', 'scipy'} & set(sys.modules), sorted(sys.modules)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", script, str(tmp_path / "a.h5")]
    seconds = []
    for _ in range(8):  # the first warms the disk's cache; on a busy machine others may be slow for no fault of theirs
        before = os.times()
        result = subprocess.run(command, check=True, env=environment, capture_output=True, text=True)
        after = os.times()
        seconds.append(after.children_user + after.children_system - before.children_user - before.children_system)
        if seconds[-1] < 1:
            break
    assert min(seconds) < 1
    assert "damaged or truncated" in result.stdout
    assert result.stdout.count("\n") == 1
    assert result.stderr == ""
