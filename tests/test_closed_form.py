"""L in closed form: it is where the penalised quadratic is least, and its curvature is that of Gauss and Newton."""

import json
import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from bayesmri.checkpoint import load_model, save_model
from bayesmri.cli import main
from bayesmri.complexes import rss
from bayesmri.data.dataset import Dataset
from bayesmri.errors import ConfigError
from bayesmri.posterior.kl import entropy, penalty
from bayesmri.posterior.laplace import closed_form
from bayesmri.posterior.triangular import dense, diagonal
from bayesmri.training.curvature import curvature, pixel_curvature, quadratic
from bayesmri.training.loss import LossConfig, loss
from bayesmri.training.stationarity import balance, pulls
from study_runs import tiny
from training_runs import tiny as tiny_training
from training_runs import write_images


def blocks(n: int = 6, d: int = 9) -> dict[str, Tensor]:
    g = torch.randn(n, 1, d, 20, generator=torch.Generator().manual_seed(0)).double()
    return {"K": 1e-3 * g @ g.mT}


def test_sigma_is_the_inverse_of_prior_and_curvature() -> None:
    H, alpha, beta = blocks(), 10.0, 1e-4
    l = closed_form(H, alpha=alpha, beta=beta)["K"].double()
    assert (diagonal(l) > 0).all()
    precision = alpha * torch.eye(9).double() + H["K"] / (2 * beta)
    torch.testing.assert_close(
        dense(l) @ dense(l).mT @ precision, torch.eye(9).double().expand(6, 1, 9, 9), rtol=0, atol=1e-4
    )


def test_it_is_the_minimum_of_the_penalised_quadratic() -> None:
    """½ tr(H LLᵀ) + β(α tr LLᵀ − log det LLᵀ) has no slope there, and ⟨∂J/∂L, L⟩ = 2β(p − α tr LLᵀ): v = 1."""
    H, alpha, beta = blocks(), 3.0, 1e-3
    L = {"K": closed_form(H, alpha=alpha, beta=beta)["K"].double().requires_grad_()}
    J = 0.5 * (H["K"] @ dense(L["K"]) @ dense(L["K"]).mT).diagonal(dim1=-2, dim2=-1).sum()
    (slope,) = torch.autograd.grad(J + penalty(L, alpha=alpha, beta=beta), L["K"], retain_graph=True)
    (gJ,) = torch.autograd.grad(J, L["K"])
    assert slope.abs().max() < 1e-4 * gJ.abs().max()
    p, trace = diagonal(L["K"]).numel(), L["K"].detach().square().sum()
    assert float((gJ * L["K"].detach()).sum() / (2 * beta * (p - alpha * trace))) == pytest.approx(1, abs=1e-4)
    assert quadratic(H, L) / balance(L, alpha=alpha, beta=beta) == pytest.approx(1, abs=1e-4)


def test_a_larger_beta_is_wider_up_to_the_prior() -> None:
    found = [float(entropy(closed_form(blocks(), alpha=10.0, beta=beta))) for beta in (1e-6, 1e-4, 1e-2, 1e6)]
    assert found == sorted(found)
    prior = closed_form({"K": torch.zeros(6, 1, 9, 9)}, alpha=10.0, beta=1.0)
    assert found[-1] == pytest.approx(float(entropy(prior)), abs=1e-3)
    with pytest.raises(ConfigError, match="expected numbers above 0"):
        closed_form(blocks(), alpha=10.0, beta=0.0)


def test_the_curvature_of_a_pixel_is_that_of_its_expected_loss() -> None:
    """E|e + δ| has the second derivative 2 p(0) in δ: errors of a Gaussian, whose p(0) is known."""
    g = torch.Generator().manual_seed(0)
    Y, sigma = torch.full((1, 128, 128), 0.5), 0.05
    X = Y + sigma * torch.randn(Y.shape, generator=g)
    found = float(pixel_curvature(X, Y, LossConfig(reduction="sum"))[0].mean())
    assert found == pytest.approx(2 / (sigma * (2 * torch.pi) ** 0.5), rel=0.1)
    mean = float(pixel_curvature(X, Y, LossConfig(reduction="mean"))[0].mean())
    assert mean == pytest.approx(found / 128**2)
    assert float(pixel_curvature(X, Y, LossConfig(reduction="mean", tau=0.1))[0].mean()) > mean


