"""The fast route: a predictor that follows the scale, learns what σ looks like, and travels with its model."""

import json
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

import bayesmri
from bayesmri.checkpoint import load_model, save_model
from bayesmri.cli import main
from bayesmri.errors import ConfigError, ModelError
from bayesmri.io.formats import read_kspace
from bayesmri.physics.fourier import fft2c, ifft2c
from bayesmri.posterior.evidence import evidence
from bayesmri.posterior.predictor import FLOOR, WIDTHS, Few, Predictor, PredictorConfig, blur, fit_kappa
from bayesmri.recon.acquisition import Sampling
from bayesmri.recon.reconstruct import reconstruct
from bayesmri.recon.request import FAST_SAMPLES, Options, Trial
from bayesmri.recon.undersample import undersample
from bayesmri.report.panel import comparison
from bayesmri.stored_model import PREDICTOR_PREFIX
from bayesmri.stored_model import _predictor as stored_predictor
from bayesmri.training.distill import DistillConfig, distill, likelihood, relative_error
from bayesmri.training.drawn import Drawn
from study_runs import save_scans, tiny
from training_runs import write_images


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def predictor(features: int = 4, kappa: float = 2.0, *, seed: int = 0) -> Predictor:
    """One whose last layer is not zero, as after training."""
    made = Predictor(PredictorConfig(features, kappa), generator(seed))
    with torch.no_grad():
        made.out.copy_(0.1 * torch.randn(made.out.shape, generator=generator(seed + 1)))
    return made.requires_grad_(False)


def few(shape: tuple[int, int] = (21, 18), K: int = 3, *, seed: int = 0) -> Few:
    X, X0, mean = (5 + torch.randn(2, *shape, generator=generator(seed + i)) for i in range(3))
    v, c = (torch.rand(2, *shape, generator=generator(seed + i)) for i in (8, 9))
    return Few(X, X0, mean, v, 2 * c, K)


@pytest.mark.parametrize("factor", [1e-6, 3.0, 1e8])
def test_the_estimates_follow_the_scale_of_the_data(factor: float) -> None:
    one = few()
    X, X0, mean = (factor * t for t in (one.at_mean, one.zero_filled, one.mean))
    scaled = Few(X, X0, mean, factor**2 * one.variance, factor**2 * one.coil_power, one.K)
    net = predictor()
    torch.testing.assert_close(net.std(scaled), factor * net.std(one), rtol=1e-4, atol=0)
    torch.testing.assert_close(net.mean(scaled), factor * net.mean(one), rtol=1e-5, atol=0)


@pytest.mark.parametrize("shape", [(21, 18), (7, 5), (32, 32)])
def test_a_new_predictor_is_the_smoothed_map(shape: tuple[int, int]) -> None:
    one = few(shape)
    v = one.variance + (one.mean - one.at_mean).square()
    floor = FLOOR * v.square().sum(dim=(1, 2), keepdim=True) / v.sum(dim=(1, 2), keepdim=True)
    want = (blur(v[:, None], WIDTHS[-1])[:, 0] + floor).sqrt()
    torch.testing.assert_close(Predictor(PredictorConfig(4), generator(0)).std(one), want)


def test_empty_background_changes_nothing_far_from_it() -> None:
    """Features are ratios to what is typical of the object, not of the field of view."""
    one = few((40, 40))
    wide = Few(*(torch.nn.functional.pad(t, (0, 60, 0, 60)) for t in one[:5]), one.K)  # type: ignore[arg-type,call-arg]
    net = predictor()
    torch.testing.assert_close(net.std(wide)[:, :8, :8], net.std(one)[:, :8, :8], rtol=1e-4, atol=0)


