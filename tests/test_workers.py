"""Samples and slices side by side: the same bits for any number of workers, and no more workers than cores."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

import bayesmri
from bayesmri.cli import main
from bayesmri.machine import cores
from bayesmri.machine.cores import usable_cores
from bayesmri.machine.workers import n_bands, n_workers, one_thread, ordered


@pytest.fixture
def many_cores(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("bayesmri.machine.workers.usable_cores", lambda: 4)
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_results_come_in_order_and_few_ahead(many_cores: None) -> None:
    begun: list[int] = []
    taken = 0

    def work(i: int) -> tuple[int, int, int]:
        begun.append(i)
        return i, torch.get_num_threads(), n_bands()

    for i, threads, bands in ordered(work, range(40), workers=3):
        assert i == taken
        assert (threads, bands) == (1, 1)
        assert len(begun) <= taken + 3 + 2
        taken += 1
    assert taken == 40


def test_errors_of_a_worker_arrive_and_the_rest_is_given_up(many_cores: None) -> None:
    def work(i: int) -> int:
        if i == 2:
            raise ValueError("two")
        return i

    with pytest.raises(ValueError, match="two"):
        list(ordered(work, range(1000), workers=2))
    assert not [t for t in threading.enumerate() if t.name.startswith("worker")]


@pytest.mark.parametrize(("samples", "check"), [(0, False), (5, False), (0, True)])
def test_any_number_of_threads_gives_the_same_bits(many_cores: None, samples: int, check: bool) -> None:
    full = bayesmri.simulate("head", shape=(72, 64), slices=3, coils=4, snr_db=30, seed=1)
    scan = bayesmri.undersample(full, 4, seed=0)
    found = []
    for threads in (1, 2, 4):
        torch.set_num_threads(threads)
        assert n_workers() == threads
        found.append(bayesmri.reconstruct(scan, "tdv-r4", samples=samples, check=check))
        assert torch.get_num_threads() == threads
    for other in found[1:]:
        np.testing.assert_array_equal(found[0].mean, other.mean)
        if samples:
            np.testing.assert_array_equal(found[0].std, other.std)
            np.testing.assert_array_equal(found[0].kspace_std, other.kspace_std)
        if check:
            assert found[0].expected == other.expected


def test_one_thread_of_torch_leaves_the_kernels_theirs(many_cores: None) -> None:
    torch.set_num_threads(3)
    with one_thread():
        assert (torch.get_num_threads(), n_bands()) == (1, 3)
    assert (torch.get_num_threads(), n_bands()) == (3, 3)


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("cpu.max", "150000 100000\n", 2),
        ("cpu.max", "max 100000\n", 64),
        ("cpu.max", "1000 100000\n", 1),
        (None, "", 64),
    ],
)
def test_a_container_has_its_quota(
    name: str | None, text: str, wanted: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cores, "CGROUP", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)), raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if name:
        (tmp_path / name).write_text(text)
    assert usable_cores() == wanted
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert usable_cores() == 1


def test_threads_of_a_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = torch.get_num_threads()
    try:
        assert main(["models", "--threads", "3"]) == 0
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    capsys.readouterr()
    for word in ("0", "many", "-1"):
        assert main(["models", "--threads", word]) == 2
        assert "expected a whole number" in capsys.readouterr().err
    assert main(["models", "--threads"]) == 2