def test_probes_have_the_mean_of_gauss_and_newton() -> None:
    """E g gᵀ = Σ_j λ_j ∇X_j ∇X_jᵀ, here pixel by pixel on a small image."""
    config = tiny_training(data={"patch_rows": 16, "patch_cols": 16})
    model = tiny()
    batch = Dataset(config.data, config.recipe(), seed=1).element(0, 0)
    found = curvature(model, [batch] * 150, config.loss, torch.Generator().manual_seed(0))
    name = min(found, key=lambda n: found[n].numel())
    reg, gain = model.regularizer, model.scaling.gain
    theta = {n: w.detach().requires_grad_(n == name) for n, w in reg.weights().items()}
    D = model.scheme.data_term(batch.z, batch.mask, batch.s)
    X = rss(model.scheme.run(D, reg.bind(theta))) / gain  # type: ignore[arg-type]
    weight = pixel_curvature(X.detach(), batch.Y / gain, config.loss).flatten()
    rows = [torch.autograd.grad(x, theta[name], retain_graph=True)[0].flatten(2) for x in X.flatten()]
    g = torch.stack(rows, dim=-1).double()
    want = (g * weight) @ g.mT
    scale = want.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None]
    assert ((found[name] - want) / scale).square().mean().sqrt() < 0.08
    assert float(found[name].sum() / want.sum()) == pytest.approx(1, abs=0.3)


def test_the_pull_on_L_is_that_of_the_gradient() -> None:
    """d/ds E J(μ + sLε) = E⟨∇J(μ + Lε), Lε⟩ at s = 1, here of the same pair ±ε."""
    config, model = tiny_training(data={"patch_rows": 16, "patch_cols": 16}), tiny()
    batch = Dataset(config.data, config.recipe(), seed=1).element(0, 0)
    posterior, reg, gain = model.distribution(), model.regularizer, model.scaling.gain
    rng = torch.Generator().manual_seed(0)
    (found,) = pulls(model, [posterior.blocks], [batch], config.loss, rng, step=0.02)
    seed = int(torch.randint(2**31, (), generator=torch.Generator().manual_seed(0)))
    theta = posterior.sample(torch.Generator().manual_seed(seed))
    D, want = model.scheme.data_term(batch.z, batch.mask, batch.s), 0.0
    for sign in (1, -1):
        moved = {n: (w + sign * (theta[n] - w)).detach().requires_grad_() for n, w in reg.weights().items()}
        J = loss(rss(model.scheme.run(D, reg.bind(moved))) / gain, batch.Y / gain, config.loss).mean()  # type: ignore[arg-type]
        grads = torch.autograd.grad(J, list(moved.values()), allow_unused=True)
        steps = ((moved[n] - w).detach() for n, w in reg.weights().items())
        want += 0.5 * sum(float((g * step).sum()) for g, step in zip(grads, steps, strict=True) if g is not None)
    assert found == pytest.approx(want, rel=0.05)
    assert balance(posterior.blocks, alpha=10.0, beta=2e-8) == pytest.approx(
        2 * balance(posterior.blocks, alpha=10.0, beta=1e-8)
    )


def test_a_sweep_writes_models_that_draw(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "images").mkdir()
    write_images(tmp_path / "images" / "head.h5", shape=(24, 20))
    save_model(tmp_path / "fixed.json", tiny(width=None))
    config = tmp_path / "config.toml"
    config.write_text(f'[data]\nval_fraction = 0.0\n[[data.sources]]\npath = "{tmp_path / "images"}"\n')
    command = [
        "posterior",
        str(tmp_path / "fixed.json"),
        "--config",
        str(config),
        "--probes",
        "3",
        "--checks",
        "2",
        "--json",
    ]
    betas = ["--beta", "1e-5", "--beta", "1e-3"]
    assert main([*command, *betas, "-o", str(tmp_path / "sweep")]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    models = [load_model(Path(row["output"])) for row in rows]
    for row, model in zip(rows, models, strict=True):
        assert model.stochastic
        assert float(entropy(model.distribution().blocks)) == pytest.approx(row["entropy"], abs=1e-3)
        assert model.card["posterior"]["beta"] == row["beta"]
        assert row["entropy_at_balance"] == pytest.approx(row["entropy"] - 4.5 * math.log(row["v"]))
    assert rows[0]["entropy"] < rows[1]["entropy"]
    fixed = load_model(tmp_path / "fixed.json").regularizer.weights()
    assert all(torch.equal(w, fixed[name]) for name, w in models[0].regularizer.weights().items())
    assert main([*command, *betas, "-o", str(tmp_path / "one.json")]) == 2
    assert "expected a folder" in capsys.readouterr().err
