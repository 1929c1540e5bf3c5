"""D(x, z) = ½‖Ax − z‖², its gradient and its closed-form proximal map (eq. 3, Appendix A)."""

from torch import Tensor

from bayesmri.complexes import inner
from bayesmri.physics.fourier import fft2c, ifft2c
from bayesmri.physics.operator import Operator


def fidelity(x: Tensor, z: Tensor, mask: Tensor) -> Tensor:
    """D(x, z) = ½‖Ax − z‖₂²."""
    r = Operator(mask).forward(x) - z
    return 0.5 * inner(r, r)


def fidelity_grad(x: Tensor, z: Tensor, mask: Tensor) -> Tensor:
    """∇D(x, z) = A*(Ax − z)."""
    A = Operator(mask)
    return A.adjoint(A.forward(x) - z)


def prox_data(x: Tensor, z: Tensor, mask: Tensor, h: Tensor | float) -> Tensor:
    """prox_{hD}(x) = F⁻¹[(F x + h M*z) / (1 + h M)]; exact, since A*A is diagonal in k-space.

    z: zero-filled k-space, so M*z = z.
    """
    M = mask.to(x.dtype.to_real())  # a bool times a float would be float32, whatever x is
    return ifft2c((fft2c(x) + h * z) / (1 + h * M))
