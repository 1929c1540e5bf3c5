"""The steps of the sweeps by the kernels of `native.py`, to be differentiated once: what training takes.

Derivatives, with ⟨h, ·⟩ in front of the output:

    K x:            K* h in x, kernel_gradient(x, h) in k
    K* g:           K h in g, kernel_gradient(h, g) in k
    K φ(u):         φ′(u) ⊙ K* h in u, kernel_gradient(φ(u), h) in k
    y + …:          h in y
    K*(φ′(u) ⊙ b):  with a = K h: a ⊙ φ′(u) in b, a ⊙ b ⊙ φ″(u) in u, kernel_gradient(h, φ′(u) ⊙ b) in k
"""

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor

from bayesmri.regularizers import native
from bayesmri.regularizers.blocks import Residual, Steps
from bayesmri.regularizers.conv import conv_adjoint_uniform

Grads = tuple[Tensor | None, ...]


class _Conv(torch.autograd.Function):
    """y + K x; y None is 0."""

    @staticmethod
    def forward(x: Tensor, k: Tensor, y: Tensor | None, stride: int) -> Tensor:
        return native.conv(x, k, stride=stride, post=_onto(y), other=y, keep=True)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor | None, int], output: Tensor) -> None:
        x, k, _, ctx.stride = inputs
        ctx.save_for_backward(x, k)

    @staticmethod
    def backward(ctx: Any, h: Tensor) -> Grads:
        x, k = ctx.saved_tensors
        wants_x, wants_k, wants_y, _ = ctx.needs_input_grad
        in_x = native.spread(h, k, _size(x), stride=ctx.stride) if wants_x else None
        in_k = native.kernel_gradient(x, h, stride=ctx.stride) if wants_k else None
        return in_x, in_k, h if wants_y else None, None


class _Spread(torch.autograd.Function):
    """y + K* g on images of `size`; y None is 0."""

    @staticmethod
    def forward(g: Tensor, k: Tensor, y: Tensor | None, size: tuple[int, int], stride: int) -> Tensor:
        return native.spread(g, k, size, stride=stride, post=_onto(y), other=y, keep=True)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        g, k, _, _, ctx.stride = inputs
        ctx.save_for_backward(g, k)

    @staticmethod
    def backward(ctx: Any, h: Tensor) -> Grads:
        g, k = ctx.saved_tensors
        wants_g, wants_k, wants_y = ctx.needs_input_grad[:3]
        in_g = native.conv(h, k, stride=ctx.stride) if wants_g else None
        in_k = native.kernel_gradient(h, g, stride=ctx.stride) if wants_k else None
        return in_g, in_k, h if wants_y else None, None, None


class _Finish(torch.autograd.Function):
    """x + K φ(u)."""

    @staticmethod
    def forward(x: Tensor, u: Tensor, k: Tensor) -> Tensor:
        return native.conv(u, k, pre=native.PHI, post=native.ADD, other=x, keep=True)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[1:])

    @staticmethod
    def backward(ctx: Any, h: Tensor) -> Grads:
        u, k = ctx.saved_tensors
        in_u = native.spread(h, k, post=native.TIMES_PHI_PRIME, other=u, keep=True)
        return h, in_u, native.kernel_gradient(u, h, pre=native.PHI) if ctx.needs_input_grad[2] else None


class _Back(torch.autograd.Function):
    """g + K*(φ′(u) ⊙ b)."""

    @staticmethod
    def forward(b: Tensor, u: Tensor, k: Tensor, g: Tensor) -> Tensor:
        return native.spread(native.bent(b, u), k, post=native.ADD, other=g, keep=True)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[:3])

    @staticmethod
    def backward(ctx: Any, h: Tensor) -> Grads:
        b, u, k = ctx.saved_tensors
        in_k = native.kernel_gradient(h, native.bent(b, u)) if ctx.needs_input_grad[2] else None
        return *native.bend_back(native.conv(h, k), b, u), in_k, h


def _typed(apply: object) -> Callable[..., Tensor]:
    """torch leaves `Function.apply` without types."""
    return cast(Callable[..., Tensor], apply)


def _conv(x: Tensor, k: Tensor) -> Tensor:
    return _typed(_Conv.apply)(x, k, None, 1)


def _conv_adjoint(g: Tensor, k: Tensor) -> Tensor:
    return _typed(_Spread.apply)(g, k, None, _size(g), 1)


def _finish(x: Tensor, u: Tensor, K2: Tensor) -> Tensor:
    return _typed(_Finish.apply)(x, u, K2)


def _residual_adjoint(g: Tensor, k: Residual, u: Tensor) -> Tensor:
    uniform = g.shape[-2:] == (1, 1)
    b = conv_adjoint_uniform(g, k.K2, _size(u)).expand(len(u), -1, -1, -1) if uniform else _conv_adjoint(g, k.K2)
    return _typed(_Back.apply)(b, u, k.K1, g.expand_as(u))


def _down(x: Tensor, k: Tensor, y: Tensor | None) -> Tensor:
    return _typed(_Conv.apply)(x, k, y, 2)


def _up(x: Tensor, k: Tensor, y: Tensor) -> Tensor:
    return _typed(_Spread.apply)(x, k, y, _size(y), 2)


def _onto(y: Tensor | None) -> int:
    return native.STORE if y is None else native.ADD


def _size(x: Tensor) -> tuple[int, int]:
    return x.shape[-2], x.shape[-1]


LEARNED = Steps(_conv, _conv_adjoint, _finish, _residual_adjoint, _down, _up)
