"""Rivals for uncertainty: dropout as fastMRI drops, a variance that is a likelihood's, and both under the commands."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from scipy.stats import norm

from bayesmri.baselines.network import BoundNetwork, Network
from bayesmri.baselines.unet import FLOOR, HEAD, Hourglass, UNet, UNetConfig, drop, moments
from bayesmri.checkpoint import load_checkpoint, load_model, save_model
from bayesmri.cli import main
from bayesmri.complexes import rss
from bayesmri.config import parse
from bayesmri.data.dataset import Dataset
from bayesmri.errors import ConfigError, ModelError
from bayesmri.io.formats import read_kspace
from bayesmri.model import Coils, Model, build
from bayesmri.physics.fourier import ifft2c
from bayesmri.recon.files import PhantomRequest, simulate_file
from bayesmri.recon.reconstruct import reconstruct
from bayesmri.recon.request import Options
from bayesmri.runs import checkpoints
from bayesmri.training.distributed import World
from bayesmri.training.loop import gradients
from bayesmri.training.loss import LossConfig, likelihood_loss
from bayesmri.training.run_folder import train
from bayesmri.training.settings import TrainConfig
from bayesmri.training.state import start, update
from laws import normal
from small_networks import measured
from training_runs import TINY, tiny

PLAIN: dict[str, Any] = {"kind": "unet", "Q": 1, "features": 4, "pools": 2}
RIVALS: dict[str, dict[str, dict[str, Any]]] = {
    "dropout": {"model": PLAIN | {"dropout": 0.1}},
    "variance": {"model": PLAIN | {"variance": True}, "loss": {"kind": "nll", "tau": 0.0}},
}


def silent(event: str, values: Mapping[str, Any]) -> None:
    """Nobody listens."""


@pytest.fixture(autouse=True)
def without_the_unrolled_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    """Networks refuse the sections of TDV in the tiny configuration."""
    monkeypatch.delitem(TINY, "unroll")
    monkeypatch.delitem(TINY, "model")


def rival(kind: str, **sections: dict[str, Any]) -> TrainConfig:
    return tiny(**({"optimizer": {"lr": 1e-2, "ema": 0.9}} | RIVALS.get(kind, {"model": PLAIN}) | sections))


def bound(network: Network) -> BoundNetwork:
    return network.bind({name: w.detach() for name, w in network.weights().items()})


def small(seed: int = 0, Q: int = 1, **settings: Any) -> UNet:
    network = build(UNetConfig(Q=Q, features=4, pools=2, **settings), torch.Generator().manual_seed(seed))
    assert isinstance(network, UNet)
    return network


@pytest.mark.parametrize("shape", [(32, 48), (37, 51)])
def test_channels_are_dropped_as_fastmri_drops_them(shape: tuple[int, int]) -> None:
    models = pytest.importorskip("fastmri.models", reason="fastmri 0.3.0 is not installed: nothing to compare with")
    theirs = models.Unet(3, 2, chans=4, num_pool_layers=3, drop_prob=0.3).train()
    ours = Hourglass(3, 2, features=4, pools=3, dropout=0.3)
    with torch.no_grad():
        for a, b in zip(theirs.parameters(), ours.parameters(), strict=True):
            b.copy_(a)
    v = normal(2, 3, *shape, dtype=torch.float32)
    with torch.random.fork_rng():
        torch.manual_seed(7)
        expected = theirs(v)
    torch.testing.assert_close(ours(v, torch.Generator().manual_seed(7)), expected, rtol=0, atol=0)
    torch.testing.assert_close(ours(v), theirs.eval()(v), rtol=0, atol=0)


def test_whole_channels_are_dropped_and_the_mean_stays() -> None:
    v = 1 + normal(3, 5, 4, 7, dtype=torch.float32).abs()
    rng = torch.Generator().manual_seed(0)
    total = torch.zeros_like(v)
    for _ in range(4000):
        total += drop(v, 0.25, rng) / v
    once = drop(v, 0.25, rng) / v
    torch.testing.assert_close(once, once[..., :1, :1].expand_as(once))
    assert {round(float(r), 4) for r in once[..., 0, 0].flatten()} == {0.0, 1.3333}
    torch.testing.assert_close(total / 4000, torch.ones_like(v), rtol=0, atol=0.05)
    assert drop(v, 0.25, None) is v
    assert drop(v, 0.0, rng) is v


def test_without_a_generator_nothing_is_dropped() -> None:
    """The same weights with dropout and without are one network until a generator comes."""
    z, mask = measured(1, 24, 31)
    plain, dropping = bound(small()), bound(small(dropout=0.4))
    with torch.no_grad():
        x = dropping(z, mask)
        assert torch.equal(x, plain(z, mask))
        a, b, c = (dropping.dropping(torch.Generator().manual_seed(seed))(z, mask) for seed in (1, 1, 2))
    assert torch.equal(a, b)
    assert not torch.equal(a, c)
    assert not torch.equal(a, x)
    assert (dropping.network.drops, plain.network.drops, plain.network.doubts) == (True, False, False)


def test_the_likelihood_is_best_at_the_true_variance() -> None:
    """∂/∂σ² ½(e²/σ² + ln σ²) = 0 at σ² = e²; for pixels of one σ² at their mean e²."""
    Y, X = normal(2, 9, 10, dtype=torch.float64), normal(2, 9, 10, seed=1, dtype=torch.float64)
    config = LossConfig("nll", reduction="mean")
    best = (X - Y).square().mean(dim=(-2, -1), keepdim=True).expand_as(X)
    scale = torch.ones(2, 1, 1, dtype=torch.float64, requires_grad=True)
    J = likelihood_loss(X, scale * best, Y, config)
    (slope,) = torch.autograd.grad(J.sum(), scale)
    torch.testing.assert_close(slope, torch.zeros_like(slope), rtol=0, atol=1e-12)
    for factor in (0.5, 0.9, 1.1, 2.0):
        assert bool((likelihood_loss(X, factor * best, Y, config) > J).all())
    densities = norm.logpdf(Y.numpy(), X.numpy(), best.sqrt().numpy()).mean(axis=(1, 2))
    np.testing.assert_allclose(J.detach(), -densities - 0.5 * np.log(2 * np.pi))
    total = likelihood_loss(X, best, Y, LossConfig("nll", reduction="sum"))
    torch.testing.assert_close(total, 90 * J)


@pytest.mark.parametrize(("Q", "shape"), [(1, (24, 32)), (3, (25, 31))])
@torch.no_grad()
def test_a_predicted_variance_follows_the_units_and_has_a_floor(Q: int, shape: tuple[int, int]) -> None:
    network = small(Q=Q, variance=True)
    z, mask = measured(Q, *shape)
    x, variance = moments(bound(network), z, mask)
    assert torch.equal(x, bound(network)(z, mask))
    assert variance.shape == (2, *shape)
    again, larger = moments(bound(network), 1024 * z, mask)
    torch.testing.assert_close(again / 1024, x, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(larger / 1024**2, variance, rtol=1e-4, atol=1e-5)
    assert network.doubt is not None
    assert network.doubt.bias is not None
    network.doubt.bias.fill_(-1000.0)
    _, least = moments(bound(network), z, mask)
    spread = rss(ifft2c(z)).std(dim=(-2, -1), keepdim=True)
    torch.testing.assert_close(least.sqrt(), (FLOOR * spread).expand_as(least))


def test_empty_slices_do_no_harm_to_a_variance() -> None:
    network = small(variance=True)
    z, mask = measured(1, 24, 26)
    z[1] = 0
    weights = network.weights()
    x, variance = moments(network.bind(weights), z, mask)
    J = likelihood_loss(rss(x), variance, torch.zeros_like(variance), LossConfig("nll"))
    grads = torch.autograd.grad(J.sum(), list(weights.values()))
    assert J.isfinite().all()
    assert all(g.isfinite().all() for g in grads)


def steps(config: TrainConfig, count: int) -> list[float]:
    batches = Dataset(config.data, config.recipe(), seed=1).batches(0, range(2))
    state, losses = start(config), []
    for _ in range(count):
        J, grads, _ = gradients(
            config, state, batches, accelerate=lambda bound: bound, world=World(), extra=torch.zeros(1)
        )
        update(config, state, grads, progress=0.0)
        losses.append(J)
    return losses


@pytest.mark.parametrize("kind", RIVALS)
def test_updates_lower_the_loss(kind: str) -> None:
    losses = steps(rival(kind), 40)
    before, after = np.mean(losses[:3]), np.mean(losses[-3:])
    assert after < before - 0.1 * abs(before)


def test_training_drops_by_the_run_seed_and_the_step() -> None:
    """At learning rate 0 only what is dropped changes the loss."""
    still: dict[str, Any] = {"optimizer": {"lr": 0.0}}
    losses = steps(rival("dropout", **still), 3)
    assert len(set(losses)) == 3
    assert steps(rival("dropout", **still), 3) == losses
    assert len(set(steps(rival("plain", **still), 3))) == 1


@pytest.mark.parametrize("kind", RIVALS)
def test_resuming_goes_on_bit_by_bit(kind: str, tmp_path: Path) -> None:
    whole, halves = tmp_path / "whole", tmp_path / "halves"
    train(rival(kind, train={"iterations": 4}), whole, say=silent)
    train(rival(kind, train={"iterations": 2}), halves, say=silent)
    train(rival(kind, train={"iterations": 4}), halves, resume=True, say=silent)
    a, b = (load_checkpoint(checkpoints(run)[-1]) for run in (whole, halves))
    assert a.step == b.step == 4
    for name, tensor in a.state.items():
        assert torch.equal(tensor, b.state[name]), name


def test_a_variance_can_start_from_a_plain_unet() -> None:
    origin = Model(small(seed=5), T=0.0, S=1)
    warm = start(rival("variance"), origin)
    z, mask = measured(1, 24, 26)
    with torch.no_grad():
        torch.testing.assert_close(bound(warm.reg)(z, mask), bound(origin.regularizer)(z, mask))  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="doubt"):
        start(rival("plain"), Model(small(variance=True), T=0.0, S=1))


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"model": PLAIN | {"dropout": 1.0}}, "below 1"),
        ({"model": PLAIN | {"dropout": 0.1, "variance": True}, "loss": {"kind": "nll"}}, "one of the two"),
        ({"model": PLAIN | {"variance": True}}, "with variance.*nll"),
        ({"model": PLAIN, "loss": {"kind": "nll"}}, "without variance"),
        ({"model": {"kind": "tdv"}, "loss": {"kind": "nll"}}, "without variance"),
    ],
)
def test_what_makes_no_sense_is_refused(sections: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as refused:
        tiny(**sections)
    assert "\n" not in str(refused.value)


@pytest.fixture
def scan(tmp_path: Path) -> Path:
    path = tmp_path / "scan.h5"
    simulate_file(PhantomRequest("head", "PD", (24, 27), slices=2), path, coils=3, snr_db=30, seed=1)
    return path


def saved(folder: Path, name: str, **settings: Any) -> Path:
    """A network that takes the coils of any array."""
    save_model(folder / f"{name}.json", Model(small(Q=3, **settings), T=0.0, S=1, coils=Coils("raw", 3)))
    return folder / f"{name}.json"


def test_recon_of_a_network_that_drops(scan: Path, tmp_path: Path) -> None:
    model, kspace = load_model(saved(tmp_path, "net", dropout=0.3)), read_kspace(scan)
    once = reconstruct(kspace, Options(model=model))
    assert once.std is None
    a, b, other = (
        reconstruct(kspace, Options(model=model, samples=6, keep_samples=True, seed=seed)) for seed in (1, 1, 2)
    )
    assert a.samples is not None
    assert a.std is not None
    np.testing.assert_array_equal(a.samples, b.samples)
    assert not np.array_equal(a.samples, other.samples)  # type: ignore[arg-type]
    np.testing.assert_array_equal(a.deterministic, once.image)
    np.testing.assert_allclose(a.image, a.samples.mean(axis=1), rtol=1e-5)
    np.testing.assert_allclose(a.std, a.samples.std(axis=1), rtol=1e-3, atol=1e-6 * float(a.image.max()))
    alone = reconstruct(replace(kspace, z=kspace.z[:1]), Options(model=model, samples=6, seed=1, keep_samples=True))
    assert alone.samples is not None
    assert not np.array_equal(alone.samples[0, 0], alone.samples[0, 1])


def test_recon_of_a_network_that_predicts_its_variance(
    scan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    net, out = saved(tmp_path, "net", variance=True), tmp_path / "out.h5"
    argv = ["recon", str(scan), "--model", str(net), "--acceleration", "3", "-o", str(out), "--nifti", "--png"]
    assert main(argv) == 0
    assert "with a predicted std" in capsys.readouterr().out
    assert (tmp_path / "out_std.nii.gz").exists()
    with h5py.File(out) as file:
        std = file["uncertainty_std"][:]
        assert "samples" not in file
        assert "kspace_std" not in file
    assert std.shape == (2, 24, 27)
    assert float(std.min()) > 0
    assert main([*argv, "--json", "--force"]) == 0
    assert json.loads(capsys.readouterr().out)["uncertainty"]["max_std"] == pytest.approx(float(std.max()))
    assert main([*argv[:-2], "--samples", "3", "--force"]) == 2
    assert "no posterior" in capsys.readouterr().err


def test_a_plain_model_writes_no_std(scan: Path, tmp_path: Path) -> None:
    net, out = saved(tmp_path, "net"), tmp_path / "out.h5"
    assert main(["recon", str(scan), "--model", str(net), "--acceleration", "3", "-o", str(out), "--nifti"]) == 0
    assert not (tmp_path / "out_std.nii.gz").exists()


def test_older_models_load_as_plain_ones() -> None:
    """Configurations saved before there were dropout and variance."""
    config = parse(UNetConfig, {"Q": 1, "features": 4, "pools": 2, "residual": True})
    assert (config.dropout, config.variance) == (0.0, False)
    assert not any(name.startswith(HEAD) for name in small().weights())
