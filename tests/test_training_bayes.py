"""Stochastic training: its gradients and steps are the formulas, it repeats in bits, and without β its spread dies."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from bayesmri.checkpoint import load_checkpoint, load_model
from bayesmri.complexes import rss
from bayesmri.data.dataset import Batch, Dataset, Recipe, generator, make_element
from bayesmri.data.phantom import PhantomSpec, phantom
from bayesmri.errors import ConfigError, ModelError
from bayesmri.model import solve
from bayesmri.physics.mask import MaskSpec
from bayesmri.posterior.block_gaussian import BlockGaussian
from bayesmri.posterior.kl import trace
from bayesmri.posterior.prox import prox_divergence
from bayesmri.posterior.triangular import dense, diagonal
from bayesmri.regularizers.foe import FoEConfig
from bayesmri.solver import Scheme
from bayesmri.training.block_adam import BlockAdam
from bayesmri.training.distributed import World
from bayesmri.training.loop import _draw, gradients
from bayesmri.training.loss import loss
from bayesmri.training.plan import plan
from bayesmri.training.run_folder import read_config, train
from bayesmri.training.settings import TrainConfig
from bayesmri.training.spread import PREFIX
from bayesmri.training.state import State, as_model, resume, snapshot, start, update
from training_runs import tiny

ROOT = Path(__file__).resolve().parents[1]
GAUSSIAN: dict[str, Any] = {"kind": "gaussian", "beta": 1e-6, "lr": 1e-2, "L0": 0.1}


def bayes(**sections: dict[str, Any]) -> TrainConfig:
    return tiny(**({"posterior": GAUSSIAN} | sections))


def silent(event: str, values: dict[str, Any]) -> None:
    """Nobody listens."""


def as_it_is(reg: Any) -> Any:
    return reg


def step(config: TrainConfig, state: State, batches: list[Batch]) -> tuple[float, dict[str, torch.Tensor]]:
    J, g, _ = gradients(config, state, batches, accelerate=as_it_is, world=World(), extra=torch.zeros(1))
    return J, g


def batches_of(config: TrainConfig, number: int = 0) -> list[Batch]:
    return list(Dataset(config.data, config.recipe(), seed=1).batches(number, range(config.train.batch)))


def plain_J(config: TrainConfig, state: State, theta: dict[str, torch.Tensor], batches: list[Batch]) -> torch.Tensor:
    """The mean of J over the batch, written down once more."""
    total = torch.zeros(())
    for b in batches:
        x = solve(b.z, b.mask, state.reg.bind(theta), Scheme(state.T, config.unroll.S_start))
        total = total + loss(rss(x), b.Y, config.loss).sum() / config.train.batch
    return total


# gradients


def test_delta_is_the_deterministic_gradient_in_bits() -> None:
    """Whatever stands in the rest of the section."""
    config = tiny(posterior={"kind": "delta", "beta": 7.0, "draws": 3}, train={"recompute": False})
    state, batches = start(config), batches_of(config)[:1]
    J, g = step(config, state, batches)
    params = state.reg.weights() | {"T": state.T}
    want = plain_J(config, state, state.reg.weights(), batches)
    wanted = torch.autograd.grad(want, list(params.values()))
    assert want.item() == J
    assert list(g) == list(params)
    assert all(torch.equal(a, b) for a, b in zip(g.values(), wanted, strict=True))


def test_delta_trains_as_the_deterministic_run_in_bits(tmp_path: Path) -> None:
    short = {"iterations": 4, "val_every": 4}
    train(tiny(train=short), tmp_path / "a", say=silent)
    posterior = {"kind": "delta", "alpha": 3.0, "beta": 5.0, "lr": 0.5, "draws": 4}
    train(tiny(train=short, posterior=posterior), tmp_path / "b", say=silent)
    for name in ("step-00000004.safetensors", "step-00000004.state.safetensors"):
        a, b = (load_file(tmp_path / run / "checkpoints" / name) for run in ("a", "b"))
        assert a.keys() == b.keys()
        assert all(torch.equal(a[k], b[k]) for k in a)


@pytest.mark.parametrize("draws", [1, 3])
def test_gradients_are_those_through_the_draws(draws: int) -> None:
    """In μ and L, against autograd straight through sample(); T has none."""
    config = bayes(posterior=GAUSSIAN | {"draws": draws}, train={"recompute": False})
    state, batches = start(config), batches_of(config)
    J, g = step(config, state, batches)
    assert state.spread is not None
    mu, L = state.reg.weights(), state.spread.L
    rngs = [generator(config.seed, "weights", 0, i) for i in range(draws)]
    thetas = [BlockGaussian(mu, L).sample(rng) for rng in rngs]
    want = torch.stack([plain_J(config, state, theta, batches) for theta in thetas]).mean()
    wanted = torch.autograd.grad(want, [*mu.values(), *L.values()])
    assert want.item() == pytest.approx(J, rel=1e-6)
    assert list(g) == [*mu, *(PREFIX + name for name in L)]
    for a, b in zip(g.values(), wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-5 * float(b.abs().max()))


def test_the_gradient_in_L_of_a_pair_is_free_of_that_in_the_mean() -> None:
    """∂J/∂L = ½(g₊ − g₋)εᵀ of θ = μ ± Lε: with L → 0 it vanishes, as that of one draw does not."""
    sizes = []
    for posterior in ({"draws": 1}, {"draws": 2, "antithetic": True}):
        config = bayes(posterior=GAUSSIAN | posterior | {"L0": 1e-4})
        _, g = step(config, start(config), batches_of(config))
        sizes.append(max(float(gl.abs().max()) for name, gl in g.items() if name.startswith(PREFIX)))
    assert sizes[1] < 0.05 * sizes[0]


def test_a_pair_lies_around_the_mean() -> None:
    config = bayes(posterior=GAUSSIAN | {"draws": 4, "antithetic": True})
    state = start(config)
    a, b, c, _ = (_draw(config, state, i) for i in range(4))
    for name, mu in state.reg.weights().items():
        torch.testing.assert_close((a[name] + b[name]) / 2, mu, rtol=1e-5, atol=1e-6)
        assert torch.equal(a[name], c[name]) == (name not in state.reg.kernels())


def test_draws_depend_on_seed_and_step_alone() -> None:
    config = bayes()
    batches = batches_of(config)

    def J(seed: int, number: int) -> float:
        state = start(config)
        state.step = number  # S is the same for both steps below
        return step(replace(config, seed=seed), state, batches)[0]

    assert J(5, 0) == J(5, 0)
    assert len({J(5, 0), J(5, 1), J(6, 0)}) == 3


def test_shares_of_the_batch_draw_the_same_weights() -> None:
    config = bayes()
    state, data = start(config), Dataset(config.data, config.recipe(), seed=1)
    parts = [step(config, state, list(data.batches(0, World(rank, 2).share(2)))) for rank in (0, 1)]
    J, g = step(config, state, list(data.batches(0, range(2))))
    assert parts[0][0] + parts[1][0] == pytest.approx(J, rel=1e-5)
    for name in g:
        want = parts[0][1][name] + parts[1][1][name]
        torch.testing.assert_close(g[name], want, rtol=1e-3, atol=1e-5 * float(want.abs().max()))


# steps


def test_a_block_steps_and_proxes_with_one_size() -> None:
    """l ← prox_{hf}(l − h m̂), h = lr/(√v̂ + ε) with v the mean of g² over the block; three updates by hand."""
    rng, (b1, b2), eps, lr = torch.Generator().manual_seed(0), (0.5, 0.9), 1e-8, 0.05
    l = torch.rand(2, 3, 10, generator=rng, dtype=torch.float64)
    ours, adam_h = l.clone(), []
    adam = BlockAdam({"K": ours}, betas=(b1, b2), eps=eps)

    def prox(block: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        adam_h.append(h)
        return prox_divergence(block, h, alpha=10.0, beta=0.3)

    m, v = torch.zeros(2, 3, 10, dtype=torch.float64), torch.zeros(2, 3, dtype=torch.float64)
    for t in (1, 2, 3):
        g = torch.randn(2, 3, 10, generator=rng, dtype=torch.float64)
        adam.step({"K": g}, lr, prox)
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * (g**2).mean(-1)
        for i in range(2):
            for j in range(3):
                h = lr / (math.sqrt(float(v[i, j]) / (1 - b2**t)) + eps)
                assert float(adam_h[-1][i, j]) == pytest.approx(h, rel=1e-12)
                l[i, j] = prox_divergence(l[i, j] - h * m[i, j] / (1 - b1**t), h, alpha=10.0, beta=0.3)
        torch.testing.assert_close(ours, l, rtol=1e-12, atol=0)


def test_T_is_fixed_and_weights_and_L_move() -> None:
    config = bayes(optimizer={"lr_T": 10.0})
    state, batches = start(config), batches_of(config)
    before = {n: w.detach().clone() for n, w in state.reg.weights().items()}
    for _ in range(2):
        update(config, state, step(config, state, batches)[1], progress=0)
    assert state.T.item() == config.unroll.T0
    assert all(not torch.equal(before[n], w) for n, w in state.reg.weights().items())
    assert state.spread is not None
    for l in state.spread.L.values():
        assert bool((diagonal(l) > 0).all())
        assert dense(l).tril(-1).abs().max().item() > 0


def test_moments_of_L_reset_with_the_others() -> None:
    config = bayes(optimizer={"reset_every": 2})
    state = start(config)
    assert state.spread is not None
    for t in (1, 2, 1):
        grads = {n: torch.ones_like(w) for n, w in state.reg.weights().items()}
        grads |= {PREFIX + n: torch.ones_like(l) for n, l in state.spread.L.items()}
        update(config, state, grads, progress=0)
        assert state.spread.adam.t == state.adam.t == t


def _one_slice() -> Batch:
    X = phantom(PhantomSpec(anatomy="knee", shape=(12, 12)), rng=torch.Generator().manual_seed(3))
    recipe = Recipe(mask=MaskSpec(acceleration=3.0, center_fraction=0.1))
    return make_element(X.to(torch.complex64), recipe, patch_rows=None, rng=torch.Generator().manual_seed(1))


def _trained_trace(beta: float) -> float:
    """tr LLᵀ over that of the start, after a short training on one slice."""
    config = bayes(
        posterior=GAUSSIAN | {"beta": beta, "L0": 0.3, "lr": 2e-2, "draws": 8},
        unroll={"T0": 4.0, "S_start": 1, "S_max": 1},
        optimizer={"betas": [0.9, 0.99], "reset_every": 0, "ema": 0.0, "halve_every": 1000},
        loss={"tau": 0.0},
        train={"batch": 1, "recompute": False},
    )
    config = replace(config, model=FoEConfig(features=2, kernel_size=3, init_scale=1.0))
    state, batch = start(config), _one_slice()
    assert state.spread is not None
    before = trace(state.spread.L).item()
    for _ in range(100):
        update(config, state, step(config, state, [batch])[1], progress=0)
    return trace(state.spread.L).item() / before


def test_the_spread_dies_without_beta_and_grows_with_it() -> None:
    none, little, much = (_trained_trace(beta) for beta in (0.0, 1e-3, 1e-1))
    assert none < 0.5 < little < 0.8 < much


# runs


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("bayes") / "run"
    train(bayes(posterior=GAUSSIAN | {"val_sample": True}), run, say=silent)
    return run


def test_a_stochastic_run_leaves_what_it_promises(straight: Path) -> None:
    lines = [json.loads(line) for line in (straight / "metrics.jsonl").read_text().splitlines()]
    logged = [line for line in lines if line["kind"] == "train"]
    for name in ("entropy", "kl", "trace", "log_det", "penalty"):
        assert all(math.isfinite(line[name]) for line in logged)
    first = next(line for line in lines if line["kind"] == "val")
    assert first["psnr_sample"] != first["psnr"]
    assert all(line["T"] == 2.0 for line in logged)
    model = load_model(straight)
    assert isinstance(model.posterior, BlockGaussian)
    assert model.card["posterior"]["entropy"] < 0
    theta = model.distribution().sample(torch.Generator().manual_seed(0))
    model.regularizer.bind(theta)


def test_stochastic_runs_resume_bit_identically(straight: Path, tmp_path: Path) -> None:
    config = bayes(posterior=GAUSSIAN | {"val_sample": True})
    half = bayes(posterior=GAUSSIAN | {"val_sample": True}, train={"iterations": 6})
    train(half, tmp_path / "run", say=silent)
    result = train(config, tmp_path / "run", resume=True, say=silent)
    assert result["resumed_from"] == 6
    for suffix in (".safetensors", ".state.safetensors"):
        a, b = (load_file(run / "checkpoints" / f"step-00000012{suffix}") for run in (straight, tmp_path / "run"))
        assert a.keys() == b.keys()
        assert any(name.startswith(PREFIX) for name in a)
        assert all(torch.equal(a[name], b[name]) for name in a)


def test_checkpoints_keep_L_its_moments_and_its_average(straight: Path) -> None:
    config = bayes()
    checkpoint = load_checkpoint(straight / "checkpoints" / "step-00000012.json")
    state = resume(config, checkpoint)
    assert state.spread is not None
    again = snapshot(config, state, metrics=None, facts={}, card={})
    assert again.state.keys() == checkpoint.state.keys()
    assert all(torch.equal(again.state[n], t) for n, t in checkpoint.state.items())
    assert isinstance(checkpoint.model.posterior, BlockGaussian)
    assert state.spread.average is not None
    for name, l in state.spread.average.items():
        assert torch.equal(l, checkpoint.model.posterior.L[name])
        assert not torch.equal(l, state.spread.L[name])


def test_kinds_do_not_resume_each_other(straight: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="gaussian"):
        resume(tiny(), load_checkpoint(straight / "checkpoints" / "step-00000012.json"))
    train(tiny(train={"iterations": 2}), tmp_path / "run", say=silent)
    with pytest.raises(ModelError, match="does not fit"):
        resume(bayes(), load_checkpoint(tmp_path / "run" / "checkpoints" / "step-00000002.json"))


def test_start_from_a_deterministic_and_from_a_stochastic_model(straight: Path, tmp_path: Path) -> None:
    train(tiny(train={"iterations": 2}), tmp_path / "run", say=silent)
    plain, drawn = load_model(tmp_path / "run"), load_model(straight)
    a, b = start(bayes(), plain), start(bayes(), drawn)
    assert a.T.item() == plain.T
    assert all(torch.equal(w, plain.regularizer.weights()[n]) for n, w in a.reg.weights().items())
    assert a.spread is not None
    assert b.spread is not None
    assert isinstance(drawn.posterior, BlockGaussian)
    for name, l in a.spread.L.items():
        assert torch.equal(dense(l.detach())[0, 0], GAUSSIAN["L0"] * torch.eye(9))
        assert torch.equal(b.spread.L[name], drawn.posterior.L[name])


# configurations


@pytest.mark.parametrize(
    "wrong", [{"alpha": 0.0}, {"beta": -1.0}, {"L0": 0.0}, {"draws": 0}, {"antithetic": True}, {"kind": "laplace"}]
)
def test_wrong_values_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        bayes(posterior=GAUSSIAN | wrong)


@pytest.mark.parametrize(
    ("name", "beta", "n"),
    [
        ("paper-single-r4-bayes", 1e-4, 9_954_496),
        ("paper-single-r8-bayes", 1e-4, 9_954_496),
        ("paper-multi-r4-bayes", 7.5e-5, 9_970_624),
        ("paper-multi-r8-bayes", 7.5e-5, 9_970_624),
    ],
)
def test_the_papers_stochastic_set_ups(name: str, beta: float, n: int) -> None:
    config = read_config(ROOT / "configs" / f"{name}.toml")
    posterior = config.posterior
    assert (posterior.kind, posterior.alpha, posterior.beta, posterior.draws) == ("gaussian", 10.0, beta, 1)
    assert pytest.approx(math.sqrt(1e-3)) == posterior.L0
    assert config.loss.reduction == "sum"
    plain = read_config(ROOT / "configs" / f"{name.removesuffix('-bayes')}.toml")
    assert (config.model, config.mask, config.loss, config.data) == (plain.model, plain.mask, plain.loss, plain.data)
    state = start(config)
    assert state.posterior().n_parameters == n


def test_the_small_set_up_and_its_flags() -> None:
    path = ROOT / "configs" / "small-single-r4-bayes.toml"
    config = read_config(path, ["--posterior.alpha", "5", "--posterior.beta", "1e-7"])
    assert (config.posterior.kind, config.posterior.alpha, config.posterior.beta) == ("gaussian", 5.0, 1e-7)


def test_dry_run_counts_L() -> None:
    facts = plan(bayes())
    deterministic = 4 * 18 + 4 * 4 * 9 * 8 + 4 + 1
    assert facts["parameters"] == deterministic + 6 * 16 * 45
    assert facts["expected"]["seconds"] > 0


def test_L_may_come_from_another_run_than_the_weights() -> None:
    """With a rate of 0 the weights stay, bit for bit, and L goes on from where it was."""
    config = tiny(posterior={"kind": "gaussian", "L0": 0.02})
    other = as_model(config, start(config), {})
    assert other.posterior is not None
    wide = BlockGaussian(other.posterior.mean(), {n: 2 * l for n, l in other.posterior.blocks.items()})
    fixed = tiny(posterior={"kind": "gaussian", "L0": 0.5}, optimizer={"lr": 0.0})
    state = start(fixed, other, origin_of_L=replace(other, posterior=wide))
    assert state.spread is not None
    before = {name: w.detach().clone() for name, w in state.reg.weights().items()}
    for name, l in state.spread.L.items():
        assert torch.equal(l, wide.L[name])
    grads = {name: torch.ones_like(w) for name, w in state.reg.weights().items()}
    grads |= {f"L.{name}": torch.ones_like(l) for name, l in state.spread.L.items()}
    update(fixed, state, grads, progress=0.0)
    for name, w in state.reg.weights().items():
        assert name == "K0" or torch.equal(w, before[name])  # K0 is projected anew
    assert not torch.equal(next(iter(state.spread.L.values())), next(iter(wide.L.values())))


def test_v_is_the_pull_on_L_over_that_of_the_penalty() -> None:
    """v = ⟨∂J/∂L, L⟩ / [2β(p − α tr LLᵀ)]: of constant gradients at once, on the card and after resuming."""
    config = bayes(posterior=GAUSSIAN | {"lr": 0.0})
    state = start(config)
    assert state.spread is not None
    assert state.spread.stationarity(config.posterior) == {}
    grads = {name: torch.zeros_like(w) for name, w in state.reg.weights().items()}
    grads |= {PREFIX + name: torch.full_like(l, 2e-6) for name, l in state.spread.L.items()}
    for _ in range(3):
        update(config, state, grads, progress=0.0)
    v = state.spread.stationarity(config.posterior)
    assert set(v) == set(state.spread.L)
    for name, l in state.spread.L.items():
        room = diagonal(l).numel() - config.posterior.alpha * l.detach().square().sum().item()
        want = 2e-6 * l.detach().sum().item() / (2 * config.posterior.beta * room)
        assert v[name] == pytest.approx(want, rel=1e-4)
    assert as_model(config, state, {}).card["posterior"]["v"] == v
    saved = snapshot(config, state, metrics=None, facts={}, card={})
    again = resume(config, saved)
    assert again.spread is not None
    assert again.spread.stationarity(config.posterior) == v
