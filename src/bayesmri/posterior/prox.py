"""prox_{hf} of f(L) = β(α tr LLᵀ − log det LLᵀ), in closed form (eq. 9, Appendix B)."""

import torch
from torch import Tensor

from bayesmri.posterior.triangular import diagonal_places, size

FLOOR = 1e-8  # of the diagonal: β = 0 alone would let it reach zero, and log det with it −∞


def prox_divergence(l: Tensor, h: Tensor | float, *, alpha: float, beta: float) -> Tensor:
    """argmin_k ‖k − l‖²/2h + f(k) over lower-triangular blocks with positive diagonal. With c = 1 + 2αβh

        k_ab = l_ab / c (a ≠ b),   k_aa = (l_aa + √(l_aa² + 8βhc)) / 2c

    k_aa solves c k² − l_aa k − 2βh = 0; of its two roots the positive one, for every sign of l_aa.

    l: entries of the blocks (..., d(d+1)/2). h: one step per block, (..., 1), or one for all.
    """
    c = 1 + 2 * alpha * beta * h
    places = diagonal_places(size(l), l.device)
    return (l / c).index_copy(-1, places, _positive_root(l[..., places], beta * h, c))


def _positive_root(l: Tensor, bh: Tensor | float, c: Tensor | float) -> Tensor:
    """The positive k of c k² − l k − 2βh = 0, without cancellation where l < 0."""
    root = (l * l + 8 * bh * c).sqrt()
    rationalised = 4 * bh / (root - l).clamp_min(torch.finfo(l.dtype).tiny)
    return torch.where(l >= 0, (l + root) / (2 * c), rationalised).clamp_min(FLOOR)
