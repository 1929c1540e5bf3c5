"""Nonlinear eigenfunctions: the gradient of the residual, linear algebra as a special case, descent for networks."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from bayesmri.analysis.eigenfunctions import descent_direction, eigenfunction, state_at
from bayesmri.complexes import inner, norm
from bayesmri.errors import ConfigError, DataError
from bayesmri.regularizers.base import Regularizer
from bayesmri.regularizers.foe import FoE, FoEConfig
from bayesmri.regularizers.tdv import TDV, TDVConfig
from bayesmri.regularizers.tv import TV, TVConfig
from laws import normal

SIZES = [(1, 8, 8), (2, 7, 9)]


@dataclass(frozen=True, eq=False)
class Quadratic(Regularizer):
    """R(v) = ½⟨v, Av⟩ with a Hermitian A on all entries of one image."""

    A: Tensor

    def energy(self, x: Tensor) -> Tensor:
        return 0.5 * inner(x, self.grad(x))

    def grad(self, x: Tensor) -> Tensor:
        return (self.A @ x.flatten()).view(x.shape)


def networks(Q: int) -> dict[str, Regularizer]:
    rng = torch.Generator().manual_seed(0)
    parametric = (
        TDV(TDVConfig(Q=Q, features=4, macroblocks=2, scales=2), rng),
        TDV(TDVConfig(Q=Q, features=16, macroblocks=1, scales=3, init="identity"), rng),
        FoE(FoEConfig(Q=Q, features=5, kernel_size=5), rng),
        TV(TVConfig(weight=0.1, epsilon=0.5)),
    )
    names = ("small TDV", "TDV by products", "FoE", "TV")
    return {
        name: reg.bind({key: w.detach().double() for key, w in reg.weights().items()})
        for name, reg in zip(names, parametric, strict=True)
    }


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", list(networks(1)))
def test_the_direction_is_the_gradient_with_that_of_the_quotient(name: str, size: tuple[int, int, int]) -> None:
    """∇f by autograd through everything, Λ included, and by differences of f."""
    reg, v = networks(size[0])[name], normal(*size)

    def f(x: Tensor) -> Tensor:
        g = reg.grad(x)
        return 0.5 * (g - inner(g, x) / inner(x, x) * x).abs().square().sum()

    leaf = v.clone().requires_grad_()
    (expected,) = torch.autograd.grad(f(leaf), leaf)
    state, slope = descent_direction(reg, v)
    torch.testing.assert_close(slope, expected)
    assert state.value == pytest.approx(float(f(v)))
    d, step = normal(*size, seed=1), 1e-5
    difference = float((f(v + step * d) - f(v - step * d)) / (2 * step))
    assert float(inner(slope, d)) == pytest.approx(difference, rel=1e-5, abs=1e-9)


def test_of_a_quadratic_it_is_an_eigenvector_with_its_eigenvalue() -> None:
    B = normal(24, 24, seed=3)
    A = (B + B.mH) / 2
    reg = Quadratic(A)
    values = torch.linalg.eigvalsh(A)
    found = set()
    for seed in range(4):
        start = normal(2, 3, 4, seed=seed)
        result = eigenfunction(reg, start, iterations=3000, tolerance=1e-8)
        v = result.end.v
        assert float(norm(v)) == pytest.approx(float(norm(start)))
        torch.testing.assert_close(reg.grad(v), result.end.eigenvalue * v, rtol=0, atol=1e-6)
        assert float((values - result.end.eigenvalue).abs().min()) < 1e-6
        found.add(int((values - result.end.eigenvalue).abs().argmin()))
    assert len(found) > 1  # the start decides which one


def test_an_eigenvector_stays_where_it_is() -> None:
    B = normal(12, 12, seed=3)
    values, vectors = torch.linalg.eigh((B + B.mH) / 2)
    v = 3 * vectors[:, 5].reshape(1, 3, 4).contiguous()
    result = eigenfunction(Quadratic((B + B.mH) / 2), v)
    assert len(result.residuals) == 1
    assert result.end.v is v
    assert result.end.eigenvalue == pytest.approx(float(values[5]))


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", list(networks(1)))
def test_the_residual_never_grows_and_the_norm_stays(name: str, size: tuple[int, int, int], dtype: torch.dtype) -> None:
    reg, start = networks(size[0])[name], 5 * normal(*size, dtype=dtype)
    if dtype == torch.complex64:
        theta = {key: w.float() for key, w in reg.theta.items()}  # type: ignore[attr-defined]
        reg = type(reg)(reg.core, theta, reg.Q)  # type: ignore[attr-defined,call-arg]
    result = eigenfunction(reg, start, iterations=40)
    assert result.residuals[0] == pytest.approx(state_at(reg, start).residual)
    assert all(b <= a for a, b in zip(result.residuals, result.residuals[1:], strict=False))
    assert result.residuals[-1] < 0.7 * result.residuals[0]
    assert result.residuals[-1] == pytest.approx(state_at(reg, result.end.v).residual, rel=1e-4)
    assert result.end.v.shape == start.shape
    assert result.end.v.dtype == dtype
    assert float(norm(result.end.v)) == pytest.approx(float(norm(start)), rel=1e-5)
    assert len(result.residuals) == len(result.eigenvalues)


def test_the_residual_is_orthogonal_to_v() -> None:
    v = normal(2, 7, 9)
    state = state_at(networks(2)["small TDV"], v)
    e = state.gradient - state.eigenvalue * v
    assert abs(float(inner(e, v))) < 1e-10 * float(norm(e)) * float(norm(v))


def test_every_step_is_told() -> None:
    steps: list[int] = []
    result = eigenfunction(networks(1)["FoE"], normal(1, 8, 8), iterations=5, on_step=lambda: steps.append(1))
    assert len(steps) == 5 == len(result.residuals) - 1


def test_a_start_of_nothing_is_refused() -> None:
    reg = networks(1)["FoE"]
    for wrong in (torch.zeros(1, 8, 8, dtype=torch.complex128), torch.full((1, 8, 8), torch.nan + 0j)):
        with pytest.raises(DataError, match="start of norm"):
            eigenfunction(reg, wrong)
    with pytest.raises(ConfigError, match="0 iterations"):
        eigenfunction(reg, normal(1, 8, 8), iterations=0)
