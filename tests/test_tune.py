"""ρ and steps chosen by left-out lines: the choice is the best of the list for them."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import bayesmri
from bayesmri.bounds.left_out import folds
from bayesmri.checkpoint import load_model, save_model
from bayesmri.cli import main
from bayesmri.errors import ConfigError
from bayesmri.evaluation.cohort import rules
from bayesmri.evaluation.request import Request
from bayesmri.evaluation.table import fully_sampled, sampling_of
from bayesmri.kspace import Header, KSpace
from bayesmri.physics.fourier import fft2c
from bayesmri.recon.files import PhantomRequest, simulate_file
from bayesmri.recon.method import make_method
from bayesmri.recon.reconstruct import scan_of
from bayesmri.recon.request import Options
from bayesmri.recon.tune import FACTORS, FOLDS, LONGER, tuned
from bayesmri.recon.undersample import undersample
from study_runs import save_heads, tiny


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("scan") / "full.h5"
    simulate_file(PhantomRequest("head", "PD", (40, 64), 3), path, snr_db=25, seed=2)
    return path


def sampled(full: Path) -> KSpace:
    read = bayesmri.read(full)
    assert isinstance(read, KSpace)
    return bayesmri.undersample(read, 3, center_fraction=0.12)


def test_what_is_chosen_is_nearest_to_the_left_out_lines(full: Path) -> None:
    """Every choice of the list, reconstructed by itself without these lines."""
    kspace, model = sampled(full), tiny(width=None)
    method = make_method(Options(model=model))
    other, choice, note = tuned(scan_of(kspace, method), method)
    assert choice is not None
    assert note == ""
    assert other.steps == choice.steps <= LONGER * model.S
    fold = folds(kspace.mask)

    def residual(factor: float, S: int) -> float:
        assert method.variant is not None
        scan, total = scan_of(kspace, method.variant(factor, S)), 0.0
        for j in FOLDS:
            x = scan.solve(1, torch.from_numpy(kspace.mask & (fold != j)))
            total += float(((fft2c(x) - scan.z[1])[..., fold == j]).abs().square().sum())
        return total

    own, best = residual(1.0, model.S), residual(choice.rho_factor, choice.steps)
    assert choice.residual == pytest.approx(best / own, rel=1e-3)
    assert best <= min(residual(factor, S) for factor in FACTORS for S in (1, model.S, LONGER * model.S)) * 1.001


def test_a_model_with_its_own_numbers_is_the_model(full: Path) -> None:
    model = tiny(width=None)
    method = make_method(Options(model=model))
    assert method.variant is not None
    kspace, lines = sampled(full), torch.from_numpy(sampled(full).mask)
    own, same = scan_of(kspace, method).solve(0, lines), scan_of(kspace, method.variant(1.0, model.S)).solve(0, lines)
    torch.testing.assert_close(own, same)


def test_the_command_tells_what_was_chosen(full: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_model(tmp_path / "model.json", tiny())
    argv = ["recon", str(full), "--model", str(tmp_path / "model.json"), "--acceleration", "3", "--tune"]
    assert main([*argv, "-o", str(tmp_path / "out.h5"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["tuned"]
    assert told["rho_factor"] in FACTORS
    assert told["residual"] <= 1
    assert main([*argv, "-o", str(tmp_path / "again.h5")]) == 0
    assert f"{told['steps']} steps" in capsys.readouterr().out


def test_what_has_no_steps_is_refused_and_too_few_lines_are_told(full: Path) -> None:
    with pytest.raises(ConfigError, match="got tv to be tuned"):
        bayesmri.reconstruct(sampled(full), "tv", tune=True)
    with pytest.raises(ConfigError, match="own numbers"):
        bayesmri.reconstruct(sampled(full), tiny(), tune=True, samples=2, level=0.9)
    whole = bayesmri.read(full)
    assert isinstance(whole, KSpace)
    mask = np.abs(np.arange(64) - 32) < 9
    few = KSpace(whole.z * mask, mask, Header("array"))
    result = bayesmri.reconstruct(few, tiny(), tune=True)
    assert result.tuned is None
    assert "nothing was tuned" in result.notes[-1]


def test_the_study_compares_tuned_with_untuned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its rows are what `recon` makes of the same scan with and without --tune."""
    data = save_heads(tmp_path / "heads", 2, shape=(40, 64))
    save_model(tmp_path / "plain.json", tiny(width=None))
    words = ["study", "tuning", "--model", str(tmp_path / "plain.json"), "--data", str(data), "--acceleration", "3"]
    assert main([*words, "-o", str(tmp_path / "out")]) == 0
    assert "single-coil, R = 3" in capsys.readouterr().out
    record = json.loads((tmp_path / "out" / "tuning.json").read_text())
    assert (tmp_path / "out" / "tuning.png").stat().st_size > 1000
    gains = [row["tuned_psnr"] - row["psnr"] for row in record["rows"]]
    (group,) = record["groups"].values()
    assert group["gain"] == pytest.approx(np.mean(gains))
    assert group["gaining"] == sum(gain > 0 for gain in gains)
    row = record["rows"][0]
    request = Request(("plain",), data, (3.0,), track="single")
    path = data / row["file"]
    kspace = undersample(fully_sampled(path, rules(request)), sampling_of(path, 3.0, rules(request)))
    result = bayesmri.reconstruct(kspace, load_model(tmp_path / "plain.json"), tune=True)
    assert result.tuned is not None
    assert (result.tuned.rho_factor, result.tuned.steps) == (row["rho_factor"], row["steps"])
    assert result.metrics().psnr == pytest.approx(row["tuned_psnr"], abs=1e-3)
