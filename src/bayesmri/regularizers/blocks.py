"""The parts of ψ: the activation, the residual block and the macroblock, each with its forward and its adjoint sweep.

A forward sweep returns its output and what the adjoint sweep needs; nothing is remembered elsewhere. Features live on a
pyramid, a tuple of (B, m, H_s, W_s) from fine to coarse; before the first macroblock only the finest scale exists.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from bayesmri.regularizers.conv import conv, conv_adjoint, conv_adjoint_uniform, down, up

Pyramid = tuple[Tensor | None, ...]
Trace = tuple[Tensor, ...]  # K1 x of every residual block, in the order of the forward sweep


class Residual(NamedTuple):
    """The kernels of one residual block, (m, m, 3, 3) each."""

    K1: Tensor
    K2: Tensor


class Macroblock(NamedTuple):
    """The kernels of one macroblock of a scales.

    residuals: 2a − 1 blocks in the order of the forward sweep: a − 1 down, one at the coarsest scale, a − 1 up.
    down, up: a − 1 stride-2 kernels each, by the finer of the two scales they join.
    """

    residuals: tuple[Residual, ...]
    down: tuple[Tensor, ...]
    up: tuple[Tensor, ...]


def phi(u: Tensor) -> Tensor:
    """φ(u) = ½ log(1 + u²), the log-student-t function."""
    return 0.5 * torch.log1p(u * u)


def phi_prime(u: Tensor) -> Tensor:
    """φ'(u) = u / (1 + u²)."""
    return u / (1 + u * u)


def finish(x: Tensor, u: Tensor, K2: Tensor) -> Tensor:
    """x + K2 φ(u), with u = K1 x all of a residual block."""
    return x + conv(phi(u), K2)


def residual_adjoint(g: Tensor, k: Residual, u: Tensor) -> Tensor:
    """g + K1* (φ'(u) ⊙ K2* g) with u = K1 x, the transposed Jacobian of a residual block at x.

    g: (B, m, H, W), or (B, m, 1, 1) for an image that is the same everywhere, as the first one of the sweep is.
    """
    uniform = g.shape[-2:] == (1, 1)
    back = conv_adjoint_uniform(g, k.K2, _size(u)) if uniform else conv_adjoint(g, k.K2)
    return g + conv_adjoint(phi_prime(u) * back, k.K1)


def down_onto(x: Tensor, k: Tensor, y: Tensor | None) -> Tensor:
    """y + `down` x; y None is 0."""
    return down(x, k) if y is None else y + down(x, k)


def up_onto(x: Tensor, k: Tensor, y: Tensor) -> Tensor:
    """y + `up` x."""
    return y + up(x, k, _size(y))


class Steps(NamedTuple):
    """What the sweeps are made of: the functions of this module, or the same by other means (`fused.py`)."""

    conv: Callable[[Tensor, Tensor], Tensor] = conv
    conv_adjoint: Callable[[Tensor, Tensor], Tensor] = conv_adjoint
    finish: Callable[[Tensor, Tensor, Tensor], Tensor] = finish
    residual_adjoint: Callable[[Tensor, Residual, Tensor], Tensor] = residual_adjoint
    down: Callable[[Tensor, Tensor, Tensor | None], Tensor] = down_onto
    up: Callable[[Tensor, Tensor, Tensor], Tensor] = up_onto


PLAIN = Steps()


def macroblock(pyramid: Pyramid, k: Macroblock, by: Steps = PLAIN) -> tuple[tuple[Tensor, ...], Trace]:
    """Down the pyramid and up again; every scale adds to what the macroblock before left there."""
    before, trace = macroblock_trace(pyramid, k, by)
    return (by.finish(before[0], trace[-1], k.residuals[-1].K2), *before[1:]), trace


def macroblock_trace(pyramid: Pyramid, k: Macroblock, by: Steps = PLAIN) -> tuple[tuple[Tensor, ...], Trace]:
    """All of `macroblock` but the last convolution, which the adjoint sweep does not need."""
    x, trace = list(pyramid), []
    coarsest = len(x) - 1

    def residual(s: int, j: int) -> None:
        u = by.conv(_there(x[s]), k.residuals[j].K1)
        x[s] = by.finish(_there(x[s]), u, k.residuals[j].K2)
        trace.append(u)

    for s in range(coarsest + 1):
        if s > 0:
            x[s] = by.down(_there(x[s - 1]), k.down[s - 1], x[s])
        if coarsest > 0:
            residual(s, s)
    for s in reversed(range(coarsest)):
        x[s] = by.up(_there(x[s + 1]), k.up[s], _there(x[s]))
        if s > 0:
            residual(s, 2 * coarsest - s)
    trace.append(by.conv(_there(x[0]), k.residuals[-1].K1))
    return tuple(_there(v) for v in x), tuple(trace)


def macroblock_adjoint(pyramid: Pyramid, k: Macroblock, trace: Trace, by: Steps = PLAIN) -> tuple[Tensor, ...]:
    """The transposed Jacobian of `macroblock`: its steps transposed, last one first."""
    g = list(pyramid)
    coarsest = len(g) - 1
    for s in range(coarsest):
        j = 2 * coarsest - s
        g[s] = by.residual_adjoint(_there(g[s]), k.residuals[j], trace[j])
        g[s + 1] = by.down(_there(g[s]), k.up[s], g[s + 1])
    for s in reversed(range(coarsest + 1)):
        g[s] = by.residual_adjoint(_there(g[s]), k.residuals[s], trace[s])
        if s > 0:
            g[s - 1] = by.up(_there(g[s]), k.down[s - 1], _there(g[s - 1]))
    return tuple(_there(v) for v in g)


def _there(x: Tensor | None) -> Tensor:
    assert x is not None  # the finest scale always exists, and the sweeps fill the others from it
    return x


def _size(x: Tensor) -> tuple[int, int]:
    return x.shape[-2], x.shape[-1]
