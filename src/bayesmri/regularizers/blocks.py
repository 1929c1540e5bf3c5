"""The parts of ψ: the activation, the residual block and the macroblock, each with its forward and its adjoint sweep.

A forward sweep returns its output and what the adjoint sweep needs; nothing is remembered elsewhere. Features live on a
pyramid, a tuple of (B, m, H_s, W_s) from fine to coarse; before the first macroblock only the finest scale exists.
"""

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


def residual(x: Tensor, k: Residual) -> tuple[Tensor, Tensor]:
    """x + K2 φ(K1 x), and K1 x."""
    u = conv(x, k.K1)
    return x + conv(phi(u), k.K2), u


def residual_adjoint(g: Tensor, k: Residual, u: Tensor) -> Tensor:
    """g + K1* (φ'(u) ⊙ K2* g) with u = K1 x, the transposed Jacobian of `residual` at x.

    g: (B, m, H, W), or (B, m, 1, 1) for an image that is the same everywhere, as the first one of the sweep is.
    """
    uniform = g.shape[-2:] == (1, 1)
    back = conv_adjoint_uniform(g, k.K2, _size(u)) if uniform else conv_adjoint(g, k.K2)
    return g + conv_adjoint(phi_prime(u) * back, k.K1)


def macroblock(pyramid: Pyramid, k: Macroblock) -> tuple[tuple[Tensor, ...], Trace]:
    """Down the pyramid and up again; every scale adds to what the macroblock before left there."""
    before, trace = macroblock_trace(pyramid, k)
    last = before[0] + conv(phi(trace[-1]), k.residuals[-1].K2)
    return (last, *before[1:]), trace


def macroblock_trace(pyramid: Pyramid, k: Macroblock) -> tuple[tuple[Tensor, ...], Trace]:
    """All of `macroblock` but the last convolution, which the adjoint sweep does not need."""
    x, trace = list(pyramid), []
    coarsest = len(x) - 1
    for s in range(coarsest + 1):
        if s > 0:
            x[s] = _add(x[s], down(_there(x[s - 1]), k.down[s - 1]))
        if coarsest > 0:
            x[s], u = residual(_there(x[s]), k.residuals[s])
            trace.append(u)
    for s in reversed(range(coarsest)):
        fine = _there(x[s])
        x[s] = fine + up(_there(x[s + 1]), k.up[s], _size(fine))
        if s > 0:
            x[s], u = residual(_there(x[s]), k.residuals[2 * coarsest - s])
            trace.append(u)
    trace.append(conv(_there(x[0]), k.residuals[-1].K1))
    return tuple(_there(v) for v in x), tuple(trace)


def macroblock_adjoint(pyramid: Pyramid, k: Macroblock, trace: Trace) -> tuple[Tensor, ...]:
    """The transposed Jacobian of `macroblock`: its steps transposed, last one first."""
    g = list(pyramid)
    coarsest = len(g) - 1
    for s in range(coarsest):
        j = 2 * coarsest - s
        g[s] = residual_adjoint(_there(g[s]), k.residuals[j], trace[j])
        g[s + 1] = _add(g[s + 1], down(_there(g[s]), k.up[s]))
    for s in reversed(range(coarsest + 1)):
        g[s] = residual_adjoint(_there(g[s]), k.residuals[s], trace[s])
        if s > 0:
            fine = _there(g[s - 1])
            g[s - 1] = fine + up(_there(g[s]), k.down[s - 1], _size(fine))
    return tuple(_there(v) for v in g)


def _add(x: Tensor | None, y: Tensor) -> Tensor:
    return y if x is None else x + y


def _there(x: Tensor | None) -> Tensor:
    assert x is not None  # the finest scale always exists, and the sweeps fill the others from it
    return x


def _size(x: Tensor) -> tuple[int, int]:
    return x.shape[-2], x.shape[-1]
