"""The steps of the sweeps by the kernels of `native.py`: each convolution with what stands before and after it.

They write in the place of what they add to, or take φ′ of: the sweeps read none of that again.
"""

from torch import Tensor

from bayesmri.regularizers import native
from bayesmri.regularizers.blocks import PLAIN, Residual, Steps
from bayesmri.regularizers.conv import conv_adjoint


def _finish(x: Tensor, u: Tensor, K2: Tensor) -> Tensor:
    return native.conv(u, K2, pre=native.PHI, post=native.ADD, other=x)


def _residual_adjoint(g: Tensor, k: Residual, u: Tensor) -> Tensor:
    if g.shape[-2:] != (1, 1):
        back = native.spread(g, k.K2, post=native.TIMES_PHI_PRIME, other=u)
        return native.spread(back, k.K1, post=native.ADD, other=g)
    if min(u.shape[-2:]) < 4:
        return PLAIN.residual_adjoint(g, k, u)
    # K2* of a constant: padding touches the outermost pixels only, so a 4x4 image knows all there is to know
    corner = conv_adjoint(g.expand(*g.shape[:2], 4, 4).contiguous(), k.K2)
    return native.spread(u, k.K1, post=native.ADD_SAME, other=g, edges=corner)


def _down(x: Tensor, k: Tensor, y: Tensor | None) -> Tensor:
    return native.conv(x, k, stride=2, post=native.STORE if y is None else native.ADD, other=y)


def _up(x: Tensor, k: Tensor, y: Tensor) -> Tensor:
    return native.spread(x, k, (y.shape[-2], y.shape[-1]), stride=2, post=native.ADD, other=y)


FUSED = Steps(native.conv, native.spread, _finish, _residual_adjoint, _down, _up)
