"""Networks under the same commands as TDV: training, checkpoints, reconstruction, evaluation, and L1-wavelet beside."""

import builtins
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import pytest
import torch

from bayesmri.baselines.wavelet import L1Wavelet
from bayesmri.checkpoint import load_checkpoint, load_model, save_model
from bayesmri.cli import main
from bayesmri.data.dataset import Dataset
from bayesmri.errors import ConfigError, MissingExtraError, ModelError
from bayesmri.evaluation.request import Study
from bayesmri.evaluation.table import evaluate
from bayesmri.model import Coils, Model
from bayesmri.physics.fidelity import fidelity
from bayesmri.physics.fourier import ifft2c
from bayesmri.recon.files import PhantomRequest, simulate_file
from bayesmri.runs import checkpoints, latest
from bayesmri.training.distributed import World
from bayesmri.training.loop import gradients
from bayesmri.training.plan import plan
from bayesmri.training.run_folder import train
from bayesmri.training.settings import TrainConfig
from bayesmri.training.state import start, update
from small_networks import KINDS, small_network
from test_tv import problem
from training_runs import TINY, tiny

MODELS: dict[str, dict[str, Any]] = {
    "unet": {"kind": "unet", "Q": 1, "features": 4, "pools": 2},
    "varnet": {"kind": "varnet", "Q": 1, "cascades": 2, "features": 4, "pools": 2, "sens_features": 0},
    "irim": {"kind": "irim", "Q": 1, "steps": 2, "channels": 8, "hidden": [8, 8], "strides": [1, 2]},
    "sigmanet": {
        "kind": "sigmanet",
        "Q": 1,
        "members": ["gd", "pm", "vs"],
        "iterations": 2,
        "features": 4,
        "blocks": 1,
    },
}


def network_config(kind: str, **sections: dict[str, Any]) -> TrainConfig:
    base = {"optimizer": {"lr": 3e-3, "ema": 0.9}} | sections
    return tiny(**base, model=MODELS[kind])


@pytest.fixture(autouse=True)
def without_the_unrolled_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    """Networks refuse the sections of TDV in the tiny configuration."""
    monkeypatch.delitem(TINY, "unroll")
    monkeypatch.delitem(TINY, "model")


def silent(event: str, values: Mapping[str, Any]) -> None:
    """Nobody listens."""


@pytest.mark.parametrize("kind", KINDS)
def test_updates_lower_the_loss(kind: str) -> None:
    config = network_config(kind)
    batches = Dataset(config.data, config.recipe(), seed=1).batches(0, range(2))
    state = start(config)
    losses = []
    for _ in range(25):
        J, grads, _ = gradients(
            config, state, batches, accelerate=lambda bound: bound, world=World(), extra=torch.zeros(1)
        )
        assert "T" not in grads
        update(config, state, grads, progress=0.0)
        losses.append(J)
    assert losses[-1] < 0.9 * losses[0]


@pytest.mark.parametrize("kind", KINDS)
def test_resuming_goes_on_bit_by_bit(kind: str, tmp_path: Path) -> None:
    whole, halves = tmp_path / "whole", tmp_path / "halves"
    train(network_config(kind, train={"iterations": 4}), whole, say=silent)
    train(network_config(kind, train={"iterations": 2}), halves, say=silent)
    train(network_config(kind, train={"iterations": 4}), halves, resume=True, say=silent)
    a, b = (load_checkpoint(path) for path in (checkpoints(whole)[-1], checkpoints(halves)[-1]))
    assert a.step == b.step == 4
    for name, tensor in a.state.items():
        assert torch.equal(tensor, b.state[name]), name
    for name, weight in a.model.regularizer.weights().items():
        assert torch.equal(weight, b.model.regularizer.weights()[name])


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_network_reconstructs_the_same(kind: str, tmp_path: Path) -> None:
    network = small_network(kind, 2)
    model = Model(network, T=0.0, S=1, coils=Coils("virtual", 2))
    save_model(tmp_path / "net.json", model)
    loaded = load_model(tmp_path / "net.json")
    assert loaded.n_parameters == model.n_parameters == sum(p.numel() for p in network.parameters())
    z, mask = problem((24, 32), 3)
    z = z.to(torch.complex64)
    assert torch.equal(loaded.reconstruct(z, mask), model.reconstruct(z, mask))
    torch.testing.assert_close(
        loaded.reconstruct(1000 * z, mask) / 1000, model.reconstruct(z, mask), rtol=1e-3, atol=1e-4
    )