def test_nothing_that_varies_gives_nothing_and_no_nan() -> None:
    still = torch.full((1, 9, 8), 3.0)
    std = predictor().std(Few(still, still, still, torch.zeros(1, 9, 8), torch.zeros(1, 9, 8), 3))
    assert torch.isfinite(std).all()
    assert std.max() < 1e-6
    empty = torch.zeros(1, 9, 8)
    assert torch.isfinite(predictor().std(Few(empty, empty, empty, empty, empty, 3))).all()


def test_kappa_has_the_least_error_of_the_mean() -> None:
    """w_K = K/(K + κ) minimises (1 − w)² bias + w² noise/K."""
    bias, noise = 0.3, 2.0
    for K in (1, 3, 8):
        found = minimize_scalar(lambda w, K=K: (1 - w) ** 2 * bias + w**2 * noise / K, bounds=(0, 1), method="bounded")
        assert K / (K + fit_kappa(bias, noise)) == pytest.approx(found.x, abs=1e-4)


def drawn(n: int, *, seed: int, N: int = 24) -> Drawn:
    """Samples whose σ is a function of the image: what there is to learn."""
    g = generator(seed)
    X = 1 + blur(torch.randn(n, 1, 24, 28, generator=g), 2)[:, 0]
    std = 0.2 * torch.sigmoid(20 * (X - 1))
    deviations = std[:, None] * torch.randn(n, N, 24, 28, generator=g)
    seen = evidence(X[:, None].to(torch.complex64), fft2c(0.9 * X[:, None].to(torch.complex64)), torch.ones(28).bool())
    return Drawn(seen, X, deviations.half(), deviations.abs().half())


def test_distillation_learns_what_a_few_samples_cannot_say() -> None:
    losses: list[float] = []
    config = DistillConfig(iterations=60, batch=8, features=8, samples=6, lr=1e-2)
    net = distill(iter([drawn(24, seed=1, N=6)]), config, losses.append)
    assert len(losses) == 60
    new = drawn(8, seed=2, N=300)
    truth = new.deviations[:, 3:].float().std(dim=1)
    three = new.deviations[:, :3].float().std(dim=1, correction=0)
    learned = relative_error(net.std(new.few(torch.arange(3))), truth).mean()
    assert learned < 0.5 * relative_error(three, truth).mean()
    assert net.config.kappa > 10  # X_μ has no bias here: samples add noise only


def test_draws_that_swing_together_are_told_by_the_brightness() -> None:
    """A draw that moves all pixels too far, or too little, is no matter of smoothing: only the usual size tells it."""

    def swinging(n: int, *, seed: int, N: int) -> Drawn:
        one = drawn(n, seed=seed, N=N)
        size = torch.exp(0.8 * torch.randn(n, N, 1, 1, generator=generator(seed + 5)))
        return replace(one, deviations=(one.deviations * size).half(), coil_distance=(one.coil_distance * size).half())

    config = DistillConfig(iterations=20, batch=4, features=4, samples=6)
    net = distill([swinging(1, seed=i, N=6) for i in range(40)], config, lambda loss: None)
    new = swinging(8, seed=99, N=300)
    few, truth = new.few(torch.arange(2)), new.deviations[:, 2:].float().std(dim=1)
    smoothed = Predictor(PredictorConfig(4), generator(0)).requires_grad_(False).std(few)

    def wrong_size(std: Tensor) -> float:
        return float(torch.log(std.square().mean(dim=(1, 2)) / truth.square().mean(dim=(1, 2))).abs().mean())

    assert wrong_size(net.std(few)) < 0.5 * wrong_size(smoothed)
    assert relative_error(net.std(few), truth).mean() < 0.8 * relative_error(smoothed, truth).mean()


def test_a_predictor_of_the_first_kind_is_left_out() -> None:
    made = predictor().state_dict()
    tensors = {PREDICTOR_PREFIX + name: w for name, w in made.items() if name != "linear"}
    record = {"predictor": {"features": 4, "kappa": 2.0, "most": 8}}
    assert stored_predictor(record, tensors, 10_000) is None
    assert stored_predictor(record, {PREDICTOR_PREFIX + name: w for name, w in made.items()}, 10_000) is not None


