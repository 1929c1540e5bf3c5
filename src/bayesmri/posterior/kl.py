"""How far N(μ, LLᵀ) is from the prior N(μ, α⁻¹ Id), and how wide it is; sums over the kernels, in double precision.

L comes as a mapping of kernels' blocks, the entries of each on the last axis (`triangular.py`). Per block l of size d

    tr llᵀ = Σ_ab l_ab²,   log det llᵀ = 2 Σ_a log l_aa
"""

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from bayesmri.posterior.triangular import diagonal

Blocks = Mapping[str, Tensor]


def trace(L: Blocks) -> Tensor:
    """tr LLᵀ, summed over all blocks."""
    return torch.stack([l.double().square().sum() for l in L.values()]).sum()


def log_det(L: Blocks) -> Tensor:
    """log det LLᵀ, summed over all blocks."""
    return torch.stack([2 * diagonal(l).double().log().sum() for l in L.values()]).sum()


def n_kernels(L: Blocks) -> int:
    """N_K."""
    return sum(l[..., 0].numel() for l in L.values())


def penalty(L: Blocks, *, alpha: float, beta: float) -> Tensor:
    """f(L) = β(α tr LLᵀ − log det LLᵀ), the penalty of eq. 8: twice β times the divergence but for a constant."""
    return beta * (alpha * trace(L) - log_det(L))


def divergence(L: Blocks, *, alpha: float) -> Tensor:
    """KL(N(μ, LLᵀ) ‖ N(μ, α⁻¹ Id)) = ½(α tr LLᵀ − log det LLᵀ − p log α − p) (eq. 7), p the number of weights drawn."""
    p = sum(diagonal(l).numel() for l in L.values())
    return 0.5 * (alpha * trace(L) - log_det(L) - p * math.log(alpha) - p)


def entropy(L: Blocks) -> Tensor:
    """H̄ = (1/2N_K) Σ_i ln(2π det Σ_i), the paper's mean entropy.

    Under its own name, for it is not the differential entropy, which has (2πe)^d in place of 2π: that is
    ½(d − 1) ln 2π + ½d = 12.85 larger for d = 9.
    """
    return 0.5 * (math.log(2 * math.pi) + log_det(L) / n_kernels(L))
