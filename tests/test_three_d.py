"""3-D k-space as slices: a unitary transform along the readout, with geometry that follows the axes; BART's files."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from bayesmri.baselines.bart import write_cfl
from bayesmri.cli import main
from bayesmri.errors import ConfigError, DataError
from bayesmri.io.cfl import read_cfl
from bayesmri.io.layout.axes import arrange
from bayesmri.io.layout.given import parse_axes
from bayesmri.io.results import open_result
from bayesmri.io.sensitivity_maps import read_sensitivities
from bayesmri.io.three_d import affine_of_3d, kspace_of_slices, looks_like_slices, slices_of_3d, voxel_of_3d
from bayesmri.recon.reconstruct import reconstruct
from bayesmri.recon.request import Options


def drawn(*shape: int, seed: int = 0) -> NDArray[np.complex64]:
    rng = np.random.default_rng(seed)
    return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(np.complex64)


def ifftnc(k: NDArray[np.complex64], axes: tuple[int, ...]) -> NDArray[np.complexfloating]:
    out: NDArray[np.complexfloating] = np.fft.fftshift(
        np.fft.ifftn(np.fft.ifftshift(k, axes=axes), axes=axes, norm="ortho"), axes=axes
    )
    return out


@pytest.mark.parametrize(("Q", "shape"), [(1, (12, 8, 10)), (3, (9, 11, 8)), (2, (10, 9, 13))])
def test_slices_are_those_of_the_3d_image(Q: int, shape: tuple[int, int, int]) -> None:
    k = drawn(Q, *shape)
    z = slices_of_3d(k)
    assert z.shape == (shape[0], Q, *shape[1:])
    assert z.dtype == np.complex64
    np.testing.assert_allclose(ifftnc(z, (2, 3)).swapaxes(0, 1), ifftnc(k, (1, 2, 3)), atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(z), np.linalg.norm(k), rtol=1e-6)


@pytest.mark.parametrize("RO", [12, 9])
def test_there_and_back(RO: int) -> None:
    k = drawn(2, RO, 8, 9)
    np.testing.assert_allclose(kspace_of_slices(slices_of_3d(k)), k, atol=1e-5)


def test_what_was_not_acquired_is_exactly_zero_in_every_slice() -> None:
    mask = np.random.default_rng(1).random((8, 9)) < 0.4
    z = slices_of_3d(drawn(2, 12, 8, 9) * mask)
    assert not z[..., ~mask].any()
    assert (z[..., mask] != 0).all()


@pytest.mark.parametrize(("RO", "keep"), [(16, 8), (15, 8), (16, 9)])
def test_readout_oversampling_is_cut_from_the_image(RO: int, keep: int) -> None:
    k = drawn(1, RO, 8, 8)
    first = RO // 2 - keep // 2
    np.testing.assert_array_equal(slices_of_3d(k, keep=keep), slices_of_3d(k)[first : first + keep])


def test_geometry_follows_the_axes() -> None:
    voxel = voxel_of_3d((240.0, 160.0, 120.0), (240, 80, 40))
    assert voxel == (2.0, 3.0, 1.0)
    read, phase1, phase2 = np.eye(3)
    at = np.array([5.0, -7.0, 11.0])
    affine = affine_of_3d(read, phase1, phase2, position=at, voxel_mm=voxel, shape=(80, 40, 120))
    assert affine is not None
    ras = np.array([-1.0, -1.0, 1.0])
    np.testing.assert_allclose((affine @ [40, 20, 60, 1])[:3], ras * at)
    np.testing.assert_allclose((affine @ [41, 20, 60, 1])[:3], ras * (at + 2 * phase1))
    np.testing.assert_allclose((affine @ [40, 21, 60, 1])[:3], ras * (at + 3 * phase2))
    np.testing.assert_allclose((affine @ [40, 20, 61, 1])[:3], ras * (at + 1 * read))
    assert affine_of_3d(read, read, phase2, position=at, voxel_mm=voxel, shape=(80, 40, 120)) is None


def test_slices_in_the_place_of_a_phase_encoding_are_seen() -> None:
    x, y, z = np.meshgrid(*(np.linspace(-1, 1, n) for n in (16, 20, 24)), indexing="ij")
    ball = ((x**2 + y**2 + z**2 < 0.6) * (1 + 0.3 * np.cos(9 * x * y))).astype(np.complex64)[None]
    axes = (1, 2, 3)
    k = np.fft.fftshift(np.fft.fftn(ball, axes=axes), axes=axes).astype(np.complex64)
    assert not looks_like_slices(k)
    assert looks_like_slices(np.fft.ifft(np.fft.ifftshift(k, axes=3), axis=3).astype(np.complex64))


def bart(folder: Path, *words: str) -> None:
    subprocess.run(["bart", *words], cwd=folder, check=True, capture_output=True)


def stored(base: Path) -> NDArray[np.complex64]:
    """All dimensions of a file of BART's that are not 1."""
    dims = [int(n) for n in base.with_suffix(".hdr").read_text(encoding="ascii").splitlines()[1].split()]
    return np.fromfile(base.with_suffix(".cfl"), dtype="<c8").reshape(dims, order="F").squeeze()


