"""Lower-triangular d x d blocks as their d(d+1)/2 entries, row by row: l₀₀, l₁₀, l₁₁, l₂₀, …, on the last axis."""

import math
from functools import cache

import torch
from torch import Tensor


def n_entries(d: int) -> int:
    """d(d+1)/2."""
    return d * (d + 1) // 2


def size(l: Tensor) -> int:
    """d of blocks (..., d(d+1)/2)."""
    return (math.isqrt(8 * l.shape[-1] + 1) - 1) // 2


def diagonal(l: Tensor) -> Tensor:
    """l_aa: (..., d(d+1)/2) → (..., d)."""
    return l[..., diagonal_places(size(l), l.device)]


def diagonal_places(d: int, device: torch.device) -> Tensor:
    """Where the entries l_aa stand, a(a+3)/2."""
    a = torch.arange(d, device=device)
    return a * (a + 3) // 2


def scaled_identity(shape: tuple[int, ...], d: int, scale: float) -> Tensor:
    """scale · Id for every block: (*shape, d(d+1)/2)."""
    l = torch.zeros(*shape, n_entries(d))
    l[..., diagonal_places(d, l.device)] = scale
    return l


def dense(l: Tensor) -> Tensor:
    """The blocks with their zeros: (..., d(d+1)/2) → (..., d, d)."""
    d = size(l)
    whole = l.new_zeros(*l.shape[:-1], d * d)
    return whole.index_copy(-1, _places(d).to(l.device), l).view(*l.shape[:-1], d, d)


def packed(matrix: Tensor) -> Tensor:
    """The inverse of `dense`: (..., d, d) → (..., d(d+1)/2); what stands above the diagonal is left out."""
    d = matrix.shape[-1]
    return matrix.flatten(-2)[..., _places(d).to(matrix.device)]


@cache
def _places(d: int) -> Tensor:
    """Where the entries stand in a flattened d x d matrix."""
    rows, cols = torch.tril_indices(d, d)
    places: Tensor = rows * d + cols
    return places
