"""The error of a scan without its truth: what left-out lines can tell, and that the truth has no part in it."""

import json
import math
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from torch import Tensor

import bayesmri
from bayesmri.bounds.expected import DEFAULT, ErrorScale, Expected, scale_for
from bayesmri.bounds.left_out import LIKELY, N_FOLDS, folds, lost_share, nearness, spectrum
from bayesmri.checkpoint import load_model, save_model
from bayesmri.cli import main
from bayesmri.data.phantom import PhantomSpec, phantom
from bayesmri.errors import ConfigError, DataError
from bayesmri.kspace import Header, KSpace
from bayesmri.physics.data_terms import Channels, Coupled, DataTerm
from bayesmri.physics.fourier import fft2c, ifft2c
from bayesmri.physics.mask import equispaced_mask, random_mask
from bayesmri.physics.scene import loop_sensitivities, smooth_phase
from bayesmri.recon.check import Checker, Scan, holdout_energy, noise_variance, phase_coherence
from bayesmri.recon.method import make_method
from bayesmri.recon.reconstruct import scan_of
from bayesmri.recon.request import Options
from bayesmri.runs import locate
from study_runs import tiny

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "val" / "raw"
SIGMA = 0.02


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def truth(shape: tuple[int, int] = (72, 81), Q: int = 1) -> Tensor:
    """Noise-free coil images of a head, complex (Q, H, W)."""
    image = phantom(PhantomSpec(anatomy="head", contrast="PD", shape=shape, slices=1), rng=rng(3))[0]
    x = image * torch.polar(torch.ones(shape), smooth_phase(shape, rng=rng(4)))
    return (loop_sensitivities(Q, shape, rng=rng(5)) if Q > 1 else torch.ones(1, *shape)) * x


def measured(x: Tensor, seed: int = 1) -> Tensor:
    """Every sample with white noise of variance SIGMA²."""
    noise = torch.randn(x.shape, dtype=torch.complex64, generator=rng(seed))
    return fft2c(x) + SIGMA * noise


def lines(W: int, R: float = 3.0) -> Tensor:
    return random_mask(W, R, center_fraction=0.12, rng=rng(2))


