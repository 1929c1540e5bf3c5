"""A = M_R F, the forward operator of eq. 2, with z kept zero-filled on the full grid."""

from dataclasses import dataclass

from torch import Tensor

from bayesmri.errors import ShapeError
from bayesmri.physics.fourier import fft2c, ifft2c


@dataclass(frozen=True)
class Operator:
    """A x = M F x and A* z = F⁻¹ M z, over any leading axes (samples, slices, coils).

    mask: acquired columns, bool (W,), or any shape that broadcasts against (..., Q, H, W).
    """

    mask: Tensor

    def forward(self, x: Tensor) -> Tensor:
        check_mask(x, self.mask)
        return self.mask * fft2c(x)

    def adjoint(self, z: Tensor) -> Tensor:
        check_mask(z, self.mask)
        return ifft2c(self.mask * z)


def check_mask(z: Tensor, mask: Tensor) -> None:
    """The mask covers the columns of z."""
    if mask.shape[-1:] != z.shape[-1:]:
        raise ShapeError(
            f"the mask {tuple(mask.shape)} does not cover k-space {tuple(z.shape)}, "
            "expected one bool per line (last axis); did you transpose the phase axis?"
        )
