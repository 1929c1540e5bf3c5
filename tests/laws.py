"""The law book: what several test files assert about operators, energies and gradients."""

from collections.abc import Callable

import torch
from torch import Tensor

Map = Callable[[Tensor], Tensor]


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.complex128) -> Tensor:
    """Standard normal numbers, always the same ones for the same arguments."""
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def assert_adjoint(A: Map, AH: Map, x: Tensor, z: Tensor) -> None:
    """⟨A x, z⟩ = ⟨x, A* z⟩. Shapes first: vdot flattens, so it would forgive a transpose."""
    Ax, AHz = A(x), AH(z)
    assert Ax.shape == z.shape
    assert AHz.shape == x.shape
    torch.testing.assert_close(torch.vdot(Ax.flatten(), z.flatten()), torch.vdot(x.flatten(), AHz.flatten()))


def assert_gradient_is_autograd(energy: Map, grad: Map, x: Tensor) -> None:
    """∇R = dR. For complex x autograd's convention is ∂/∂Re + i ∂/∂Im, which is ours."""
    x = x.clone().requires_grad_()
    (expected,) = torch.autograd.grad(energy(x).sum(), x)
    torch.testing.assert_close(grad(x.detach()), expected)


def assert_gradient_is_difference(energy: Map, grad: Map, x: Tensor, *, seed: int = 1, step: float = 1e-5) -> None:
    """Re⟨∇R(x), d⟩ = (R(x + εd) − R(x − εd)) / 2ε + O(ε²) along a random direction d."""
    d = normal(*x.shape, seed=seed, dtype=x.dtype)
    difference = (energy(x + step * d).sum() - energy(x - step * d).sum()) / (2 * step)
    slope = torch.vdot(grad(x).flatten(), d.flatten()).real
    torch.testing.assert_close(slope, difference, rtol=1e-6, atol=1e-8)
