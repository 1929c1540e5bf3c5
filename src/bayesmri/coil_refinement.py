"""Sensitivities and image together, where the central lines are too few for sensitivities alone."""

import torch
from torch import Tensor

from bayesmri.physics.calibration import n_central_lines
from bayesmri.physics.data_terms import Coupled
from bayesmri.physics.espirit import FEWEST, MOST, espirit_sets
from bayesmri.physics.fourier import fft2c
from bayesmri.regularizers.base import Regularizer
from bayesmri.solver import Scheme, descend

ROUNDS = 3
STEPS = 6  # of the scheme in every round


@torch.no_grad()
def refined(D: Coupled, reg: Regularizer, scheme: Scheme) -> Coupled:
    """D with sensitivities from the centre of k-space that the image fills: F C m where no line was measured.

    In every round a few steps of the scheme, then ESPIRiT from the central lines, measured and filled. With fewer than
    FEWEST measured ones that is worth 1 to 3 dB and comes as near as 0.4 dB, on the mean, to sensitivities from fully
    sampled data; with more it is worth nothing, and D is returned as it is.
    """
    if int(n_central_lines(_lines(D.mask)).min()) >= FEWEST:
        return D
    centre = _centre(D.mask)
    h = scheme.T / scheme.S
    for _ in range(ROUNDS):
        u = fft2c(descend(D, reg, T=STEPS * h, S=STEPS, rho=scheme.rho))
        filled = torch.where(D.mask, D.z, u) * centre
        D = Coupled(D.z, D.mask, espirit_sets(filled, centre))
    return D


def _lines(mask: Tensor) -> Tensor:
    return mask.reshape(-1, 1, 1, mask.shape[-1])


def _centre(mask: Tensor) -> Tensor:
    """The lines that ESPIRiT learns from, bool (1, 1, 1, W)."""
    W = mask.shape[-1]
    n = min(MOST, W)
    column = torch.arange(W, device=mask.device)
    first = W // 2 - n // 2
    return ((column >= first) & (column < first + n)).reshape(1, 1, 1, W)
