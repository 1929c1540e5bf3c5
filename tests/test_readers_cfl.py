"""BART files: axes, refusals, and agreement with BART's own transform."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from bayesmri.errors import BayesMRIError, FormatError
from bayesmri.io.formats import read_kspace, sniff
from reader_files import ifft2c, random_kspace, write_cfl

BART = shutil.which("bart")


@pytest.mark.parametrize("suffix", ["", ".cfl", ".hdr"])
@pytest.mark.parametrize("shape", [(3, 2, 16, 17), (1, 1, 15, 16)])
def test_cfl_axes(tmp_path: Path, shape: tuple[int, int, int, int], suffix: str) -> None:
    slices, Q, H, W = shape
    u = random_kspace(*shape)
    stored = u.transpose(2, 3, 1, 0).reshape(H, W, 1, Q, *(1,) * 9, slices)
    base = write_cfl(tmp_path / "scan.v2", stored)
    path = tmp_path / f"scan.v2{suffix}"
    assert sniff(path) == "cfl"
    np.testing.assert_array_equal(read_kspace(path).z, u)
    assert base.name == "scan.v2"


def test_averages_are_averaged_and_further_axes_noted(tmp_path: Path) -> None:
    u = np.moveaxis(random_kspace(2, 3, 4, 16, 17), (3, 4), (0, 1)).reshape(16, 17, 1, 2, 1, 3, *(1,) * 8, 4)
    data = read_kspace(write_cfl(tmp_path / "a", u))
    wanted = u[:, :, 0, :, 0, 0].mean(axis=-1).reshape(16, 17, 2).transpose(2, 0, 1)
    np.testing.assert_allclose(data.z[0], wanted, rtol=1e-5, atol=1e-6)
    assert len(data.header.notes) == 2


@pytest.mark.parametrize(
    ("dims", "words"),
    [
        ("16 16 8 1 1 1 1 1 1 1 1 1 1 2", "bart slice 13 0"),
        ("1 16 1 1", "readout dimension"),
        ("16 16 1 1 2", "sensitivities"),
        ("16 0 1 1", "empty"),
        ("16 16 1 3", "truncated"),
        ("16 -16 1 1", "positive integers"),
        ("16 x", "positive integers"),
        ("", "positive integers"),
        ("999999999 999999999 1 999", "TB"),
    ],
)
def test_other_layouts_are_refused(tmp_path: Path, dims: str, words: str) -> None:
    numbers = [int(n) for n in dims.split() if n.isdecimal()]
    size = int(np.prod(numbers)) if "truncated" not in words and "TB" not in words else 256
    (tmp_path / "a.hdr").write_text(f"# Dimensions\n{dims}\n")
    (tmp_path / "a.cfl").write_bytes(np.ones(min(size, 4096), "<c8").tobytes())
    with pytest.raises(FormatError, match=words):
        read_kspace(tmp_path / "a")


def test_half_a_pair_is_refused(tmp_path: Path) -> None:
    write_cfl(tmp_path / "a", random_kspace(16, 16))
    (tmp_path / "a.cfl").rename(tmp_path / "b.cfl")
    for name in ("a", "a.hdr", "b.cfl", "b"):
        with pytest.raises(BayesMRIError):
            read_kspace(tmp_path / name)


@pytest.mark.skipif(BART is None, reason="the program `bart` is not installed")
@pytest.mark.parametrize("size", [64, 33])
@pytest.mark.parametrize("coils", [1, 4])
def test_phantom_agrees_with_bart(tmp_path: Path, size: int, coils: int) -> None:
    many = ["-s", str(coils)] if coils > 1 else []
    for command in (["phantom", "-k", "-x", str(size), *many, "k"], ["fft", "-u", "-i", "3", "k", "x"]):
        subprocess.run([str(BART), *command], cwd=tmp_path, check=True, capture_output=True)
    data = read_kspace(tmp_path / "k")
    wanted = np.fromfile(tmp_path / "x.cfl", "<c8").reshape((size, size, coils), order="F").transpose(2, 0, 1)
    np.testing.assert_allclose(ifft2c(data.z[0]), wanted, atol=1e-5 * np.abs(wanted).max())