def points(shape: tuple[int, int]) -> Tensor:
    mask = torch.rand(shape, generator=rng(6)) < 0.35
    H, W = shape
    mask[H // 2 - 6 : H // 2 + 7, W // 2 - 6 : W // 2 + 7] = True
    return mask


@pytest.mark.parametrize("mask", [lines(81), lines(64), equispaced_mask(96, 4, rng=rng(0)), points((40, 33))])
def test_folds_partition_what_was_acquired_outside_the_centre(mask: Tensor) -> None:
    found, acquired = folds(mask.numpy()), mask.numpy()
    assert set(np.unique(found)) == {-1, *range(N_FOLDS)}
    assert not found[~acquired].max(initial=-1) > -1
    sizes = [int((found == j).sum()) for j in range(N_FOLDS)]
    assert max(sizes) - min(sizes) <= 1
    kept = acquired & (found < 0)
    assert kept[tuple(n // 2 for n in kept.shape)]
    if mask.ndim == 1:  # the centre is one run of lines
        assert np.diff(np.flatnonzero(kept)).max() == 1


def test_a_centre_alone_has_no_folds() -> None:
    mask = np.abs(np.arange(64) - 32) < 8
    assert folds(mask).max() == -1
    assert lost_share(np.ones(64), np.ones(64), mask, folds(mask)) is None


@pytest.mark.parametrize("size", [12, 13])
def test_nearness_sums_over_neighbours_and_mirror_images(size: int) -> None:
    mask = np.zeros(size, dtype=bool)
    mask[[3, 9]] = True
    centre, acquired = size // 2, np.flatnonzero(mask)
    for c in range(size):
        direct = sum(math.exp(-abs(c - a)) for a in acquired if 0 < abs(c - a) <= 8)
        mirrored = [2 * centre - a for a in acquired if 2 * centre - a < size]
        assert nearness(mask)[c] == pytest.approx(
            direct + sum(math.exp(-abs(c - m)) for m in mirrored if abs(c - m) <= 8)
        )


def test_the_spectrum_of_a_power_law_is_found_between_acquired_lines() -> None:
    k = np.abs(np.arange(160) - 80) / 160
    power, mask = (k + 0.02) ** -2.5, lines(160, 4).numpy()
    np.testing.assert_allclose(spectrum(np.where(mask, power, 0), mask), power, rtol=0.03)


def test_the_share_lost_is_found_where_it_follows_the_formula() -> None:
    """Not only its mean: lines far from acquired ones lose more, as made so."""
    mask = lines(256, 4).numpy()
    fold, k = folds(mask), np.abs(np.arange(256) - 128) / 256
    power = (k + 0.02) ** -2

    def lost(near: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-(0.3 + 1.5 * np.log((k + 0.02) / 0.1) - 0.8 * (np.log(near + 0.02) + 1.5))))

    residual = np.zeros(256)
    for j in range(N_FOLDS):
        residual[fold == j] = (power * lost(nearness(mask & (fold != j))))[fold == j]
    found = lost_share(np.where(mask, power, 0), residual, mask, fold, slopes=(1.0, -0.5))
    assert found is not None
    actual = (power * lost(nearness(mask)))[~mask].sum()
    assert found.energy[~mask].sum() == pytest.approx(actual, rel=0.1)


def test_what_no_scan_has_on_a_missing_line_is_an_error() -> None:
    """A reconstruction that puts a hundred times the usual power on one of them, and one that does not."""
    mask = lines(160, 4).numpy()
    power = (np.abs(np.arange(160) - 80) / 160 + 0.02) ** -2
    known, residual = np.where(mask, power, 0), np.where(folds(mask) >= 0, 0.3 * power, 0)
    plain, usual = (lost_share(known, residual, mask, folds(mask), filled=f) for f in (None, power))
    assert plain is not None
    assert usual is not None
    np.testing.assert_array_equal(usual.energy, plain.energy)
    c = int(np.flatnonzero(~mask)[-1])
    invented = lost_share(known, residual, mask, folds(mask), filled=np.where(np.arange(160) == c, 100, 1) * power)
    assert invented is not None
    added = (invented.energy - plain.energy)[~mask]
    assert added.sum() == pytest.approx(100 * power[c] - LIKELY * plain.power[c])
    assert np.count_nonzero(added) == 1


def test_sensitivities_stay_when_lines_are_left_out() -> None:
    """Of few central lines, where they are refined with the image, and of many."""
    x = truth((48, 64), Q=3)
    model = load_model(locate(Path("tdv-r4")))
    method = make_method(Options(model=model))
    for lines_of in (4, 10):
        mask = equispaced_mask(64, 4, center_fraction=lines_of / 64, offset=0, rng=rng())
        z = (measured(x) * mask)[None].numpy().astype(np.complex64)
        scan = scan_of(KSpace(z, mask.numpy(), Header("array")), method)
        fewer = mask & torch.from_numpy(folds(mask.numpy()) != 1)
        whole, part = scan.begin(0, mask), scan.begin(0, fewer)
        assert isinstance(whole, Coupled)
        assert isinstance(part, Coupled)
        torch.testing.assert_close(part.s, whole.s)
        assert int(fewer.sum()) < int(mask.sum())
        torch.testing.assert_close(part.z, whole.z * fewer)


@pytest.mark.parametrize(("Q", "of"), [(1, "lines"), (3, "lines"), (1, "points")])
def test_of_the_true_image_the_expected_error_is_the_noise(Q: int, of: str) -> None:
    x = truth(Q=Q)
    mask = lines(81) if of == "lines" else points((72, 81))
    z = measured(x) * mask
    held = holdout_energy(Scan(z[None], mask, lambda s, kept: x, lambda s, kept: Channels(z[None] * kept, kept)), 0, x)
    missing = Q * int((~mask).sum()) * (72 if mask.ndim == 1 else 1)
    assert held.missing == pytest.approx(missing * SIGMA**2, rel=0.3)
    assert held.misfit == pytest.approx((Q * 72 * 81 - missing) * SIGMA**2, rel=0.1)


def zero_filled(z: Tensor) -> Scan:
    """Every slice from its own lines."""
    mask = lines(z.shape[-1])

    def begin(s: int, kept: Tensor) -> DataTerm:
        return Channels(z[s][None] * mask * kept, mask & kept)

    return Scan(z * mask, mask, lambda s, kept: ifft2c(begin(s, kept).z[0]), begin)


def expectation(scan: Scan) -> Expected:
    checker = Checker(scan, replace(DEFAULT, spread_db=0.7), lambda X: X)
    for s in range(len(scan.z)):
        checker.add(s, scan.solve(s, scan.mask))
    found, why = checker.expected()
    assert found is not None, why
    return found


def test_data_times_c_has_an_error_times_c() -> None:
    z = measured(truth(Q=2))[None]
    one, large = expectation(zero_filled(z)), expectation(zero_filled(1e6 * z))
    assert large.rmse == pytest.approx(1e6 * one.rmse, rel=1e-4)
    assert large.rmse_complex == pytest.approx(1e6 * one.rmse_complex, rel=1e-4)
    assert (large.psnr, large.nmse) == pytest.approx((one.psnr, one.nmse), rel=1e-4)


def test_slices_in_another_order_have_the_same_error() -> None:
    z = torch.stack([measured(truth(), seed=1), 0.3 * measured(truth().flip(-2), seed=2)])
    one, turned = expectation(zero_filled(z)), expectation(zero_filled(z.flip(0)))
    assert turned.slices == pytest.approx(one.slices[::-1])
    assert turned.psnr == pytest.approx(one.psnr)
    assert one.rmse**2 == pytest.approx(sum(rmse**2 for rmse in one.slices) / 2)


def test_the_interval_is_as_wide_as_the_scale_says() -> None:
    found = expectation(zero_filled(measured(truth())[None]))
    wide = 0.7 * math.sqrt(32 / found.left_out)
    assert (found.psnr - found.psnr_low, found.psnr_high - found.psnr) == pytest.approx((wide, wide))
    assert f"{found.psnr:.1f} dB ± {wide:.1f}" in found.sentence


def test_the_noise_of_the_outer_samples_is_found() -> None:
    x = 0.1 * truth((128, 128), Q=2)
    assert noise_variance(measured(x) * lines(128), lines(128)) == pytest.approx(SIGMA**2, rel=0.15)


def test_phase_that_is_smooth_coheres_and_phase_that_is_noise_does_not() -> None:
    x, mask = truth((96, 96)), lines(96)
    noise = torch.polar(torch.ones(1, 96, 96), 6.28 * torch.rand(1, 96, 96, generator=rng(8)))
    assert phase_coherence(fft2c(x) * mask, mask) > 0.7
    assert abs(phase_coherence(fft2c(noise) * mask, mask)) < 0.3


def test_a_scale_is_of_its_coils_and_near_its_acceleration() -> None:
    one = ErrorScale(spread_db=1.0, arrays=(1, 1), acceleration=4, volumes=5)
    many = ErrorScale(spread_db=2.0, arrays=(2, 32), acceleration=4, volumes=5)
    assert scale_for((one, many), coils=1, acceleration=4.3) is one
    assert scale_for((one, many), coils=8, acceleration=3.5) is many
    assert scale_for((one, many), coils=8, acceleration=8) is DEFAULT
    with pytest.raises(ConfigError, match="finite positive"):
        ErrorScale(spread_db=math.nan)


def scan(R: float = 3.0, Q: int = 1) -> KSpace:
    u = measured(truth(Q=Q))[None].numpy()
    return bayesmri.undersample(KSpace(u, np.ones(81, dtype=bool), Header("array")), R, center_fraction=0.12)


@pytest.mark.parametrize("method", ["tv", "zero-filled", "sense"])
def test_what_is_expected_of_a_method_comes_near_to_what_it_does(method: str) -> None:
    """A factor of 1.6 in the error of a small phantom, by numbers fitted to nothing like it."""
    sampled = scan(Q=3 if method == "sense" else 1)
    result = bayesmri.reconstruct(sampled, method, check=True)
    assert result.expected is not None
    assert not result.expected.fitted
    assert "wide interval" in result.notes[-1]
    assert abs(result.expected.psnr - result.metrics().psnr) < 4
    assert 0.4 < result.expected.nmse / result.metrics().nmse < 2.5


def test_the_truth_has_no_part_in_it() -> None:
    sampled = scan()
    assert sampled.truth is not None
    other = replace(sampled, truth=np.roll(sampled.truth, 9, axis=-1) * 3)
    assert bayesmri.check(sampled, "tv") == bayesmri.check(other, "tv") == bayesmri.check(replace(sampled, truth=None))


def test_with_all_lines_the_error_is_exact() -> None:
    u = measured(truth())[None].numpy()
    result = bayesmri.reconstruct(u, "tv", check=True)
    assert result.expected is not None
    assert result.expected.exact
    full = np.abs(ifft2c(torch.from_numpy(u)).numpy()[:, 0])
    assert result.expected.psnr == pytest.approx(result.metrics(full).psnr, abs=1e-3)
    assert result.expected.psnr_low == result.expected.psnr_high


def test_too_few_lines_are_said_to_be_too_few() -> None:
    mask = np.abs(np.arange(81) - 40) < 8
    mask[[3, 77]] = True
    u = measured(truth())[None].numpy()
    few = KSpace(u * mask, mask, Header("array"))
    with pytest.raises(DataError, match="2 lines outside the centre are too few"):
        bayesmri.check(few, "tv")
    result = bayesmri.reconstruct(few, "tv", check=True)
    assert result.expected is None
    assert "too few" in result.notes[-1]


def test_a_model_keeps_its_scale_and_what_it_says_is_by_it(tmp_path: Path) -> None:
    own = ErrorScale(spread_db=0.9, arrays=(1, 1), acceleration=3.0, bias=2.0, volumes=7, provenance={"seed": 1})
    model = replace(tiny(), scales=(own,))
    save_model(tmp_path / "own.json", model)
    loaded = load_model(tmp_path / "own.json")
    assert loaded.scales == (own,)
    assert loaded.scales[0].provenance == {"seed": 1}
    sampled = scan()
    fitted, plain = bayesmri.check(sampled, loaded), bayesmri.check(sampled, tiny())
    assert fitted.fitted
    assert not plain.fitted
    assert fitted.psnr_high - fitted.psnr == pytest.approx(own.half_width(fitted.left_out))
    assert fitted.rmse_complex == pytest.approx(math.sqrt(2) * plain.rmse_complex, rel=0.02)


def test_file_terminal_and_page_tell_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--phantom", "head", "--size", "64", "-o", str(tmp_path / "full.h5"), "--snr", "25"]) == 0
    words = ["recon", str(tmp_path / "full.h5"), "--acceleration", "3", "-o", str(tmp_path / "out.h5"), "--check"]
    capsys.readouterr()
    assert main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["expected"]
    assert {"psnr", "psnr_low", "psnr_high", "nmse", "rmse"} <= set(told)
    with h5py.File(tmp_path / "out.h5") as file:
        stored = file["reconstruction"].attrs
        assert stored["expected_psnr"] == pytest.approx(told["psnr"])
        assert stored["expected_folds"] == N_FOLDS
    assert main(["report", str(tmp_path / "out.h5"), "-o", str(tmp_path / "out.html")]) == 0
    page = (tmp_path / "out.html").read_text(encoding="utf-8")
    wide = told["psnr_high"] - told["psnr"]
    assert f"expected {told['psnr']:.1f} dB ± {wide:.1f}, measured without a reference" in page
    assert main([*words, "--force"]) == 0
    assert f"expected {told['psnr']:.1f} dB (" in capsys.readouterr().out


@pytest.mark.skipif(not DATA.is_dir(), reason="the measured data in ../shared/data is not here")
def test_on_measured_data_it_comes_near_to_the_truth() -> None:
    """One head at 0.055 T, R = 4, by the shipped model: within 2 dB."""
    full = bayesmri.read(DATA / "lowfield_7a_128x126.h5")
    assert isinstance(full, KSpace)
    sampled = bayesmri.undersample(full.part(slice(4, 5)), 4, seed=1)
    result = bayesmri.reconstruct(sampled, "auto", check=True)
    assert result.expected is not None
    assert abs(result.expected.psnr - result.metrics().psnr) < 2
