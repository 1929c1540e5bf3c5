"""L in closed form: where the posterior stands when the curvature of J around μ is known (Laplace's approximation).

J + β(α tr LLᵀ − log det LLᵀ) is least over the blocks of Σ = LLᵀ where

    Σ_u⁻¹ = α Id + H_u / 2β,   H_u = E ∇²J of the block u

so that all β share one H, and L of another β takes no training.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from bayesmri.errors import ConfigError
from bayesmri.posterior.triangular import packed


def closed_form(H: Mapping[str, Tensor], *, alpha: float, beta: float) -> dict[str, Tensor]:
    """L by kernel, (out, in, d(d+1)/2) in single precision, of curvatures (out, in, d, d), positive semidefinite."""
    if not (0 < alpha < float("inf") and 0 < beta < float("inf")):
        raise ConfigError(f"got alpha = {alpha:g} and beta = {beta:g}, expected numbers above 0")
    found = {}
    for name, h in H.items():
        h = h.double()
        identity = torch.eye(h.shape[-1], dtype=h.dtype, device=h.device)
        precision = alpha * identity + (h + h.mT) / (4 * beta)
        # Σ = P⁻¹ = LLᵀ from P = UᵀU with the rows and columns of P reversed: L is the inverse of a triangle
        reversed_factor = torch.linalg.cholesky(precision.flip(-2, -1)).flip(-2, -1).mT
        L = torch.linalg.solve_triangular(reversed_factor, identity.expand_as(precision), upper=False)
        found[name] = packed(L).float()
    return found
