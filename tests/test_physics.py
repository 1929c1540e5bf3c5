"""Laws of A = M_R F and of D: unitarity, adjointness, optimality of the prox (eq. 2, eq. 3, Appendix A)."""

import pytest
import torch
from torch import Tensor

from bayesmri.complexes import inner, rss, to_complex, to_real
from bayesmri.errors import ShapeError
from bayesmri.physics.fidelity import fidelity, fidelity_grad, prox_data
from bayesmri.physics.fourier import fft2c, ifft2c
from bayesmri.physics.mask import random_mask
from bayesmri.physics.operator import Operator

SHAPES = [(1, 16, 16), (1, 15, 17), (15, 12, 13), (2, 3, 15, 9, 20)]
TOLERANCE = {torch.complex64: 1e-6, torch.complex128: 1e-12}


def draw(shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> Tensor:
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def draw_mask(W: int) -> Tensor:
    return random_mask(W, 3, rng=torch.Generator().manual_seed(7))


def relative(error: Tensor, size: Tensor) -> float:
    return float(error.abs() / size.abs())


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_fourier_is_unitary_and_inverted(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x = draw(shape, dtype, 0)
    u = fft2c(x)
    assert relative(u.norm() - x.norm(), x.norm()) < TOLERANCE[dtype]
    assert relative((ifft2c(u) - x).norm(), x.norm()) < TOLERANCE[dtype]


@pytest.mark.parametrize("shape", [(8, 8), (9, 7), (9, 8)])
def test_zero_frequency_sits_in_the_centre(shape: tuple[int, int]) -> None:
    u = fft2c(torch.ones(shape, dtype=torch.complex128))
    H, W = shape
    assert abs(u[H // 2, W // 2].real - (H * W) ** 0.5) < 1e-12
    u[H // 2, W // 2] = 0
    assert u.abs().max() < 1e-12


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_operator_and_adjoint(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """⟨A x, z⟩ = ⟨x, A* z⟩."""
    x, z = draw(shape, dtype, 0), draw(shape, dtype, 1)
    A = Operator(draw_mask(shape[-1]))
    Ax, AHz = A.forward(x), A.adjoint(z)
    assert Ax.shape == z.shape
    assert AHz.shape == x.shape
    error = torch.vdot(Ax.flatten(), z.flatten()) - torch.vdot(x.flatten(), AHz.flatten())
    assert relative(error, x.norm() * z.norm()) < TOLERANCE[dtype]


def test_operator_drops_exactly_the_missing_columns() -> None:
    x, mask = draw((2, 9, 20), torch.complex128, 0), draw_mask(20)
    z = Operator(mask).forward(x)
    assert torch.equal(z.abs().sum(dim=(0, 1)) > 0, mask)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("h", [0.1, 3.0])
def test_prox_is_optimal(shape: tuple[int, ...], dtype: torch.dtype, h: float) -> None:
    """x = prox_{hD}(v) ⟺ x − v + h∇D(x) = 0."""
    mask = draw_mask(shape[-1])
    v, z = draw(shape, dtype, 0), mask * draw(shape, dtype, 1)
    x = prox_data(v, z, mask, h)
    assert relative((x - v + h * fidelity_grad(x, z, mask)).norm(), v.norm()) < TOLERANCE[dtype]


def test_prox_beats_its_neighbours() -> None:
    mask, h = draw_mask(11), 0.7
    v, z = draw((3, 8, 11), torch.complex128, 0), mask * draw((3, 8, 11), torch.complex128, 1)
    x = prox_data(v, z, mask, h)

    def objective(x: Tensor) -> Tensor:
        return 0.5 * inner(x - v, x - v) + h * fidelity(x, z, mask)

    for seed in range(5):
        assert objective(x + 1e-3 * draw((3, 8, 11), torch.complex128, seed)) > objective(x)


def test_gradient_of_the_fidelity() -> None:
    """d/dt D(x + t v) at 0 = ⟨∇D(x), v⟩."""
    mask = draw_mask(11)
    x, v, z = (draw((3, 8, 11), torch.complex128, seed) for seed in range(3))
    t = 1e-6
    slope = (fidelity(x + t * v, z, mask) - fidelity(x - t * v, z, mask)) / (2 * t)
    torch.testing.assert_close(slope, inner(fidelity_grad(x, mask * z, mask), v), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("Q", [1, 15])
def test_fully_sampled_data_are_a_fixed_point(Q: int) -> None:
    """R = 1 without a regularizer reproduces the input."""
    x = draw((Q, 13, 12), torch.complex128, 0)
    torch.testing.assert_close(prox_data(x, fft2c(x), torch.ones(12, dtype=torch.bool), 2.0), x)


def test_complex_numbers_are_pairs_of_real_ones() -> None:
    x, v = draw((2, 3, 5, 4), torch.complex128, 0), draw((2, 3, 5, 4), torch.complex128, 1)
    assert to_real(x).shape == (2, 6, 5, 4)
    assert torch.equal(to_complex(to_real(x)), x)
    torch.testing.assert_close((to_real(x) * to_real(v)).sum(), inner(x, v))


def test_root_sum_of_squares() -> None:
    x = draw((2, 3, 5, 4), torch.complex128, 0)
    torch.testing.assert_close(rss(x) ** 2, (x.abs() ** 2).sum(dim=-3))


def test_a_mask_of_the_wrong_axis_is_refused() -> None:
    with pytest.raises(ShapeError, match="transpose the phase axis"):
        Operator(torch.ones(8, dtype=torch.bool)).forward(draw((8, 9), torch.complex64, 0))


def test_root_sum_of_squares_has_a_finite_gradient_at_zero() -> None:
    x = torch.zeros(1, 2, 4, 4, dtype=torch.complex128, requires_grad=True)
    rss(x).sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    assert torch.equal(x.grad, torch.zeros_like(x))


@pytest.mark.parametrize("bad", [complex("nan"), complex(1, float("nan")), complex("inf"), complex(0, float("-inf"))])
def test_root_sum_of_squares_lets_nan_and_inf_through(bad: complex) -> None:
    """A pixel that is no number in one coil is none in Y, and no other pixel changes."""
    x = draw((2, 3, 5, 4), torch.complex64, 0)
    x[0, :, 2, 1] = 0
    spoilt = x.clone()
    spoilt[1, 2, 3, 0] = torch.tensor(bad)
    Y, whole = rss(spoilt), rss(x)
    assert not Y[1, 3, 0].isfinite()
    Y[1, 3, 0] = whole[1, 3, 0]
    assert torch.equal(Y, whole)
    assert Y[0, 2, 1] == 0
