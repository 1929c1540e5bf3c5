"""Devices are taken by name, if the machine has them."""

from pathlib import Path

import pytest
import torch

from bayesmri.checkpoint import load_model
from bayesmri.devices import check_device
from bayesmri.errors import ConfigError
from bayesmri.pipeline.train import train
from training_runs import tiny

CUDA = torch.cuda.device_count()


def test_the_cpu_is_always_there() -> None:
    assert check_device("cpu") == torch.device("cpu")
    assert check_device("cpu:0") == torch.device("cpu")


def test_auto_takes_cuda_where_there_is_any() -> None:
    assert check_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.parametrize("name", ["banana", "mps", "", f"cuda:{CUDA}"])
def test_what_is_not_there_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="device"):
        check_device(name)


def test_each_process_takes_its_own_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert check_device("cuda") == torch.device("cuda", 1)
    assert check_device("cuda:0") == torch.device("cuda", 0)
    monkeypatch.setenv("LOCAL_RANK", "2")
    with pytest.raises(ConfigError, match="2 CUDA devices"):
        check_device("cuda")


@pytest.mark.skipif(not CUDA, reason="this machine has no CUDA device")
def test_training_on_cuda_follows_the_cpu(tmp_path: Path) -> None:
    weights = []
    for device in ("cpu", "cuda"):
        config = tiny(train={"device": device, "iterations": 3})
        train(config, tmp_path / device, say=lambda event, values: None)
        weights.append(load_model(tmp_path / device).regularizer.weights())
    for name, weight in weights[0].items():
        torch.testing.assert_close(weights[1][name], weight, rtol=1e-3, atol=1e-4)
