"""3-D k-space as slices: a unitary transform along the readout, with geometry that follows the axes."""

import numpy as np
import pytest
from numpy.typing import NDArray

from bayesmri.io.three_d import affine_of_3d, kspace_of_slices, looks_like_slices, slices_of_3d, voxel_of_3d


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
