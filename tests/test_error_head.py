"""σ_total: it follows the scale, learns the size of errors, travels with its model and has bounds of its own."""

import json
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from torch import Tensor

import bayesmri
from bayesmri.checkpoint import load_model, save_model
from bayesmri.cli import main
from bayesmri.complexes import rss
from bayesmri.data.dataset import Dataset
from bayesmri.errors import ConfigError, ModelError
from bayesmri.io.formats import read_kspace
from bayesmri.physics.fourier import fft2c, ifft2c
from bayesmri.posterior.error_head import ErrorHead, ErrorHeadConfig
from bayesmri.posterior.evidence import Evidence, evidence, noise_level
from bayesmri.posterior.predictor import blur
from bayesmri.posterior.rescans import Rescans, rescanned
from bayesmri.recon.acquisition import Sampling
from bayesmri.recon.reconstruct import reconstruct
from bayesmri.recon.request import Options
from bayesmri.recon.undersample import undersample
from bayesmri.regularizers.base import Regularizer
from bayesmri.training.drawn import Drawn, drawn
from bayesmri.training.error_head import ErrorConfig, judge, train_head
from study_runs import save_heads, save_scans, tiny
from training_runs import tiny as tiny_training
from training_runs import write_images


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def head(features: int = 4, scale: float = 1.0) -> ErrorHead:
    """One whose last layer is not zero, as after training."""
    made = ErrorHead(ErrorHeadConfig(features, scale, scale), generator(0))
    with torch.no_grad():
        for voice in (made.alone, made.again):
            voice.out.copy_(0.1 * torch.randn(voice.out.shape, generator=generator(1)))
    return made.requires_grad_(False)


