"""C ≅ R², root-sum-of-squares and inner product: the only places where a complex tensor is taken apart."""

import torch
from torch import Tensor


def to_real(x: Tensor) -> Tensor:
    """C^Q → R^{2Q} on the channel axis: complex (..., Q, H, W) → real (..., 2Q, H, W), real parts first.

    Of one coil it is the same memory, not to be written to.
    """
    if x.shape[-3] == 1:
        return torch.view_as_real(x.squeeze(-3).resolve_conj()).movedim(-1, -3)
    return torch.cat((x.real, x.imag), dim=-3)


def to_complex(v: Tensor) -> Tensor:
    """R^{2Q} → C^Q, the inverse of `to_real`."""
    if v.shape[-3] == 2:
        return torch.view_as_complex(v.movedim(-3, -1).contiguous()).unsqueeze(-3)
    re, im = v.chunk(2, dim=-3)
    return torch.complex(re, im)


def rss(y: Tensor) -> Tensor:
    """Y_i = (Σ_q |y_{i,q}|²)^{1/2}: complex (..., Q, H, W) → real (..., H, W), with the gradient 0 where Y_i = 0.

    NaN stays NaN: what diverged is not to pass for air. torch.linalg.vector_norm along an outer axis is more than ten
    times slower.
    """
    power = (y.real.square() + y.imag.square()).sum(dim=-3)
    there = power != 0  # NaN, too
    return torch.where(there, power, 1).sqrt() * there


def norm(x: Tensor) -> Tensor:
    """‖x‖₂ over all entries."""
    length: Tensor = torch.linalg.vector_norm(torch.view_as_real(x))
    return length


def inner(a: Tensor, b: Tensor) -> Tensor:
    """Re⟨a, b⟩, the inner product of R^{2nQ}."""
    return (a.real * b.real).sum() + (a.imag * b.imag).sum()
