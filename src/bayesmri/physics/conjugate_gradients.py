"""Linear systems of a few steps, written so that autograd can go back through them."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor


def conjugate_gradients(H: Callable[[Tensor], Tensor], b: Tensor, x: Tensor, *, steps: int) -> Tensor:
    """Towards H⁻¹b from x, for every image of a batch (B, Q, H, W) by itself; H is Hermitian and positive definite."""
    r = b - H(x)
    p, rr = r, _inner(r, r)
    for _ in range(steps):
        Hp = H(p)
        step = _ratio(rr, _inner(p, Hp))
        x, r = x + step * p, r - step * Hp
        before, rr = rr, _inner(r, r)
        p = r + _ratio(rr, before) * p
    return x


class Known(NamedTuple):
    """x and N x, complex (B, J, H, W) each: what a warm start needs to begin without applying N."""

    x: Tensor
    Nx: Tensor


def shifted_conjugate_gradients(
    N: Callable[[Tensor], Tensor], b: Tensor, start: Known, *, h: Tensor | float, steps: int
) -> Known:
    """Towards (Id + hN)⁻¹b from a start of which N x is known, so that `steps` steps apply N as many times."""
    x, Nx = start
    r = b - x - h * Nx
    p, rr = r, _inner(r, r)
    for _ in range(steps):
        Np = N(p)
        Hp = p + h * Np
        step = _ratio(rr, _inner(p, Hp))
        x, Nx, r = x + step * p, Nx + step * Np, r - step * Hp
        before, rr = rr, _inner(r, r)
        p = r + _ratio(rr, before) * p
    return Known(x, Nx)


def _inner(a: Tensor, b: Tensor) -> Tensor:
    """Re⟨a, b⟩ of each image: real (B, 1, 1, 1)."""
    return (a.real * b.real + a.imag * b.imag).sum(dim=(-3, -2, -1), keepdim=True)


def _ratio(a: Tensor, b: Tensor) -> Tensor:
    """a / b, and 0 where b is 0: there is nothing left to do."""
    return torch.where(b > 0, a, 0) / torch.where(b > 0, b, 1)
