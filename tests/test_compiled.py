"""Compiling changes the speed of ∇R and nothing else."""

import logging
import sys
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from bayesmri.regularizers.compiled import CompiledCore, can_compile, compiled
from bayesmri.regularizers.tdv import TDV, TDVConfig
from bayesmri.training.compilation import accelerator
from laws import normal
from training_runs import tiny


def small(seed: int, scales: int = 1) -> TDV:
    config = TDVConfig(features=4, macroblocks=1, scales=scales, init_scale=4.0)
    return TDV(config, torch.Generator().manual_seed(seed)).double()


@pytest.fixture
def ask_again() -> Iterator[None]:
    """The answer about the compiler is kept for the process: forget it before and after."""
    can_compile.cache_clear()
    yield
    can_compile.cache_clear()


@pytest.mark.usefixtures("ask_again")
@pytest.mark.parametrize("cxx", ["no-such-compiler", "false"])
def test_without_a_compiler_it_runs_eagerly_and_says_so_once(
    cxx: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("CXX", cxx)
    monkeypatch.setattr(torch, "compile", _broken_compile)
    reg = small(0).bind(small(0).weights())
    with caplog.at_level(logging.WARNING):
        assert compiled(reg) is reg
        assert compiled(reg) is reg
    assert len(caplog.records) == 1
    assert "uncompiled" in caplog.text


def _broken_compile(function: object, *, dynamic: bool) -> object:
    raise RuntimeError("the toolchain is broken\nin many lines")


@pytest.mark.timeout(1800)  # a minute on two cores that have nothing else to do
@pytest.mark.filterwarnings("default")  # what torch's compiler warns of is not ours to mend
@pytest.mark.parametrize("scales", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_compiled_gradient_and_its_derivative_are_the_eager_ones(scales: int) -> None:
    if not can_compile():
        pytest.skip("no C++ compiler")
    x, d = normal(1, 1, 9, 6), normal(1, 1, 9, 6, seed=1)
    for seed in (0, 1):  # the second θ runs through the graph of the first
        reg = small(seed, scales)
        eager = reg.bind(reg.weights())
        fast = compiled(eager)
        assert isinstance(fast.core, CompiledCore)
        g_eager, g_fast = eager.grad(x), fast.grad(x)
        torch.testing.assert_close(g_fast, g_eager)
        by_eager, by_fast = (
            torch.autograd.grad((g.conj() * d).real.sum(), list(reg.weights().values())) for g in (g_eager, g_fast)
        )
        torch.testing.assert_close(by_fast, by_eager)


@pytest.fixture
def trials(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The devices on which a small graph was built; answers are forgotten before and after."""
    seen: list[str] = []

    def ones(n: int, *, device: str) -> Tensor:
        seen.append(device)
        return torch.zeros(n)

    monkeypatch.setenv("CXX", sys.executable)  # found on every machine, and never called here
    monkeypatch.setattr(torch, "ones", ones)
    monkeypatch.setattr(torch, "compile", lambda function, *, dynamic: function)
    can_compile.cache_clear()
    yield seen
    can_compile.cache_clear()


def test_compiling_is_tried_on_the_device_of_the_run(trials: list[str]) -> None:
    config = tiny(train={"compile": "on"})
    said: list[str] = []
    for device in (torch.device("cpu"), torch.device("cuda", 1), torch.device("cuda", 1)):
        accelerator(config, first=0, device=device, say=said.append)
    assert trials == ["cpu", "cuda:1"]
    assert len(said) == 3
    assert all("compiled first, which takes about a minute" in line for line in said)


def test_a_bound_regularizer_is_tried_where_its_weights_are(trials: list[str]) -> None:
    reg = small(0).to("meta")
    assert isinstance(compiled(reg.bind(reg.weights())).core, CompiledCore)
    assert trials == ["meta"]


def test_cuda_needs_no_cpp_compiler_and_says_where_compiling_failed(
    trials: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert can_compile("cuda:1")
    assert not can_compile("cpu")
    assert trials == ["cuda:1"]

    def fail(function: object, *, dynamic: bool) -> object:
        raise RuntimeError("this GPU is too old for Triton")

    monkeypatch.setattr(torch, "compile", fail)
    said: list[str] = []
    accelerator(tiny(train={"compile": "on"}), first=0, device=torch.device("cuda", 0), say=said.append)
    assert "compiling failed on cuda:0 (this GPU is too old for Triton)" in caplog.text
    assert said == ["∇R runs uncompiled: no working compiler for cuda:0; slower, the same results to rounding"]
