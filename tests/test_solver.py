from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from bayesmri.errors import ConfigError, ShapeError
from bayesmri.physics.fidelity import fidelity, prox_data
from bayesmri.physics.fourier import fft2c, ifft2c
from bayesmri.regularizers.base import Regularizer
from bayesmri.regularizers.tdv import TDV, TDVConfig
from bayesmri.solver import unroll
from laws import normal


class Nothing(Regularizer):
    """R = 0."""

    def energy(self, x: Tensor) -> Tensor:
        return x.real.sum(dim=(-3, -2, -1)) * 0

    def grad(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x)


def small(Q: int = 1) -> TDV:
    config = TDVConfig(Q=Q, features=4, macroblocks=2, scales=3, init_scale=40.0)
    return TDV(config, torch.Generator().manual_seed(0)).double()


def problem(Q: int = 1, H: int = 13, W: int = 16) -> tuple[Tensor, Tensor]:
    mask = torch.arange(W) % 3 != 1
    return mask * fft2c(normal(2, Q, H, W)), mask


@pytest.mark.parametrize("Q", [1, 3])
@pytest.mark.parametrize("T", [0.0, 0.5, 100.0])
def test_all_lines_and_no_regularizer_reproduce_the_input(T: float, Q: int) -> None:
    y = normal(Q, 11, 14)
    mask = torch.ones(14, dtype=torch.bool)
    torch.testing.assert_close(unroll(fft2c(y), mask, Nothing(), T=T, S=4), y)


def test_one_step_is_the_papers_formula() -> None:
    reg, (z, mask) = small(), problem()
    h = 0.3 / 1
    x = ifft2c(z)
    expected = prox_data(x - h * reg.grad(x), z, mask, h)
    torch.testing.assert_close(unroll(z, mask, reg, T=0.3, S=1), expected)


def test_steps_compose() -> None:
    """S steps of T/S are S calls of one step, each from where the last one ended."""
    reg, (z, mask) = small(), problem()
    x = ifft2c(z)
    for _ in range(3):
        x = unroll(z, mask, reg, T=0.2, S=1, x0=x)
    torch.testing.assert_close(unroll(z, mask, reg, T=0.6, S=3), x)


@pytest.mark.parametrize("Q", [1, 3])
def test_small_steps_never_increase_the_energy(Q: int) -> None:
    reg, (z, mask) = small(Q), problem(Q)
    x0 = normal(2, Q, 13, 16, seed=5)
    energies = []

    def record(_: int, x: Tensor) -> None:
        energies.append(float(fidelity(x, z, mask) + reg.energy(x).sum()))

    with torch.no_grad():
        record(0, x0)
        unroll(z, mask, reg, T=0.2, S=20, x0=x0, callback=record)
    assert len(energies) == 21
    assert all(after < before for before, after in pairwise(energies))


def test_the_callback_sees_every_state() -> None:
    reg, (z, mask) = small(), problem()
    seen: list[tuple[int, Tensor]] = []
    x = unroll(z, mask, reg, T=0.3, S=3, callback=lambda s, x: seen.append((s, x)))
    assert [s for s, _ in seen] == [1, 2, 3]
    assert torch.equal(seen[-1][1], x)
    torch.testing.assert_close(seen[0][1], unroll(z, mask, reg, T=0.1, S=1))


def gradients(run: Callable[[TDV, Tensor], Tensor]) -> tuple[Tensor, ...]:
    reg, T = small(), torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    return torch.autograd.grad(run(reg, T).abs().sum(), (T, *reg.weights().values()))


def test_recomputation_changes_no_gradient() -> None:
    z, mask = problem()
    plain = gradients(lambda reg, T: unroll(z, mask, reg, T=T, S=3))
    recomputed = gradients(lambda reg, T: unroll(z, mask, reg, T=T, S=3, checkpoint=True))
    assert all(torch.equal(a, b) for a, b in zip(plain, recomputed, strict=True))
    assert all(g.abs().max() > 0 for g in plain)


def saved_numbers(S: int, *, checkpoint: bool) -> int:
    """How many numbers autograd keeps between the forward and the backward sweep."""
    z, mask = problem(H=24, W=24)
    kept: dict[int, int] = {}

    def pack(v: Tensor) -> Tensor:
        kept[v.untyped_storage().data_ptr()] = v.untyped_storage().nbytes()
        return v

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda v: v):
        x = unroll(z, mask, small(), T=0.3, S=S, checkpoint=checkpoint)
    assert x.requires_grad
    return sum(kept.values())


def test_recomputation_keeps_memory_nearly_flat() -> None:
    assert saved_numbers(6, checkpoint=True) < 0.2 * saved_numbers(6, checkpoint=False)


def test_time_has_its_derivative() -> None:
    z, mask = problem()
    reg, eps = small(), 1e-6

    def loss(T: Tensor | float) -> Tensor:
        return unroll(z, mask, reg, T=T, S=3).abs().sum()

    T = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(loss(T), T)
    difference = (loss(0.3 + eps) - loss(0.3 - eps)) / (2 * eps)
    torch.testing.assert_close(slope, difference.detach(), rtol=1e-6, atol=1e-8)


def test_misuse_is_refused() -> None:
    z, mask = problem()
    with pytest.raises(ConfigError, match="S = 0"):
        unroll(z, mask, Nothing(), T=1.0, S=0)
    with pytest.raises(ShapeError, match="mask"):
        unroll(z, mask[:-1], Nothing(), T=1.0, S=1)
