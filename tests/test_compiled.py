"""Compiling changes the speed of ∇R and nothing else."""

import logging
from collections.abc import Iterator

import pytest
import torch

from bayesmri.regularizers.compiled import CompiledCore, can_compile, compiled
from bayesmri.regularizers.tdv import TDV, TDVConfig
from laws import normal


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
