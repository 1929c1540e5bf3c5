"""The scale of the input: one positive number per volume, taken from the zero-filled image and never from the truth."""

from dataclasses import dataclass

import torch
from torch import Tensor

from bayesmri.complexes import rss
from bayesmri.errors import ConfigError
from bayesmri.physics.fourier import ifft2c


@dataclass(frozen=True)
class Scaling:
    """z is divided by a quantile of the zero-filled root-sum-of-squares image and multiplied back at the end.

    quantile: 1 is the maximum; a little less is deaf to a few hot pixels.
    gain: what that quantile becomes. φ(x) = ½ log(1 + x²) bends at 1: with a gain of 20 the differences between
        neighbouring pixels reach its bend, with 1 they stay in its parabola.
    """

    quantile: float = 1.0
    gain: float = 1.0

    def __post_init__(self) -> None:
        if not 0.5 <= self.quantile <= 1:
            raise ConfigError(
                f"got the scaling quantile {self.quantile:g}, expected a share between 0.5 and 1 (1 is the maximum)"
            )
        if not 0 < self.gain < float("inf"):
            raise ConfigError(f"got the scaling gain {self.gain:g}, expected a positive number")

    def factor(self, z: Tensor) -> float:
        """Of one volume of zero-filled k-space, complex (..., Q, H, W): a positive number; 1 for an empty one."""
        # slice by slice: the coil images of a whole volume would take several times its memory
        X = torch.cat([rss(ifft2c(part)).flatten() for part in z.reshape(-1, *z.shape[-3:])])
        if self.quantile == 1:
            value = float(X.max())
        else:
            value = float(X.kthvalue(max(1, round(self.quantile * X.numel()))).values)
        return value / self.gain if value > torch.finfo(X.dtype).tiny else 1.0