def scan_of(Q: int, shape: tuple[int, int], *, factor: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    """x, z and a mask of every third line."""
    x = torch.randn(2, Q, *shape, dtype=torch.complex64, generator=generator(2)) + 3
    mask = torch.zeros(shape[1]).bool()
    mask[::3] = True
    z = mask * fft2c(x + 0.3 * torch.randn(2, Q, *shape, dtype=torch.complex64, generator=generator(3)))
    return factor * x, factor * z, mask


def rescans_of(shape: tuple[int, int]) -> Rescans:
    return Rescans(*(0.1 + torch.rand(2, *shape, generator=generator(seed)) for seed in (6, 7)))


@pytest.mark.parametrize("shape", [(21, 18), (32, 32)])
@pytest.mark.parametrize("Q", [1, 3])
def test_evidence_splits_the_image_into_what_was_measured_and_what_was_not(Q: int, shape: tuple[int, int]) -> None:
    """Σ changed² = Σ filled² + Σ residual², for the lines of both are disjoint (Parseval)."""
    x, z, mask = scan_of(Q, shape)
    seen = evidence(x, z, mask)
    powers = [getattr(seen, name).square().sum() for name in ("changed", "filled", "residual")]
    torch.testing.assert_close(powers[0], powers[1] + powers[2])
    torch.testing.assert_close(seen.at_mean, rss(x))
    torch.testing.assert_close(seen.zero_filled, rss(ifft2c(z)))
    assert seen.missing[0].item() == pytest.approx(1 - mask.float().mean().item())
    assert seen.coils.tolist() == [Q, Q]
    both = evidence(x.flip(-2), fft2c(ifft2c(z).flip(-2)), mask).filled
    torch.testing.assert_close(both, seen.flip([-2]).filled, rtol=1e-4, atol=1e-4)


def test_the_noise_is_found_beside_an_image() -> None:
    y = 50 * blur(torch.rand(1, 1, 64, 60, generator=generator(0)), 3).to(torch.complex64)
    noise = 0.2 * torch.randn(1, 1, 64, 60, dtype=torch.complex64, generator=generator(1))
    mask = torch.ones(1, 1, 64, 60).bool()
    assert noise_level(fft2c(y) + noise, mask).item() == pytest.approx(0.2, rel=0.1)


@pytest.mark.parametrize("shape", [(21, 18), (9, 7), (32, 40)])
@pytest.mark.parametrize("factor", [1e-5, 1e6])
def test_the_expected_error_follows_the_scale_of_the_data(factor: float, shape: tuple[int, int]) -> None:
    v, again = torch.rand(2, *shape, generator=generator(5)), rescans_of(shape)
    one, other = (evidence(*scan_of(2, shape, factor=f)) for f in (1.0, factor))
    torch.testing.assert_close(head()(other), factor * head()(one), rtol=1e-3, atol=0)
    more = Rescans(*(factor * part for part in again))
    torch.testing.assert_close(head()(other, factor**2 * v, more), factor * head()(one, v, again), rtol=1e-3, atol=0)


def test_the_draws_add_their_variance() -> None:
    """σ_total² = σ̂² + s²: it is never below σ̂, and grows with it."""
    seen = evidence(*scan_of(1, (20, 24)))
    v = 100 * torch.rand(2, 20, 24, generator=generator(5))
    again = rescans_of((20, 24))
    assert (head()(seen, v, again).square() >= v).all()
    assert (head(scale=2.0)(seen, v, again) == 2 * head()(seen, v, again)).all()


def test_empty_data_has_an_expected_error_of_nothing_and_no_nan() -> None:
    empty = torch.zeros(1, 1, 12, 10, dtype=torch.complex64)
    found = head()(evidence(empty, empty, torch.ones(10).bool()))
    assert torch.isfinite(found).all()
    assert found.max() < 1e-6


def test_a_head_stays_small() -> None:
    assert sum(w.numel() for w in ErrorHead(ErrorHeadConfig(), generator(0)).parameters()) <= 20_000
    with pytest.raises(ConfigError, match="expected at most 20000"):
        ErrorHead(ErrorHeadConfig(16), generator(0))
    with pytest.raises(ConfigError, match="scales above 0"):
        ErrorHeadConfig(scale=0.0)
    with pytest.raises(ConfigError, match="scales above 0"):
        ErrorHeadConfig(scale_again=float("inf"))


def errors(n: int, *, seed: int) -> list[Drawn]:
    """Images whose error is large where they are bright, which nothing of f says."""
    found = []
    for i in range(n):
        g = generator(1000 * seed + i)
        X = 1 + blur(torch.rand(1, 1, 24, 28, generator=g), 2)[:, 0]
        x = X[:, None].to(torch.complex64)
        mask = torch.ones(28).bool()
        mask[::2] = False
        size = 0.02 + 0.4 * torch.sigmoid(60 * (X - 1.5))
        Y = (X + size * torch.randn(X.shape, generator=g)).abs()
        d = 0.01 * torch.randn(1, 4, 24, 28, generator=g)
        again = Rescans(size * torch.rand(X.shape, generator=g), size * torch.rand(X.shape, generator=g))
        found.append(Drawn(evidence(x, mask * fft2c(x), mask), Y, d.half(), d.abs().half(), again))
    return found


def test_a_head_learns_where_errors_are_and_how_large() -> None:
    losses: list[float] = []
    made, facts = train_head([errors(24, seed=1)], ErrorConfig(60, 4, 1e-2, 4), losses.append)
    assert len(losses) == 60
    for drawn_too in (False, True):
        new = judge(made, errors(8, seed=2), drawn=drawn_too)
        assert 0.85 < new["ratio"] < 1.15
        assert new["rho"] > 0.2 > 0.1 > abs(new["rho_std"])
    # on the elements that gave its scales
    assert facts["ratio_alone"] == pytest.approx(1)
    assert facts["ratio"] == pytest.approx(1, abs=0.02)  # the draws' own part is not scaled with s
    again, _ = train_head([errors(24, seed=1)], ErrorConfig(60, 4, 1e-2, 4), losses.append)
    assert all(torch.equal(a, b) for a, b in zip(made.parameters(), again.parameters(), strict=True))


def test_judges_give_the_scale_and_are_not_learned_from() -> None:
    """Errors twice as large in the judges: the same network, and twice the scale."""
    judges = errors(6, seed=3)
    worse = [replace(one, Y=(one.seen.at_mean + 2 * (one.Y - one.seen.at_mean))) for one in judges]
    config = ErrorConfig(2, 2, 1e-3, 3)
    heads = [train_head([errors(6, seed=1)], config, lambda _: None, judges=some)[0] for some in (judges, worse)]
    assert torch.equal(heads[0].alone.linear, heads[1].alone.linear)
    assert heads[1].config.scale == pytest.approx(
        2 * heads[0].config.scale, rel=0.1
    )  # the draws' own part is not twice


def test_elements_come_back_from_their_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tiny_training()
    data = Dataset(config.data, config.recipe(), seed=1, side="val")
    made = list(drawn(tiny(), data, range(2), 3, seed=1, folder=tmp_path, again=True))
    monkeypatch.setattr("bayesmri.training.drawn.draw", None)  # none is made again
    for a, b in zip(made, drawn(tiny(), data, range(2), 3, seed=1, folder=tmp_path, again=True), strict=True):
        assert a.again is not None
        assert b.again is not None
        assert all(
            torch.equal(p, q)
            for p, q in zip((*a.seen, a.Y, a.deviations, *a.again), (*b.seen, b.Y, b.deviations, *b.again), strict=True)
        )
    (tmp_path / "element-000001.safetensors").write_bytes(b"torn")
    with pytest.raises(TypeError):
        list(drawn(tiny(), data, range(2), 3, seed=1, folder=tmp_path, again=True))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("error")
    save_scans(folder)
    save_model(folder / "with.json", replace(tiny(), error_head=head(scale=1.5)))
    save_model(folder / "without.json", tiny())
    return folder


def test_a_head_travels_with_its_model(folder: Path) -> None:
    loaded = load_model(folder / "with.json").error_head
    assert loaded is not None
    assert loaded.config == head(scale=1.5).config
    seen: Evidence = evidence(*scan_of(1, (20, 24)))
    torch.testing.assert_close(loaded(seen), head(scale=1.5)(seen), rtol=0, atol=0)
    assert load_model(folder / "without.json").error_head is None


@pytest.mark.parametrize("samples", [0, 3])
def test_the_pipeline_hands_the_head_what_it_was_made_for(folder: Path, samples: int) -> None:
    kspace = undersample(read_kspace(folder / "one.h5"), Sampling(4, seed=2))
    model = load_model(folder / "with.json")
    found = reconstruct(kspace, Options(model=model, samples=samples, seed=3))
    z, mask = torch.from_numpy(kspace.z), torch.from_numpy(kspace.mask)
    factor = model.scaling.factor(z)
    seen = evidence(model.reconstruct(z, mask) / factor, z / factor, mask)
    variance = None if found.std is None else torch.from_numpy(found.std / factor).square()
    assert model.error_head is not None
    again = None
    if samples:
        D = model.scheme.data_term(z / factor, mask)
        reg = model.regularizer.bind(model.distribution().mean())
        assert isinstance(reg, Regularizer)
        x = model.scheme.run(D, reg)
        again = rescanned(D, x, model.scheme.data_term, lambda D: model.scheme.run(D, reg))
    want = model.error_head(seen, variance, again) * factor
    assert found.error_std is not None
    np.testing.assert_allclose(found.error_std, want.numpy(), rtol=1e-3)
    if found.std is not None:
        assert (found.error_std >= found.std).all()


def test_recon_writes_the_expected_error_everywhere(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["recon", str(folder / "one.h5"), "-o", str(tmp_path / "out.h5"), "--acceleration", "4"]
    command += ["--model", str(folder / "with.json"), "--nifti", "--png"]
    assert main([*command, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["error_std"]["samples"] == 0
    assert told["error_std"]["error_over_it"] > 0
    assert str(tmp_path / "out_error_std.nii.gz") in told["outputs"]
    assert (tmp_path / "out_error_std.nii.gz").is_file()
    with h5py.File(tmp_path / "out.h5") as file:
        total = file["error_std"][()]
        assert total.shape == file["reconstruction"].shape
        assert "uncertainty_std" not in file
    assert np.isfinite(total).all()
    assert main(["report", str(tmp_path / "out.h5"), "-o", str(tmp_path / "out.html")]) == 0
    assert "Typical error" in (tmp_path / "out.html").read_text(encoding="utf-8")
    capsys.readouterr()
    assert main([*command, "--force"]) == 0
    assert "typical error" in capsys.readouterr().out


def test_bounds_of_the_expected_error_are_kept_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They are stored beside those of σ̂, are what recon applies, and hold as often as they say."""
    save_model(tmp_path / "model.json", replace(tiny(), error_head=head()))
    (tmp_path / "heads").mkdir()
    save_heads(tmp_path / "heads", 5)
    command = ["calibrate", str(tmp_path / "model.json"), "--data", str(tmp_path / "heads"), "--level", "0.8"]
    command += ["--acceleration", "2"]
    assert main([*command, "--samples", "2"]) == 0
    capsys.readouterr()
    assert main([*command, "--of", "error", "--samples", "0", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    model = load_model(tmp_path / "model.json")
    (plain,), (of_error,) = model.calibrations, model.error_calibrations
    assert (plain.setting.samples, of_error.setting.samples) == (2, 0)
    assert told["of"] == "error"
    assert main(["models", str(tmp_path / "model.json")]) == 0
    card = capsys.readouterr().out
    assert " (std + 0.3 % of the maximum) for random masks, 1 coil, 2 samples" in card
    assert " (typical error + 0.3 % of the maximum) for random masks, 1 coil, no samples" in card
    assert of_error.coverage >= 0.8
    kspace = undersample(read_kspace(tmp_path / "heads" / "head0.h5"), Sampling(2, seed=1))
    found = bayesmri.reconstruct(kspace, model)
    assert found.bound_of == "error_std"
    assert found.error_std is not None
    assert found.error_bound is not None
    np.testing.assert_allclose(found.error_bound, of_error.bound(found.mean, found.error_std))
    sampled = bayesmri.reconstruct(kspace, model, samples=2)
    assert sampled.bound_of == "uncertainty_std"
    assert sampled.std is not None
    assert sampled.error_bound is not None
    np.testing.assert_allclose(sampled.error_bound, plain.bound(sampled.mean, sampled.std))


def test_what_needs_a_head_says_so(tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_heads(tmp_path, 5)
    command = ["calibrate", str(folder / "without.json"), "--data", str(tmp_path), "-o", str(tmp_path / "x.json")]
    assert main([*command, "--of", "error"]) == 2
    assert "bayesmri distill --what error" in capsys.readouterr().err
    assert main([*command, "--samples", "0"]) == 2
    assert "expected at least 2" in capsys.readouterr().err


def test_distill_makes_a_head_from_subjects_that_validate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "images").mkdir()
    for n in range(3):
        write_images(tmp_path / "images" / f"head_{n}.h5", shape=(24, 20))
    save_model(tmp_path / "model.json", tiny())
    config = tmp_path / "config.toml"
    source = f'[[data.sources]]\npath = "{tmp_path / "images"}"\n'
    command = ["distill", str(tmp_path / "model.json"), "-o", str(tmp_path / "out.json"), "--what", "error"]
    command += ["--elements", "4", "--iterations", "2", "--features", "3", "--keep", str(tmp_path / "kept")]
    config.write_text(f"[data]\nval_fraction = 0.0\n{source}")
    assert main([*command, "--config", str(config)]) == 2
    assert "no slice is left to val with" in capsys.readouterr().err
    config.write_text(f'[data]\npatch_rows = 0\n{source}split = "val"\n')
    assert main([*command, "--config", str(config), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    model = load_model(tmp_path / "out.json")
    assert model.error_head is not None
    assert model.card["error_head"]["scale"] == told["scale"] == model.error_head.config.scale
    assert told["elements"] == len(list((tmp_path / "kept" / "config").iterdir())) == 4
    with pytest.raises(ModelError, match="distill"):
        bayesmri.reconstruct(read_kspace_of(tmp_path), model, fast=True)


def read_kspace_of(folder: Path) -> bayesmri.KSpace:
    save_scans(folder)
    return undersample(read_kspace(folder / "one.h5"), Sampling(4, seed=2))