def test_two_fresh_draws_are_a_target_as_good_as_any() -> None:
    """½(ln s + v/s) is least where s is the mean of v, however few draws v is of: not at another size of σ̂."""
    net, one = predictor(), few((40, 40), seed=3)
    s = net.std(one).detach().square()
    v = s * torch.randn(400, *s.shape, generator=generator(1)).square()  # (x₁ − x₂)²/2 of normal draws

    def cost(factor: float) -> float:
        return float(likelihood(net, one, (v / factor).mean(dim=0)) + 0.5 * np.log(factor))

    assert minimize_scalar(cost, bounds=(0.5, 2.0), method="bounded").x == pytest.approx(1, abs=0.01)


def test_distillation_is_the_same_every_time() -> None:
    config = DistillConfig(iterations=3, batch=2, features=4, samples=24)
    nets = [distill([drawn(4, seed=1)], config, lambda error: None) for _ in range(2)]
    for a, b in zip(nets[0].state_dict().values(), nets[1].state_dict().values(), strict=True):
        assert torch.equal(a, b)


def test_relative_error_is_a_ratio_of_norms() -> None:
    a, b = torch.tensor([[[3.0, 4.0]]]), torch.tensor([[[3.0, 0.0]]])
    assert relative_error(a, b).item() == pytest.approx(4 / 3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fast")
    save_scans(folder)
    save_model(folder / "fast.json", replace(tiny(), predictor=predictor()))
    save_model(folder / "plain.json", tiny())
    return folder


def test_a_predictor_travels_with_its_model(folder: Path) -> None:
    loaded = load_model(folder / "fast.json").predictor
    assert loaded is not None
    assert loaded.config == predictor().config
    torch.testing.assert_close(loaded.std(few()), predictor().std(few()), rtol=0, atol=0)
    assert load_model(folder / "plain.json").predictor is None


def scan(folder: Path) -> Path:
    return next(path for path in sorted((folder).rglob("*.h5")) if read_kspace(path).z.shape[1] == 1)


def test_the_pipeline_hands_the_predictor_what_it_was_made_for(folder: Path) -> None:
    """σ̂ of the fast route is the predictor's, from the exact samples of the same seed on the whole grid."""
    kspace = undersample(read_kspace(scan(folder)), Sampling(4, seed=2))
    model = load_model(folder / "fast.json")
    found = reconstruct(kspace, Options(model=model, fast=True, seed=3))
    slow = reconstruct(kspace, Options(model=model, samples=FAST_SAMPLES, seed=3, keep_samples=True))
    assert found.fast
    assert not slow.fast
    assert found.n_samples == FAST_SAMPLES
    assert slow.samples is not None
    assert slow.deterministic is not None
    assert slow.kspace_mean is not None
    assert slow.coil_std is not None
    assert found.std is not None
    assert model.predictor is not None
    images: list[Tensor] = [torch.from_numpy(a) for a in (slow.deterministic, slow.zero_filled, slow.image)]
    variance = torch.from_numpy(slow.samples).var(dim=1, correction=0)
    x = model.reconstruct(torch.from_numpy(kspace.z), torch.from_numpy(kspace.mask))
    away = ifft2c(torch.from_numpy(slow.kspace_mean)) - x
    power = (torch.from_numpy(slow.coil_std).square() + away.abs().square()).sum(dim=1)
    want = Few(images[0], images[1], images[2], variance, power, FAST_SAMPLES)
    np.testing.assert_allclose(found.std, model.predictor.std(want).numpy(), rtol=1e-3)
    np.testing.assert_allclose(found.image, model.predictor.mean(want).numpy(), rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(found.deterministic, slow.deterministic)


def test_recon_fast_writes_what_it_did(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["recon", str(scan(folder)), "-o", str(tmp_path / "out.h5"), "--acceleration", "4", "--json", "--fast"]
    assert main([*command, "--model", str(folder / "fast.json")]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["fast"] is True
    assert told["samples"] == FAST_SAMPLES
    with h5py.File(tmp_path / "out.h5") as file:
        assert np.isfinite(file["uncertainty_std"][()]).all()
        assert '"fast": true' in file.attrs["provenance"]
    command += ["--force"]
    assert main([*command, "--model", str(folder / "plain.json")]) == 2
    assert "distill" in capsys.readouterr().err
    assert main(command) == 2


@pytest.mark.parametrize("samples", [1, 9])
def test_more_or_fewer_samples_than_the_predictor_learned_from_are_refused(folder: Path, samples: int) -> None:
    kspace = undersample(read_kspace(scan(folder)), Sampling(4, seed=2))
    with pytest.raises(ModelError, match=f"{samples} samples was asked for, which learned from 2 to 8"):
        reconstruct(kspace, Options(model=load_model(folder / "fast.json"), fast=True, samples=samples))


def test_python_has_the_fast_route(folder: Path) -> None:
    kspace = undersample(read_kspace(scan(folder)), Sampling(4, seed=2))
    found = bayesmri.reconstruct(kspace, folder / "fast.json", fast=True)
    assert found.fast
    with pytest.raises(ModelError, match="distill"):
        bayesmri.reconstruct(kspace, folder / "plain.json", fast=True)


def test_distill_makes_a_model_with_a_fast_route(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "images").mkdir()
    for n in range(3):
        write_images(tmp_path / "images" / f"head_{n}.h5", shape=(24, 20))
    save_model(tmp_path / "model.json", tiny())
    config = tmp_path / "config.toml"
    config.write_text(f'[data]\nval_fraction = 0.0\n[[data.sources]]\npath = "{tmp_path / "images"}"\n')
    command = ["distill", str(tmp_path / "model.json"), "-o", str(tmp_path / "fast.json"), "--config", str(config)]
    small = ["--elements", "5", "--samples", "16", "--iterations", "2", "--features", "4", "--json"]
    assert main([*command, *small]) == 0
    told = json.loads(capsys.readouterr().out)
    model = load_model(tmp_path / "fast.json")
    assert model.predictor is not None
    assert model.card["predictor"]["kappa"] == told["kappa"] == model.predictor.config.kappa
    assert main([*command[:4], *small, "--force"]) == 2  # a model's file has no configuration of its own
    assert "--config" in capsys.readouterr().err


def test_the_trade_off_is_measured(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["bench", "--uncertainty", "--json", "--data", str(scan(folder)), "--reference", "64"]
    assert main([*command, "--model", str(folder / "fast.json")]) == 0
    told = json.loads(capsys.readouterr().out)
    exact_rows = [row for row in told["curve"] if row["route"] == "exact"]
    assert [row["samples"] for row in exact_rows] == [2, 4, 8, 16, 32]
    assert exact_rows[-1]["error"] < exact_rows[0]["error"]
    assert told["exact32_error"] == exact_rows[-1]["error"]
    assert told["fast_cost"] > 1
    assert told["fast_error"] > 0
    assert main([*command, "--model", str(folder / "plain.json")]) == 2
    assert main(["bench", "--model", "x"]) == 2


def test_nonsense_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least 64"):
        Trial(reference=10)
    with pytest.raises(ConfigError, match="expected K of at least 2"):
        DistillConfig(samples=5)
    with pytest.raises(ConfigError, match="features"):
        PredictorConfig(0)
    with pytest.raises(ConfigError, match="no posterior"):
        Options(method="tv", fast=True)


def test_the_panel_says_that_a_map_was_predicted() -> None:
    image = np.ones((4, 4), np.float32)
    titles = [tile[0] for tile in comparison(None, {"mean": image}, std=(image, 6), predicted=True)]
    assert any("predicted from 6 samples" in title for title in titles)
