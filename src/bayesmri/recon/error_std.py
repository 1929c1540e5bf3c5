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
def unseen(head: ErrorHead, D: DataTerm, at_mean: Tensor, rescans: Rescans | None) -> Tensor:
    """s, (H, W), in the model's scale: what σ_total is without the draws.

    D: the slice, at_mean: its x_μ, complex (Q, H, W), rescans: of x_μ; all in that scale.
    """
    return head.rest(evidence(at_mean[None], D.z, D.mask), rescans)[0]


@torch.no_grad()
def error_std(
    head: ErrorHead, s: Tensor, std: Tensor | None, factor: float, pad: Padding | None, *, again: bool
) -> NDArray[np.float32]:
    """σ_total, (H, W), in the units of the input.

    s: as `unseen` has it. std: σ̂ of the draws, (H, W) in the input's units; None without draws. factor: of the model's
    scale to the input's. again: s knows rescans. pad: what lies around the encoded grid; σ̂, which is of the stored
    one, is then not used.
    """
    variance = (std / factor).float().square()[None] if std is not None and pad is None else None
    total = head.total(s[None], variance, again=again)[0] * factor
    if pad is not None:
        total = pad.widen(total.to(torch.complex64)).real.clamp(min=0)
    found: NDArray[np.float32] = total.cpu().numpy()
    return found
