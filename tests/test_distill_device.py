"""Distillation on another device than the CPU, which makes all draws and keeps all maps."""

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor

from bayesmri.checkpoint import load_model, save_model
from bayesmri.cli import main
from bayesmri.data.dataset import Batch, Dataset
from bayesmri.machine.devices import check_device
from bayesmri.physics.data_terms import DataTerm
from bayesmri.posterior.predictor import Predictor, PredictorConfig
from bayesmri.regularizers.base import Bound
from bayesmri.solver import Scheme
from bayesmri.training import distill
from bayesmri.training.distill import DistillConfig, Exact
from study_runs import tiny as tiny_model
from training_runs import tiny, write_images


def maps(n: int = 3, N: int = 20) -> Exact:
    rng = torch.Generator().manual_seed(0)
    X, samples = torch.rand(n, 12, 10, generator=rng), torch.rand(n, N, 12, 10, generator=rng)
    return Exact(X, 0.9 * X, samples.half(), (samples - X[:, None]).abs().half())


def test_samples_are_made_where_the_batch_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that the scheme is given is on one device, which here computes nothing."""
    seen: set[str] = set()

    def run(self: Scheme, D: DataTerm, reg: Bound) -> Tensor:
        seen.update(t.device.type for t in (D.z, D.mask, *D.start(), *reg.theta.values()))
        return torch.ones(D.z.shape, dtype=D.z.dtype)

    monkeypatch.setattr(Scheme, "run", run)
    z, mask, Y = (
        torch.zeros(2, 1, 24, 20, dtype=torch.complex64),
        torch.ones(2, 1, 1, 20).bool(),
        torch.zeros(2, 24, 20),
    )
    batch = Batch(z.to("meta"), mask.to("meta"), Y.to("meta"))
    found = distill.exact(tiny_model(), batch, 4, torch.Generator().manual_seed(0), lambda reg: reg)
    assert seen == {"meta"}
    assert found.samples.shape == (2, 4, 24, 20)


def test_batches_go_to_the_device_and_maps_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[set[str]] = []
    moved: list[object] = []

    def exact(model: object, batch: Batch, N: int, rng: torch.Generator, accelerate: object) -> Exact:
        seen.append({t.device.type for t in (batch.z, batch.mask, batch.Y)})
        assert rng.device.type == "cpu"
        return maps(len(batch.z))

    def to(self: Exact, device: object) -> Exact:
        moved.append(device)
        return self

    monkeypatch.setattr(distill, "exact", exact)
    monkeypatch.setattr(Exact, "to", to)
    config = tiny()
    data = Dataset(config.data, config.recipe(), seed=1)
    small = DistillConfig(elements=3, samples=20, batch=2)
    found = list(distill.exact_maps(tiny_model(), data, small, lambda reg: reg, device="meta"))
    assert sum(len(part.at_mean) for part in found) == 3
    assert seen == [{"meta"}] * len(found)
    assert moved == ["cpu"] * len(found)


def test_a_task_and_its_loss_are_on_the_device() -> None:
    settings = DistillConfig(samples=20, batch=4, features=4)
    few, std = distill._task(maps(), settings, torch.Generator().manual_seed(1), "meta")
    assert {t.device.type for t in (*few[:5], std)} == {"meta"}
    net = Predictor(PredictorConfig(4), torch.Generator().manual_seed(0)).to("meta")
    assert distill.relative_error(net.std(few), std).device.type == "meta"


def test_the_predictor_is_handed_over_on_the_cpu() -> None:
    settings = DistillConfig(iterations=2, batch=2, features=4, samples=20)
    nets = [distill.distill([maps()], settings, lambda _: None, **how) for how in ({}, {"device": "cpu"})]
    assert {w.device.type for w in nets[0].parameters()} == {"cpu"}
    for a, b in zip(nets[0].parameters(), nets[1].parameters(), strict=True):
        assert torch.equal(a, b)


def test_distill_takes_a_device_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "images").mkdir()
    write_images(tmp_path / "images" / "head.h5", shape=(24, 20))
    save_model(tmp_path / "model.json", tiny_model())
    config = tmp_path / "config.toml"
    config.write_text(f'[data]\nval_fraction = 0.0\n[[data.sources]]\npath = "{tmp_path / "images"}"\n')
    command = ["distill", str(tmp_path / "model.json"), "-o", str(tmp_path / "fast.json"), "--config", str(config)]
    command += ["--elements", "2", "--samples", "16", "--iterations", "1", "--features", "4"]
    assert main([*command, "--device", "cuda:77"]) == 2
    assert "device 'cuda:77': this machine has" in capsys.readouterr().err
    assert not (tmp_path / "fast.json").exists()
    assert main([*command, "--device", "auto", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["device"] == str(check_device("auto"))
    assert load_model(tmp_path / "fast.json").predictor is not None
