"""σ_total of a slice, by the model's own head: how far its image is from the truth."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bayesmri.physics.data_terms import DataTerm
from bayesmri.posterior.error_head import ErrorHead
from bayesmri.posterior.evidence import evidence
from bayesmri.posterior.rescans import Rescans
from bayesmri.recon.grid import Padding


@torch.no_grad()
def error_std(
    head: ErrorHead,
    D: DataTerm,
    at_mean: Tensor,
    factor: float,
    std: Tensor | None,
    rescans: Rescans | None,
    pad: Padding | None = None,
) -> NDArray[np.float32]:
    """(H, W), in the units of the input.

    D: the slice in the model's scale. at_mean: its x_μ, complex (Q, H, W). factor: of that scale to the input's.
    std: σ̂ of the draws, (H, W) in the input's units; None without draws. rescans: of x_μ, in the model's scale.
    pad: what lies around the encoded grid; σ̂, which is of the stored one, is then not used.
    """
    variance = (std / factor).float().square()[None] if std is not None and pad is None else None
    total = head(evidence(at_mean[None], D.z, D.mask), variance, rescans)[0] * factor
    if pad is not None:
        total = pad.widen(total.to(at_mean.dtype)).real.clamp(min=0)
    found: NDArray[np.float32] = total.cpu().numpy()
    return found