def test_recon_and_evaluate_take_a_trained_network(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    train(network_config("varnet", train={"iterations": 2}), run, say=silent)
    data = tmp_path / "data" / "head.h5"
    simulate_file(PhantomRequest("head", "PD", (40, 37)), data, coils=1, snr_db=30, seed=1)
    out = tmp_path / "out.h5"
    assert main(["recon", str(data), "--model", str(run), "--acceleration", "4", "-o", str(out)]) == 0
    with h5py.File(out) as file:
        assert file["reconstruction"].shape[-2:] == (40, 37)
    rows = evaluate(Study(data, ("zero-filled", str(run))))["rows"]
    assert [row["method"] for row in rows] == ["zero-filled", "run"]
    assert rows[1]["parameters"] == load_model(run).n_parameters
    assert main(["recon", str(data), "--model", str(run), "--samples", "2", "-o", str(tmp_path / "no.h5")]) == 2
    assert "no posterior" in capsys.readouterr().err


def test_the_run_says_nothing_of_T_and_S(tmp_path: Path) -> None:
    said: list[tuple[str, Mapping[str, Any]]] = []
    train(network_config("unet", train={"iterations": 2}), tmp_path, say=lambda e, v: said.append((e, v)))
    logged = [values for event, values in said if event == "log"]
    assert logged
    assert all(values["T"] is None and values["S"] is None for values in logged)
    facts = plan(network_config("unet"))
    assert facts["parameters"] == load_model(tmp_path).n_parameters
    assert {row["S"] for row in facts["schedule"]} == {None}
    assert (last := latest(tmp_path)) is not None
    assert load_checkpoint(last).model.S == 1


@pytest.mark.parametrize(
    ("section", "values", "word"), [("posterior", {"kind": "gaussian"}, "posterior"), ("unroll", {"T0": 3.0}, "unroll")]
)
def test_what_a_network_does_not_have_is_refused(section: str, values: dict[str, Any], word: str) -> None:
    with pytest.raises(ConfigError, match=rf"{word}.*unet") as refused:
        network_config("unet", **{section: values})
    assert "\n" not in str(refused.value)


def test_weights_of_another_network_are_refused(tmp_path: Path) -> None:
    save_model(tmp_path / "net.json", Model(small_network("unet"), T=0.0, S=1))
    with pytest.raises(ModelError, match="lack"):
        start(network_config("varnet"), load_model(tmp_path / "net.json"))


@pytest.mark.parametrize(("shape", "Q"), [((40, 44), 1), ((39, 45), 4)])
def test_l1_wavelet_trades_data_for_sparsity(shape: tuple[int, int], Q: int) -> None:
    pytest.importorskip("sigpy", reason="sigpy is not installed: the method is an extra")
    z, mask = problem(shape, Q)
    z = z.to(torch.complex64)
    x = L1Wavelet()(z, mask)
    assert torch.equal(L1Wavelet()(z, mask), x)
    assert x.shape == z.shape
    loose, strict = L1Wavelet(weight=0.3)(z, mask), L1Wavelet(weight=0.0)(z, mask)
    residuals = [float(fidelity(image, z, mask)) for image in (torch.zeros_like(x), loose, x, strict)]
    assert residuals == sorted(residuals, reverse=True)
    assert residuals[2] < 0.1 * residuals[0]
    if Q == 1:  # without a penalty the zero-filled image is already the minimum
        torch.testing.assert_close(strict, ifft2c(z), rtol=1e-4, atol=1e-4)


def test_l1_wavelet_under_the_commands(tmp_path: Path) -> None:
    pytest.importorskip("sigpy", reason="sigpy is not installed: the method is an extra")
    data = tmp_path / "head.h5"
    simulate_file(PhantomRequest("head", "PD", (64, 60)), data, coils=4, snr_db=30, seed=1)
    out = tmp_path / "out.h5"
    assert main(["recon", str(data), "--method", "l1-wavelet", "--acceleration", "3", "-o", str(out)]) == 0
    with h5py.File(out) as file:
        X = torch.from_numpy(file["reconstruction"][:])
    rows = evaluate(Study(data, ("zero-filled", "l1-wavelet"), (3.0,)))["rows"]
    assert X.shape[-2:] == (64, 60)
    assert rows[1]["psnr"] > rows[0]["psnr"]
    assert rows[1]["parameters"] == 0


def test_without_sigpy_one_line_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **named: Any) -> Any:
        if name.startswith("sigpy"):
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r"bayesmri\[baselines\]") as refused:
        L1Wavelet()
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("weight", [-1.0, float("nan")])
def test_impossible_weights_are_refused(weight: float) -> None:
    with pytest.raises(ConfigError, match="expected a number"):
        L1Wavelet(weight=weight)
