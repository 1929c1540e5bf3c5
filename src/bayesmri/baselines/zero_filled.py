"""x₀ = F⁻¹ M_R* z: what the scanner shows when the missing lines are taken as zero."""

from dataclasses import dataclass

from torch import Tensor

from bayesmri.physics.operator import Operator


@dataclass(frozen=True)
class ZeroFilled:
    """The start of every reconstruction and the first row of every table."""

    def __call__(self, z: Tensor, mask: Tensor) -> Tensor:
        return Operator(mask).adjoint(z)
