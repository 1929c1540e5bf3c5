"""Devices are taken by name, if the machine has them, and compute in single precision."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from bayesmri.checkpoint import load_model
from bayesmri.errors import ConfigError
from bayesmri.machine.devices import check_device
from bayesmri.training import distributed
from bayesmri.training.run_folder import train
from training_runs import tiny

CUDA = torch.cuda.device_count()
GPU = torch.device("cuda", 1)
CONV: Any = torch.backends.cudnn.conv  # type: ignore[attr-defined]


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


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two devices by their number alone; what torch was told about precision is told back afterwards."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    yield
    torch.backends.cudnn.fp32_precision = "none"
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = False, True


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize("way", ["flags", "backend", "operators"])
def test_no_product_and_no_convolution_is_rounded_to_tf32(way: str) -> None:
    """However it was asked for before; and both of torch's interfaces can still be read, as its compiler does."""
    if way == "flags":
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    elif way == "backend":
        torch.backends.cudnn.fp32_precision = "tf32"
    else:
        torch.backends.cuda.matmul.fp32_precision = CONV.fp32_precision = "tf32"
    assert check_device("cuda:1") == GPU
    assert not torch.backends.cuda.matmul.allow_tf32
    assert not torch.backends.cudnn.allow_tf32
    assert torch.backends.cuda.matmul.fp32_precision == "ieee"
    assert CONV.fp32_precision == "ieee"
    assert torch.get_float32_matmul_precision() == "highest"


def test_the_cpu_leaves_the_flags_alone() -> None:
    torch.backends.cudnn.allow_tf32 = True
    check_device("cpu")
    assert torch.backends.cudnn.allow_tf32


@pytest.mark.parametrize(("device", "backend"), [(torch.device("cpu"), "gloo"), (GPU, "nccl")])
def test_a_process_takes_memory_of_its_own_device_alone(
    device: torch.device, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[Any] = []
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(torch.cuda, "set_device", done.append)
    monkeypatch.setattr(distributed, "begin", done.append)
    monkeypatch.setattr(dist, "get_rank", lambda: 1)
    world = distributed.join(device)
    assert (world.rank, world.size) == (1, 2)
    assert done == ([GPU, backend] if device == GPU else [backend])


@pytest.mark.skipif(not CUDA, reason="this machine has no CUDA device")
def test_training_on_cuda_follows_the_cpu(tmp_path: Path) -> None:
    weights = []
    for device in ("cpu", "cuda"):
        config = tiny(train={"device": device, "iterations": 3})
        train(config, tmp_path / device, say=lambda event, values: None)
        weights.append(load_model(tmp_path / device).regularizer.weights())
    for name, weight in weights[0].items():
        torch.testing.assert_close(weights[1][name], weight, rtol=1e-3, atol=1e-4)
