"""SENSE (Pruessmann et al. 1999): what coils of known sensitivities see of an image, by linear least squares."""

import torch
from torch import Tensor

from bayesmri.complexes import rss
from bayesmri.physics.centre import centre_acquired, n_central_lines
from bayesmri.physics.data_terms import Coupled
from bayesmri.physics.espirit import FEWEST, espirit_sets
from bayesmri.physics.fourier import ifft2c
from bayesmri.physics.operator import batched, check_mask

LEAST_WEIGHT = (
    0.005  # of a second set: its share of the zero-filled images' energy below which it is left out (0.05 dB)
)


@torch.no_grad()
def sense(z: Tensor, mask: Tensor) -> Tensor:
    """Σ_j s_qj m_j with m = argmin ½‖A m − z‖² + λ/2 ‖m‖², complex (B, Q, H, W), after a few conjugate gradients.

    j: two sets of sensitivities, of which the second counts where the object folds over (soft SENSE, Uecker 2014).
    The zero-filled images F⁻¹z for a single coil, and where there are fewer central lines than sensitivities need.

    z: zero-filled k-space, complex (B, Q, H, W). mask: bool (W,), (H, W) or (B or 1, 1, 1 or H, W).
    """
    check_mask(z, mask)
    x = ifft2c(z)
    lines = batched(mask)
    known = n_central_lines(lines) >= FEWEST
    if z.shape[-3] == 1 or not known.any():
        return x
    D = Coupled(z, lines, espirit_sets(z, lines))
    return torch.where(known[:, None, None, None], D.images(D.start()), x)


@torch.no_grad()
def sensitivity_sets(z: Tensor, mask: Tensor, *, rows: slice = slice(None)) -> Tensor | None:
    """Sensitivities from the central lines, complex (B, J, Q, H, W) with J = 2, or 1 where a second set has no weight.

    None without central lines: then nothing is known of the coils.

    z: zero-filled k-space, complex (B, Q, H, W). mask: bool (W,), (H, W) or (B or 1, 1, 1 or H, W).
    rows: of the image, where not all of them are wanted.
    """
    lines = batched(mask)
    if not centre_acquired(lines):
        return None
    s = espirit_sets(z, lines, rows=rows)
    X0 = rss(ifft2c(z)[..., rows, :]).square()
    second = (s[:, 1].abs().square().sum(dim=1) * X0).sum(dim=(-2, -1))
    return s if bool((second > LEAST_WEIGHT * X0.sum(dim=(-2, -1))).any()) else s[:, :1]


def combine(s: Tensor, x: Tensor) -> Tensor:
    """Sᴴx = Σ_q s̄_q x_q, complex (B, 1, H, W)."""
    return (s.conj() * x).sum(dim=-3, keepdim=True)
