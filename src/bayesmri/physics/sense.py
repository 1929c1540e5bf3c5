"""SENSE (Pruessmann et al. 1999): what coils of known sensitivities see of an image, by linear least squares."""

import torch
from torch import Tensor

from bayesmri.physics.calibration import n_central_lines
from bayesmri.physics.conjugate_gradients import conjugate_gradients
from bayesmri.physics.espirit import FEWEST, espirit_sets
from bayesmri.physics.fourier import ifft2c
from bayesmri.physics.operator import Operator, check_mask

WEIGHT = 0.005  # λ
STEPS = 15


@torch.no_grad()
def sense(z: Tensor, mask: Tensor) -> Tensor:
    """Σ_j s_qj m_j with m = argmin ½‖A S m − z‖² + λ/2 ‖m‖², complex (B, Q, H, W), after a few conjugate gradients.

    j: two sets of sensitivities, of which the second counts where the object folds over (soft SENSE, Uecker 2014).
    The zero-filled images F⁻¹z for a single coil, and where there are fewer central lines than sensitivities need.

    z: zero-filled k-space, complex (B, Q, H, W). mask: bool (W,) or (B or 1, 1, 1, W).
    """
    check_mask(z, mask)
    x = ifft2c(z)
    lines = mask.reshape(-1, 1, 1, mask.shape[-1])
    known = n_central_lines(lines) >= FEWEST
    if z.shape[-3] == 1 or not known.any():
        return x
    A, s = Operator(lines), espirit_sets(z, lines)

    def seen(m: Tensor) -> Tensor:
        return (s * m[:, :, None]).sum(dim=1)

    def joined(y: Tensor) -> Tensor:
        return (s.conj() * y[:, None]).sum(dim=2)

    def normal(m: Tensor) -> Tensor:
        return joined(A.adjoint(A.forward(seen(m)))) + WEIGHT * m

    b = joined(x)
    m = conjugate_gradients(normal, b, torch.zeros_like(b), steps=STEPS)
    return torch.where(known[:, None, None, None], seen(m), x)


def combine(s: Tensor, x: Tensor) -> Tensor:
    """Sᴴx = Σ_q s̄_q x_q, complex (B, 1, H, W)."""
    return (s.conj() * x).sum(dim=-3, keepdim=True)
