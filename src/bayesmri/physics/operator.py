"""A = M_R F, the forward operator of eq. 2, with z kept zero-filled on the full grid."""

from dataclasses import dataclass

from torch import Tensor

from bayesmri.errors import ShapeError
from bayesmri.physics.fourier import fft2c, ifft2c


@dataclass(frozen=True)
class Operator:
    """A x = M F x and A* z = F⁻¹ M z, over any leading axes (samples, slices, coils).

    mask: acquired columns, bool (W,), or points, bool (H, W), or any shape that broadcasts against (..., Q, H, W).
    """

    mask: Tensor

    def forward(self, x: Tensor) -> Tensor:
        check_mask(x, self.mask)
        return self.mask * fft2c(x)

    def adjoint(self, z: Tensor) -> Tensor:
        check_mask(z, self.mask)
        return ifft2c(self.mask * z)


def check_mask(z: Tensor, mask: Tensor) -> None:
    """The mask covers the columns of z, or its rows and columns."""
    if mask.shape[-1:] != z.shape[-1:] or (mask.ndim > 1 and mask.shape[-2] not in (1, z.shape[-2])):
        raise ShapeError(
            f"the mask {tuple(mask.shape)} does not cover k-space {tuple(z.shape)}, "
            "expected one bool per line (last axis) or per row and column; did you transpose the phase axis?"
        )


def batched(mask: Tensor) -> Tensor:
    """(W,), (H, W) or a batch of them as bool (B or 1, 1, 1 or H, W); points that make up whole columns as columns."""
    if mask.ndim == 4:
        return mask
    rows = mask.reshape(1, 1, -1, mask.shape[-1])
    return rows[..., :1, :] if rows.shape[-2] > 1 and bool((rows == rows[..., :1, :]).all()) else rows
