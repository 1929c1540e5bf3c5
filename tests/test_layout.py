"""Lines, padding, turns and truths: the laws behind docs/inputs.md, on measured data too where it is here."""

from dataclasses import replace
from pathlib import Path

import nibabel
import numpy as np
import pytest
import torch

import bayesmri
from bayesmri.errors import BayesMRIError, ConfigError
from bayesmri.io.formats import read_kspace
from bayesmri.io.layout.energy import held_lines
from bayesmri.io.layout.extent import extent
from bayesmri.io.layout.given import parse_axes
from bayesmri.kspace import KSpace
from bayesmri.recon.acquisition import Sampling
from bayesmri.recon.files import reconstruct_file
from bayesmri.recon.grid import encoded, padding
from bayesmri.recon.request import Options
from bayesmri.recon.undersample import undersample
from campaign import image, padded, plain_scan, rows, single
from reader_files import write_h5

FILES = sorted((Path(__file__).resolve().parents[2] / "shared" / "data").glob("*/raw/*.h5"))


@pytest.mark.skipif(not FILES, reason="the measured data of ../shared/data is not here")
@pytest.mark.parametrize("R", [4, 8])
def test_masks_of_measured_data_survive_a_round_trip(R: int) -> None:
    for path in FILES[::5]:
        z = read_kspace(path).z[:1]
        W = z.shape[-1]
        lines = (np.arange(W) % R == 0) | (abs(np.arange(W) - W // 2) < 5)
        found = bayesmri.as_kspace(single(np.ascontiguousarray(z * lines)))
        live = held_lines(np.sqrt((np.abs(z.astype(complex)) ** 2).sum(axis=(0, 1, 2))))[0]
        np.testing.assert_array_equal(found.mask, lines & live, err_msg=path.name)


def test_signal_that_falls_off_is_signal() -> None:
    """Ten decades without a gap are no rounding noise; with a gap they are."""
    slope = 10.0 ** -np.linspace(0, 10, 200)
    assert held_lines(slope)[0].all()
    lines, floor = held_lines(np.where(np.arange(200) % 4 == 0, 1e-3, 1e-9))
    assert lines.sum() == 50
    assert floor == pytest.approx(1e-6)


@pytest.mark.parametrize("n", [160, 161, 255, 256])
@pytest.mark.parametrize("inner", [96, 97])
def test_padding_is_found_around_the_centre(n: int, inner: int) -> None:
    held = np.zeros(n, dtype=bool)
    start = n // 2 - inner // 2
    held[start : start + inner] = True
    found = extent(held)
    assert (found.start, found.stop, found.complete) == (start, start + inner, True)


@pytest.mark.parametrize("seed", range(20))
def test_random_lines_are_seldom_called_padded(seed: int) -> None:
    mask = bayesmri.MaskSpec("random", 4.0).draw(320, torch.Generator().manual_seed(seed)).numpy()
    found = extent(mask)
    assert found.stop - found.start > 280


def test_widening_is_the_adjoint_of_narrowing() -> None:
    kspace = bayesmri.as_kspace(padded(plain_scan().z, 128, 161))
    pad = padding(kspace)
    assert pad is not None
    assert encoded(kspace).z.shape == (1, 8, 96, 96)
    rng = torch.Generator().manual_seed(0)
    x, y = (torch.randn(n, dtype=torch.complex128, generator=rng) for n in ((2, 96, 96), (2, 128, 161)))
    wide, narrow = pad.widen(x), pad.narrow(y)
    torch.testing.assert_close(torch.vdot(wide.flatten(), y.flatten()), torch.vdot(x.flatten(), narrow.flatten()))
    torch.testing.assert_close(pad.narrow(wide), x)


def test_padded_scans_have_their_true_acceleration_and_are_undersampled_inside() -> None:
    scan = plain_scan()
    assert bayesmri.as_kspace(padded(scan.z, 96, 160)).acceleration == pytest.approx(96 / scan.mask.sum())
    full = bayesmri.as_kspace(padded(scan.u, 96, 160))
    assert full.fully_sampled
    sampled = undersample(full, Sampling(acceleration=4.0))
    assert sampled.mask.sum() == 24
    assert sampled.acceleration == 4
    assert not sampled.mask[:32].any()


def test_a_turned_scan_comes_back_with_its_geometry(tmp_path: Path) -> None:
    scan = plain_scan()
    affine = np.array([[0, 2, 0, 5], [-1, 0, 0, 7], [0, 0, 3, -9], [0, 0, 0, 1]], dtype=np.float64)
    made = {}
    for name, z, A in (("plain", scan.z, affine), ("turned", rows(scan), affine[:, [1, 0, 2, 3]])):
        path = write_h5(tmp_path / f"{name}.h5", {"kspace": z[None]}, {"affine": A})
        reconstruct_file(path, tmp_path / f"{name}.out.h5", Options(method="sense"), nifti=True)
        made[name] = nibabel.load(tmp_path / f"{name}.out.nii.gz")
    X, Y = (np.asarray(made[name].get_fdata()) for name in ("plain", "turned"))
    np.testing.assert_allclose(Y.swapaxes(0, 1), X, atol=1e-4 * X.max())
    np.testing.assert_allclose(made["turned"].affine[:, [1, 0, 2, 3]], made["plain"].affine)


def test_samples_of_turned_and_padded_scans_have_the_grid_of_the_file() -> None:
    scan = plain_scan()
    for z, shape in ((rows(scan), (96, 96)), (padded(scan.z, 96, 128), (96, 128))):
        made = bayesmri.reconstruct(bayesmri.as_kspace(z), "tdv-r4", samples=2)
        assert made.std is not None
        assert made.kspace_std is not None
        assert made.mean.shape == made.std.shape == made.zero_filled.shape == (1, *shape)
        assert made.kspace_std.shape[-2:] == shape
        assert made.mask.shape[-1] == shape[-1]


def test_a_truth_must_be_of_its_kspace(tmp_path: Path) -> None:
    scan = plain_scan()
    good = write_h5(tmp_path / "a.h5", {"kspace": scan.u[None], "reconstruction_rss": scan.truth[None]})
    assert read_kspace(good).truth is not None
    bad = read_kspace(
        write_h5(tmp_path / "b.h5", {"kspace": scan.u[None], "reconstruction_rss": scan.truth[None, ::-1]})
    )
    assert bad.truth is None
    assert "left out" in bad.header.warnings[0]
    kept = {"kspace": scan.z[None], "mask": scan.mask, "reconstruction_rss": scan.truth[None]}
    assert read_kspace(write_h5(tmp_path / "c.h5", kept)).truth is not None


def test_words_about_arrays_are_refused_where_a_file_knows(tmp_path: Path) -> None:
    path = write_h5(tmp_path / "i.h5", {"image": np.ones((2, 16, 16), np.uint16)})
    with pytest.raises(ConfigError, match="knows its own axes"):
        bayesmri.read(path, axes="slice row column")


@pytest.mark.parametrize("text", ["", "row", "row column row", "row column coil coil", "x y", "row column time"])
def test_axes_name_a_row_and_a_column_once(text: str) -> None:
    with pytest.raises(ConfigError, match="expected row and column once"):
        parse_axes(text)


@pytest.mark.parametrize("noise", [0.3, 1.0])
def test_noise_is_neither_an_image_nor_shifted(noise: float) -> None:
    """Data of so little signal is read: nothing is refused that might be k-space."""
    rng = np.random.default_rng(0)
    u = plain_scan().u
    level = noise * np.sqrt(np.mean(np.abs(u) ** 2))
    for z in (u, 0 * u):
        noisy = z + level * (rng.standard_normal(u.shape) + 1j * rng.standard_normal(u.shape))
        assert bayesmri.as_kspace(noisy).fully_sampled


def test_python_says_what_the_command_says() -> None:
    scan = plain_scan()
    last = np.moveaxis(scan.z, 0, -1)
    with pytest.raises(BayesMRIError, match="--axes"):
        bayesmri.as_kspace(last)
    kspace = bayesmri.as_kspace(last, axes="row column coil")
    assert isinstance(kspace, KSpace)
    np.testing.assert_array_equal(kspace.z[0], scan.z)
    np.testing.assert_allclose(bayesmri.as_kspace(image(scan.z), images=True).z[0], scan.z, atol=1e-5)
    assert replace(kspace.header).turned is False
