"""Masks of points from data to result: every method, samples, files, pages, training; bounds of lines are withheld."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import bayesmri
from bayesmri.baselines.irim import IRIMConfig
from bayesmri.baselines.sigmanet import SigmaNetConfig
from bayesmri.baselines.unet import UNetConfig
from bayesmri.baselines.varnet import VarNetConfig
from bayesmri.bounds.bound import Calibration, Setting
from bayesmri.cli import main
from bayesmri.data.dataset import Batch, Recipe, make_element, make_validation
from bayesmri.errors import ConfigError, MaskError
from bayesmri.io.results import open_result
from bayesmri.io.write_h5 import write_kspace
from bayesmri.kspace import Header, KSpace
from bayesmri.model import Coils, LearnedConfig, Model, build
from bayesmri.physics.fourier import fft2c, ifft2c
from bayesmri.physics.mask import MaskSpec
from bayesmri.physics.measured import measured_lines
from bayesmri.physics.pattern import kind_of, mask_notes
from bayesmri.recon.acquisition import Sampling
from bayesmri.recon.files import PhantomRequest, reconstruct_file, simulate_file
from bayesmri.recon.reconstruct import reconstruct
from bayesmri.recon.request import MethodName, Options
from bayesmri.recon.samples import column_std
from bayesmri.recon.undersample import undersample
from bayesmri.solver import Scheme
from bayesmri.studies.run import run_study
from study_runs import request, save_models, tiny

H, W = 33, 40


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("points")
    simulate_file(PhantomRequest("head", "PD", (H, W)), where / "one.h5", snr_db=30, seed=1)
    simulate_file(PhantomRequest("head", "PD", (H, W)), where / "five.h5", coils=5, snr_db=30, seed=2)
    return where


def sampled(path: Path, R: float = 3, mask: str = "poisson", center: float | None = 0.3) -> KSpace:
    return undersample(bayesmri.read(path), Sampling(R, center, mask, seed=4))  # type: ignore[arg-type]


@pytest.mark.parametrize("mask", ["poisson", "elliptical"])
@pytest.mark.parametrize("name", ["one", "five"])
@pytest.mark.parametrize("method", ["zero-filled", "tv", "sense", "l1-wavelet"])
def test_every_method_takes_points(folder: Path, name: str, method: MethodName, mask: str) -> None:
    if method == "l1-wavelet":
        pytest.importorskip("sigpy", reason="SigPy is not installed")
    kspace = sampled(folder / f"{name}.h5", mask=mask)
    assert kspace.mask.shape == (H, W)
    assert kspace.acceleration == pytest.approx(3, rel=2e-3)
    result = reconstruct(kspace, Options(method=method))
    gain = result.metrics().psnr - result.zero_filled_metrics().psnr
    assert gain > (-1e-3 if method == "zero-filled" or (name, method) == ("one", "sense") else 0.5)


@pytest.mark.parametrize(
    "config",
    [
        VarNetConfig(Q=5, cascades=1, features=4, pools=2, sens_features=2, sens_pools=2),
        SigmaNetConfig(Q=5, iterations=1),
        UNetConfig(Q=5, features=4, pools=2),
        IRIMConfig(Q=5, steps=1, channels=20, hidden=(8,), strides=(2,)),
    ],
)
def test_every_network_takes_points(folder: Path, config: LearnedConfig) -> None:
    """And whole columns written as points are columns."""
    full = bayesmri.read(folder / "five.h5")
    assert isinstance(full, KSpace)
    model = Model(build(config, torch.Generator().manual_seed(0)), T=0.0, S=1, coils=Coils("raw", 5))
    z = torch.from_numpy(full.z)
    points = MaskSpec("poisson", 3, 0.3).draw((H, W), torch.Generator().manual_seed(1))
    assert model.reconstruct(z * points, points).isfinite().all()
    lines = MaskSpec("random", 3, 0.3).draw(W, torch.Generator().manual_seed(1))
    of_lines, of_points = (model.reconstruct(z * lines, mask) for mask in (lines, lines.expand(H, W)))
    torch.testing.assert_close(of_points, of_lines)


def coil_aware() -> Model:
    return replace(tiny(), coils=Coils("sensitivities", 4))


@pytest.mark.parametrize("center", [0.3, 0.1])
@pytest.mark.parametrize("name", ["one", "five"])
def test_samples_and_coils(folder: Path, name: str, center: float) -> None:
    """With enough central points and with few, whose sensitivities are refined; missing points are less sure."""
    kspace = sampled(folder / f"{name}.h5", center=center, R=6)
    result = reconstruct(kspace, Options(model=coil_aware(), samples=3))
    assert result.std is not None
    assert result.kspace_std is not None
    acquired, missing = column_std(result.kspace_std, kspace.mask)
    assert missing is not None
    assert missing > 1.5 * acquired
    few = center == 0.1 and name == "five"
    assert any("sensitivities were refined" in note for note in (*result.notes, *result.warnings)) == few


def test_points_of_whole_columns_give_the_image_of_columns(folder: Path) -> None:
    lines = sampled(folder / "five.h5", mask="random")
    whole = replace(lines, mask=np.broadcast_to(lines.mask, (H, W)))
    for options in (Options(method="tv"), Options(model=coil_aware(), samples=2)):
        one, other = (reconstruct(kspace, options) for kspace in (lines, whole))
        np.testing.assert_allclose(other.mean, one.mean, rtol=1e-5, atol=1e-7)


def test_a_reference_block_is_found_in_rows_and_columns() -> None:
    z = torch.zeros(1, 2, 24, 30, dtype=torch.complex64)
    z[..., 6:18, 9:21] = 1
    assert measured_lines(z).shape == (24, 30)
    assert int(measured_lines(z).sum()) == 144
    z[..., 9:21] = 1
    assert torch.equal(measured_lines(z), z[0, 0, 0].abs() > 0)


def test_a_bound_of_lines_is_withheld_and_one_of_points_holds(folder: Path) -> None:
    kspace = sampled(folder / "one.h5", R=4, center=None)
    known = {"level": 0.9, "factor": 2.0, "floor": 0.003, "region": "everywhere", "cap": 1.0, "subjects": 9}
    known |= {"volumes": 9, "coverage": 0.9, "worst": 0.8}
    of_lines = Calibration(setting=Setting(4.0, samples=2), **known)  # type: ignore[arg-type]
    of_points = Calibration(setting=Setting(4.0, "poisson", samples=2), **known)  # type: ignore[arg-type]
    withheld = reconstruct(kspace, Options(model=replace(tiny(), calibrations=(of_lines,)), samples=2))
    assert withheld.error_bound is None
    assert withheld.bound_note is not None
    assert "it is for random lines, the data has points of a Poisson disc" in withheld.bound_note
    held = reconstruct(kspace, Options(model=replace(tiny(), calibrations=(of_points,)), samples=2))
    assert held.error_bound is not None
    other = sampled(folder / "one.h5", R=6, center=None)
    assert "R = 4" in str(of_points.setting.misfit(other.mask, coils=1, samples=2, fast=False))
    lines = sampled(folder / "one.h5", R=4, mask="random", center=None)
    assert "random lines" in str(of_points.setting.misfit(lines.mask, coils=1, samples=2, fast=False))
    partial = MaskSpec("partial-fourier", 4.0).draw(128, torch.Generator().manual_seed(0)).numpy()
    assert "partial-fourier" in str(of_lines.setting.misfit(partial, coils=1, samples=2, fast=False))


def test_a_result_keeps_its_points_and_shows_them(folder: Path, tmp_path: Path) -> None:
    """File in, file out, and a page; what the command prints counts points."""
    out = tmp_path / "out.h5"
    sampling = Sampling(4.0, None, "poisson", seed=3)
    made = reconstruct_file(folder / "five.h5", out, Options(method="tv"), sampling, png=True)
    assert (made["acquired_points"], made["points"]) == (round(H * W / 4), H * W)
    with open_result(out) as result:
        assert result.mask is not None
        assert result.mask.shape == (H, W)
        assert int(result.mask.sum()) == round(H * W / 4)
    page = tmp_path / "out.html"
    assert main(["report", str(out), "-o", str(page)]) == 0
    assert f"{round(H * W / 4)} of {H}x{W} points, R = 4.00" in page.read_text(encoding="utf-8")


def test_notes_of_an_ellipse_and_of_partial_fourier() -> None:
    rng = torch.Generator().manual_seed(0)
    ellipse = MaskSpec("elliptical", 4).draw((64, 64), rng).numpy()
    (note,) = mask_notes(ellipse)
    assert "outside the ellipse" in note
    assert "R = 4.00 counts them" in note
    assert not mask_notes(MaskSpec("poisson", 4).draw((64, 64), rng).numpy())
    (note,) = mask_notes(np.arange(96) < 70)
    assert note.startswith("26 of 96 lines are missing at the right edge (partial Fourier)")
    assert not mask_notes(MaskSpec("random", 4).draw(256, rng).numpy())


def test_everything_acquired_is_the_truth(folder: Path) -> None:
    full = bayesmri.undersample(bayesmri.read(folder / "five.h5"), mask=np.ones((H, W)))  # type: ignore[arg-type]
    result = reconstruct(full, Options(method="sense"))
    assert full.acceleration == 1
    assert result.zero_filled_metrics().psnr > 90


def test_masks_of_files_are_of_lines_or_points(folder: Path, tmp_path: Path) -> None:
    full = bayesmri.read(folder / "one.h5")
    assert isinstance(full, KSpace)
    mask = MaskSpec("poisson", 4).draw((H, W), torch.Generator().manual_seed(0)).numpy()
    np.save(tmp_path / "points.npy", mask)
    found = undersample(full, Sampling(None, None, str(tmp_path / "points.npy")))
    assert np.array_equal(found.mask, mask)
    assert not found.z[..., ~mask].any()
    assert np.array_equal(bayesmri.undersample(full, mask=mask).z, found.z)
    np.save(tmp_path / "turned.npy", mask.T)
    with pytest.raises(MaskError, match=f"has {W}x{H} points: the k-space has {H}x{W}"):
        undersample(full, Sampling(None, None, str(tmp_path / "turned.npy")))


def test_undersampled_files_say_which_points(folder: Path, tmp_path: Path) -> None:
    """Written, read again and reconstructed, an image is the same as without the file between."""
    kspace = sampled(folder / "five.h5")
    write_kspace(tmp_path / "points.h5", kspace, provenance={}, truth=kspace.truth)
    again = bayesmri.read(tmp_path / "points.h5")
    assert isinstance(again, KSpace)
    assert np.array_equal(again.mask, kspace.mask)
    assert np.array_equal(again.z, kspace.z)
    one, other = (reconstruct(k, Options(method="tv")).mean for k in (kspace, again))
    np.testing.assert_array_equal(one, other)


def test_a_study_of_columns_refuses_points(folder: Path, tmp_path: Path) -> None:
    models = save_models(tmp_path)
    with pytest.raises(ConfigError, match="which shows columns"):
        run_study("kspace", request(models, "wide", folder, mask="poisson"), tmp_path / "out")
    record, _ = run_study(
        "reliability", request(models, "wide", folder / "one.h5", mask="poisson", samples=2), tmp_path / "out"
    )
    assert record["rows"][0]["acquired_points"] == round(H * W / 4)


def test_methods_are_compared_on_points(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "r.json"
    words = ["evaluate", "--data", str(folder), "--methods", "zero-filled,tv", "--mask", "poisson", "-o", str(out)]
    assert main(words) == 0
    assert "--mask poisson" in (tmp_path / "r.md").read_text(encoding="utf-8")


# training


def slices(Q: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(Q, 48, 40, dtype=torch.complex64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("patch_rows", [None, 32, 64])
@pytest.mark.parametrize("Q", [1, 4])
def test_an_element_of_points_is_exactly_what_its_window_would_measure(Q: int, patch_rows: int | None) -> None:
    """z = M F y of the window, and Y its image: with everything acquired the element reproduces Y."""
    recipe = Recipe(Q=Q, coils="sensitivities", mask=MaskSpec("poisson", 3.0, 0.3))
    element = make_element(slices(Q), recipe, patch_rows=patch_rows, rng=torch.Generator().manual_seed(1))
    rows = patch_rows or 48
    assert element.z.shape == (1, Q, rows, 40)
    assert element.mask.shape == (1, 1, rows, 40)
    assert int(element.mask.sum()) == round(rows * 40 / 3)
    assert not (element.z * ~element.mask).any()
    assert (element.s is None) == (Q == 1)
    full = replace(recipe, mask=MaskSpec("poisson", 1.0))
    element = make_element(slices(Q), full, patch_rows=patch_rows, rng=torch.Generator().manual_seed(1))
    X = ifft2c(element.z).abs().square().sum(dim=1).sqrt()
    torch.testing.assert_close(X, element.Y, rtol=1e-4, atol=1e-5)


def test_lines_and_points_are_batches_of_their_own_and_validation_is_plain() -> None:
    recipe = Recipe(mask=MaskSpec("random", 4.0, poisson_share=1.0))
    element = make_element(slices(1), recipe, patch_rows=32, rng=torch.Generator())
    assert element.mask.shape[-2] == 32
    both = Batch.joined([element, element])
    scheme = Scheme(T=1.0, S=1)
    assert scheme.data_term(both.z, both.mask).start()[0].shape == both.z.shape
    found = make_validation("v", [slices(1)], recipe, rng=torch.Generator())
    assert found.mask.shape == (40,)
    points = make_validation("v", [slices(1)], Recipe(mask=MaskSpec("poisson", 4.0)), rng=torch.Generator())
    assert points.mask.shape == (48, 40)
    assert kind_of(points.mask.numpy()) == "poisson"
    torch.testing.assert_close(points.z, points.mask * fft2c(ifft2c(points.z)))


def test_a_header_stays() -> None:
    """The mask of a volume is one for all its slices, whatever is taken of them."""
    mask: NDArray[np.bool_] = MaskSpec("poisson", 4).draw((16, 16), torch.Generator().manual_seed(0)).numpy()
    kspace = KSpace(np.ones((3, 1, 16, 16), np.complex64) * mask, mask, Header("test"))
    assert np.array_equal(kspace.part(slice(1, 2)).mask, mask)
    assert len(set(kspace.contents())) == 1
