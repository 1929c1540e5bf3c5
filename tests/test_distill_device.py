"""Distillation on another device than the CPU, which makes all draws and keeps all maps."""

import json
from pathlib import Path

import pytest
import torch

from bayesmri.checkpoint import load_model, save_model
from bayesmri.cli import main
from bayesmri.data.dataset import Batch, Dataset
from bayesmri.machine.devices import check_device
from bayesmri.physics.fourier import fft2c
from bayesmri.posterior.evidence import evidence
from bayesmri.posterior.predictor import Predictor, PredictorConfig
from bayesmri.training import distill
from bayesmri.training import drawn as drawing
from bayesmri.training.distill import DistillConfig
from bayesmri.training.drawn import Drawn
from study_runs import tiny as tiny_model
from training_runs import tiny, write_images


def maps(n: int = 3, N: int = 20) -> Drawn:
    rng = torch.Generator().manual_seed(0)
    X, d = torch.rand(n, 12, 10, generator=rng), torch.rand(n, N, 12, 10, generator=rng)
    x = X[:, None].to(torch.complex64)
    return Drawn(evidence(x, fft2c(0.9 * x), torch.ones(10).bool()), X, d.half(), d.abs().half())


def test_batches_go_to_the_device_and_maps_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[set[str]] = []
    moved: list[object] = []

    def draw(model: object, batch: Batch, N: int, rng: torch.Generator, *, again: bool) -> Drawn:
        seen.append({t.device.type for t in (batch.z, batch.mask, batch.Y)})
        assert rng.device.type == "cpu"
        return maps(len(batch.z))

    def to(self: Drawn, device: object) -> Drawn:
        moved.append(device)
        return self

    monkeypatch.setattr(drawing, "draw", draw)
    monkeypatch.setattr(Drawn, "to", to)
    config = tiny()
    data = Dataset(config.data, config.recipe(), seed=1)
    found = list(drawing.drawn(tiny_model(), data, range(3), 20, seed=1, device="meta"))
    assert len(found) == 3
    assert seen == [{"meta"}] * 3
    assert moved == ["cpu"] * 3


def test_a_task_and_its_loss_are_on_the_device() -> None:
    settings = DistillConfig(samples=20, batch=4, features=4)
    few, v = distill.task(maps(), settings, torch.Generator().manual_seed(1), "meta")
    assert {t.device.type for t in (*few[:5], v)} == {"meta"}
    net = Predictor(PredictorConfig(4), torch.Generator().manual_seed(0)).to("meta")
    assert distill.likelihood(net, few, v).device.type == "meta"


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
