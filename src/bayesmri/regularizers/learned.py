"""The steps of the sweeps by the kernels of `native.py`, to be differentiated once: what training takes.

Derivatives, with ⟨h, ·⟩ in front of the output:

    K x:            K* h in x, kernel_gradient(x, h) in k
    K* g:           K h in g, kernel_gradient(h, g) in k
    K φ(u):         φ′(u) ⊙ K* h in u, kernel_gradient(φ(u), h) in k
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
    @staticmethod
    def forward(x: Tensor, k: Tensor, stride: int) -> Tensor:
        return native.conv(x, k, stride=stride)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, int], output: Tensor) -> None:
        x, k, ctx.stride = inputs
        ctx.save_for_backward(x, k)

    @staticmethod
    def backward(ctx: Any, h: Tensor) -> Grads:
        x, k = ctx.saved_tensors
        wants_x, wants_k, _ = ctx.needs_input_grad
        in_x = native.spread(h, k, (x.shape[-2], x.shape[-1]), stride=ctx.stride) if wants_x else None
        return in_x, native.kernel_gradient(x, h, stride=ctx.stride) if wants_k else None, None


class _Spread(torch.autograd.Function):
    @staticmethod
    def forward(g: Tensor, k: Tensor, size: tuple[int, int], stride: int) -> Tensor:
        return native.spread(g, k, size, stride=stride)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, tuple[int, int], int], output: Tensor) -> None:
        g, k, _, ctx.stride = inputs
        ctx.save_for_backward(g, k)

    @staticmethod
    def backward(ctx: Any, h: Tensor) -> Grads:
        g, k = ctx.saved_tensors
        wants_g, wants_k = ctx.needs_input_grad[:2]
        in_g = native.conv(h, k, stride=ctx.stride) if wants_g else None
        return in_g, native.kernel_gradient(h, g, stride=ctx.stride) if wants_k else None, None, None


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
    """K*(φ′(u) ⊙ b)."""

    @staticmethod
    def forward(b: Tensor, u: Tensor, k: Tensor) -> Tensor:
        return native.spread(native.bent(b, u), k)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, h: Tensor) -> Grads:
        b, u, k = ctx.saved_tensors
        in_k = native.kernel_gradient(h, native.bent(b, u)) if ctx.needs_input_grad[2] else None
        fresh = b.clone(memory_format=torch.channels_last)
        return *native.bend_back(native.conv(h, k), fresh, u), in_k


def _typed(apply: object) -> Callable[..., Tensor]:
    """torch leaves `Function.apply` without types."""
    return cast(Callable[..., Tensor], apply)


def _conv(x: Tensor, k: Tensor) -> Tensor:
    return _typed(_Conv.apply)(x, k, 1)


def _conv_adjoint(g: Tensor, k: Tensor) -> Tensor:
    return _typed(_Spread.apply)(g, k, _size(g), 1)


def _finish(x: Tensor, u: Tensor, K2: Tensor) -> Tensor:
    return _typed(_Finish.apply)(x, u, K2)


def _residual_adjoint(g: Tensor, k: Residual, u: Tensor) -> Tensor:
    uniform = g.shape[-2:] == (1, 1)
    b = conv_adjoint_uniform(g, k.K2, _size(u)).expand(len(u), -1, -1, -1) if uniform else _conv_adjoint(g, k.K2)
    return g + _typed(_Back.apply)(b, u, k.K1)


def _down(x: Tensor, k: Tensor, y: Tensor | None) -> Tensor:
    coarse = _typed(_Conv.apply)(x, k, 2)
    return coarse if y is None else y + coarse


def _up(x: Tensor, k: Tensor, y: Tensor) -> Tensor:
    return y + _typed(_Spread.apply)(x, k, _size(y), 2)


def _size(x: Tensor) -> tuple[int, int]:
    return x.shape[-2], x.shape[-1]


LEARNED = Steps(_conv, _conv_adjoint, _finish, _residual_adjoint, _down, _up)
