"""A = M_R F C: the forward operator of eq. 2 for a combined image that coils of known sensitivities see."""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from bayesmri.errors import ShapeError
from bayesmri.physics.fourier import fft2c, ifft2c
from bayesmri.physics.operator import check_mask


@final
@dataclass(frozen=True, eq=False)
class CoilOperator:
    """A m = M F C m and A* z = C* F⁻¹ M z with (C m)_q = Σ_j s_jq m_j.

    One image m_j belongs to each set of sensitivities: a second one is needed where an object larger than the field of
    view folds over (soft SENSE, Uecker et al. 2014).

    mask: bool (W,) or (H, W), or any shape that broadcasts against (B, Q, H, W).
    s: sensitivities, complex (B, J, Q, H, W).
    """

    mask: Tensor
    s: Tensor

    def __post_init__(self) -> None:
        check_mask(self.s, self.mask)
        if self.s.ndim != 5:
            raise ShapeError(f"got sensitivities of shape {tuple(self.s.shape)}, expected (B, sets, coils, H, W)")

    def seen(self, m: Tensor) -> Tensor:
        """C m, the coil images: complex (B, J, H, W) → (B, Q, H, W)."""
        x = self.s[:, 0] * m[:, :1]
        for j in range(1, self.s.shape[1]):
            x = x + self.s[:, j] * m[:, j : j + 1]
        return x

    def joined(self, x: Tensor) -> Tensor:
        """C* x: complex (B, Q, H, W) → (B, J, H, W)."""
        return torch.stack([(s.conj() * x).sum(dim=1) for s in self.s.unbind(1)], dim=1)

    def forward(self, m: Tensor) -> Tensor:
        return self.mask * fft2c(self.seen(m))

    def adjoint(self, z: Tensor) -> Tensor:
        return self.joined(ifft2c(self.mask * z))

    def normal(self, m: Tensor) -> Tensor:
        """A*A m.

        F⁻¹ M F is a circular convolution: it commutes with the shifts that centre F, and where M keeps whole columns
        the transforms along the rows cancel.
        """
        axes = (-1,) if self.mask.ndim == 1 or self.mask.shape[-2] == 1 else (-2, -1)
        M = torch.fft.ifftshift(self.mask, dim=axes)
        return self.joined(torch.fft.ifftn(M * torch.fft.fftn(self.seen(m), dim=axes), dim=axes))
