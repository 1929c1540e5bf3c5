"""How good the model is now: PSNR and SSIM of held-out volumes against zero filling, as fastMRI measures them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

import torch
from torch import Tensor

from bayesmri.baselines.network import BoundNetwork
from bayesmri.complexes import rss
from bayesmri.data.dataset import Validation
from bayesmri.errors import DivergedError
from bayesmri.metrics import volume_metrics
from bayesmri.model import solve
from bayesmri.physics.fourier import ifft2c
from bayesmri.regularizers.base import Regularizer
from bayesmri.solver import Scheme


@dataclass(frozen=True)
class Scores:
    """Means over volumes; pictures: (zero-filled, reconstruction, truth) of the first volume's middle slice.

    psnr_sample, ssim_sample: of one draw of θ, where it was asked for.
    """

    psnr: float
    ssim: float
    nmse: float
    psnr_zero_filled: float
    ssim_zero_filled: float
    pictures: tuple[Tensor, Tensor, Tensor] = field(repr=False)
    psnr_sample: float | None = None
    ssim_sample: float | None = None

    def plain(self) -> dict[str, float]:
        names = ("psnr", "ssim", "nmse", "psnr_zero_filled", "ssim_zero_filled", "psnr_sample", "ssim_sample")
        return {name: float(value) for name in names if (value := getattr(self, name)) is not None}


@torch.no_grad()
def validate(
    volumes: Sequence[Validation],
    reg: Regularizer | BoundNetwork,
    *,
    scheme: Scheme,
    device: torch.device | str = "cpu",
    step: int = 0,
) -> Scores | None:
    """None without volumes, which stay on the CPU; slices go to the device one by one.

    A reconstruction that is not finite has no score: it ends the training. step: how far that has come.
    """
    if not volumes:
        return None
    rows, pictures = [], []
    for v in volumes:
        X0 = rss(ifft2c(v.z))
        mask = v.mask.to(device)
        X = torch.cat([_image(z[None], mask, reg, scheme, s, device) for z, s in zip_longest(v.z, v.s)])
        if not X.isfinite().all():
            raise DivergedError(f"the reconstruction of {v.name} holds NaN or Inf after step {step}: training diverged")
        a, b = volume_metrics(X, v.Y), volume_metrics(X0, v.Y)
        rows.append((a.psnr, a.ssim, a.nmse, b.psnr, b.ssim))
        middle = len(X) // 2
        pictures.append((X0[middle], X[middle], v.Y[middle]))
    p, s, n, p0, s0 = torch.tensor(rows, dtype=torch.float64).mean(dim=0).tolist()
    return Scores(p, s, n, p0, s0, pictures[0])


def _image(
    z: Tensor,
    mask: Tensor,
    reg: Regularizer | BoundNetwork,
    scheme: Scheme,
    s: Tensor | None,
    device: torch.device | str,
) -> Tensor:
    """X of one slice, on the CPU."""
    return rss(solve(z.to(device), mask, reg, scheme, s=None if s is None else s.to(device))).cpu()
