"""The dry run of a training: what it says is measured on the device that the run would take."""

import time

import pytest
import torch

from bayesmri.errors import ConfigError
from bayesmri.training import plan as train_plan
from bayesmri.training.plan import plan
from training_runs import tiny

GPU = torch.device("cuda", 1)


def test_the_dry_run_measures_on_the_device_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    ticks: list[torch.device] = []

    def check(name: str) -> torch.device:
        asked.append(name)
        return torch.device("cpu")

    def clock(device: torch.device) -> float:
        ticks.append(device)
        return 3.0 * len(ticks)

    monkeypatch.setattr(train_plan, "check_device", check)
    monkeypatch.setattr(train_plan, "_clock", clock)
    facts = plan(tiny(train={"device": "auto", "recompute": False}))["expected"]
    assert asked == ["auto"]
    assert (
        ticks == [torch.device("cpu")] * 4
    )  # before and after, of a first run that warms up and of the one that counts
    assert facts["device"] == "cpu"
    assert facts["seconds_per_step"]["first"] == 3.0 * 2  # elements


def test_clocks_are_read_when_the_device_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[object] = []

    def clock() -> float:
        done.append("clock")
        return 1.5

    monkeypatch.setattr(torch.cuda, "synchronize", done.append)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 7 if device == GPU else 0)
    monkeypatch.setattr(time, "perf_counter", clock)
    assert train_plan._clock(GPU) == 1.5
    assert done == [GPU, "clock"]
    done.clear()
    assert train_plan._clock(torch.device("cpu")) == 1.5
    assert done == ["clock"]
    assert train_plan._held(GPU) == 7
    assert train_plan._held(torch.device("cpu")) > 1000


def test_the_dry_run_refuses_a_device_that_is_not_there() -> None:
    with pytest.raises(ConfigError, match="this machine has"):
        plan(tiny(train={"device": "cuda:77"}))


def test_data_that_is_not_there_still_has_a_device() -> None:
    missing = {"sources": [{"path": "nowhere-at-all"}]}
    assert plan(tiny(data=missing, train={"device": "cpu"}))["expected"]["device"] == "cpu"