@pytest.mark.skipif(shutil.which("bart") is None, reason="BART is not installed")
@pytest.mark.parametrize("size", [24, 25])
def test_the_image_of_a_3d_phantom_is_that_of_bart(tmp_path: Path, size: int) -> None:
    bart(tmp_path, "phantom", "-3", "-k", "-x", str(size), "-s", "4", "k")
    bart(tmp_path, "fft", "-u", "-i", "7", "k", "x")
    bart(tmp_path, "rss", "8", "x", "rss")
    kspace = read_cfl(tmp_path / "k")
    assert kspace.z.shape == (size, 4, size, size)
    assert kspace.fully_sampled
    assert any(note.startswith("3-D: the readout of") for note in kspace.header.notes)
    assert not kspace.header.warnings
    out = tmp_path / "out.h5"
    assert main(["recon", str(tmp_path / "k.cfl"), "-o", str(out), "--method", "zero-filled"]) == 0
    wanted = np.abs(stored(tmp_path / "rss"))
    with open_result(out) as result:
        np.testing.assert_allclose(result.mean, wanted, atol=1e-4 * wanted.max())


@pytest.mark.skipif(shutil.which("bart") is None, reason="BART is not installed")
def test_a_poisson_disc_of_bart_is_found_and_reconstructed(tmp_path: Path) -> None:
    """(ky, kz) undersampled by BART, without a mask in the file: R is BART's, and SENSE gains over zero filling."""
    bart(tmp_path, "phantom", "-3", "-k", "-x", "32", "-s", "6", "full")
    bart(tmp_path, "poisson", "-Y", "32", "-Z", "32", "-y", "1.4", "-z", "1.4", "-C", "10", "m")
    bart(tmp_path, "fmac", "full", "m", "k")
    mask = np.abs(stored(tmp_path / "m")) > 0
    kspace, full = read_cfl(tmp_path / "k"), read_cfl(tmp_path / "full")
    assert np.array_equal(kspace.mask, mask)
    assert kspace.acceleration == pytest.approx(mask.size / mask.sum())
    middle = slice(14, 18)
    truth = replace(kspace.part(middle), truth=None)
    Y = reconstruct(full.part(middle), Options(method="zero-filled")).mean
    found = reconstruct(truth, Options(method="sense"))
    assert found.metrics(Y).psnr > found.zero_filled_metrics(Y).psnr + 3


def test_slices_in_dimension_2_are_refused_where_they_are_plainly_no_encoding(tmp_path: Path) -> None:
    x, y, z = np.meshgrid(*(np.linspace(-1, 1, n) for n in (16, 20, 24)), indexing="ij")
    ball = ((x**2 + y**2 + z**2 < 0.9) * (1 + 0.3 * np.cos(9 * x * y))).astype(np.complex64)
    planes = np.fft.fftshift(np.fft.fft2(ball, axes=(0, 1)), axes=(0, 1)).astype(np.complex64)
    write_cfl(tmp_path / "slices", (planes + 0.01 * drawn(*planes.shape))[..., None])
    with pytest.raises(DataError, match="bart transpose 2 13 IN OUT"):
        read_cfl(tmp_path / "slices")


def test_maps_of_3d_scans_are_of_the_slices_of_the_readout(tmp_path: Path) -> None:
    k, maps = drawn(3, 10, 9, 12), drawn(3, 10, 9, 12, seed=1)
    k[:, 5, 4, 6] = 100  # k-space peaks
    write_cfl(tmp_path / "k", k.transpose(1, 2, 3, 0))
    write_cfl(tmp_path / "s", maps.transpose(1, 2, 3, 0))
    found = read_sensitivities(tmp_path / "s.cfl", read_cfl(tmp_path / "k"))
    assert found.sensitivities is not None
    assert found.sensitivities.shape == (10, 1, 3, 9, 12)
    unit = maps / np.sqrt((np.abs(maps) ** 2).sum(axis=0))
    np.testing.assert_allclose(found.sensitivities[:, 0], unit.transpose(1, 0, 2, 3), atol=1e-5)


def test_a_readout_among_the_axes_is_transformed() -> None:
    k = drawn(2, 10, 12, 9)
    found = arrange(k.transpose(2, 3, 1, 0), parse_axes("row column readout coil"))
    np.testing.assert_array_equal(found.z, slices_of_3d(k))
    assert found.notes[-1].startswith("3-D: the readout of 10 was transformed")
    with pytest.raises(ConfigError, match="readout and slice"):
        parse_axes("slice readout row column")
