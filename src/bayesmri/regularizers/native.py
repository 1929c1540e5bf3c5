"""The 3x3 convolutions of `conv.py` in C (`kernels.c`, `winograd.c`), with φ, φ′ and sums fused in.

Optional: without a C compiler, on other devices and in other precisions the plain path runs, slower but equal.
"""

import ctypes
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from bayesmri.machine.kernels import compiled
from bayesmri.machine.workers import n_bands

SOURCES = tuple(Path(__file__).with_name(name) for name in ("kernels.c", "winograd.c", "tv.c", "bands.c", "kernels.h"))
BLOCK = 16  # features of a vector
PLAIN, PHI, UNIFORM = range(3)
STORE, ADD, TIMES_PHI_PRIME, ADD_SAME = range(4)
BAND = 16  # rows whose products are summed by themselves
LITTLE = 1 << 18  # products at each tap: with fewer for each, another thread is not worth its waking
LITTLE_IMAGE = 1 << 15  # numbers, likewise


def usable(*tensors: Tensor) -> bool:
    """Whether these are what the kernels take, and the kernels are there."""
    if torch.compiler.is_compiling():
        return False
    return all(t.dtype == torch.float32 and t.device.type == "cpu" for t in tensors) and library() is not None


def conv(
    x: Tensor,
    k: Tensor,
    *,
    stride: int = 1,
    pre: int = PLAIN,
    post: int = STORE,
    other: Tensor | None = None,
    keep: bool = False,
) -> Tensor:
    """k ∗ P x or k ∗ P φ(x), at every stride-th pixel: (B, in, H, W) → (B, out, ⌈H/stride⌉, ⌈W/stride⌉).

    other: the result is added to it, or multiplied by its φ′, in its place; keep: and it stays as it is.
    """
    H, W = x.shape[-2:]
    n_out, n_in = k.shape[:2]
    x, k = _last(x), k.contiguous()
    other = None if other is None else _last(other)
    out = _room((len(x), n_out, -(-H // stride), -(-W // stride)), None if keep else other)
    threads = _threads(out, n_in)
    if tiled := _tiled(stride, n_in, n_out):
        room = _tiled_room(W, n_in, n_out, threads)
    else:
        room = torch.empty(9 * n_in * n_out + threads * (3 * (W + 8) * n_in + W * n_out))
    for b in range(len(x)):
        onto, sizes, rest = (_at(other, b), _at(out, b)), (H, W, n_in, n_out), (pre, post, threads, room.data_ptr())
        if tiled:
            _call("winograd3x3", _at(x, b), None, k.data_ptr(), *onto, *sizes, 0, *rest)
        else:
            _call("conv3x3", _at(x, b), k.data_ptr(), *onto, *sizes, stride, *rest)
    return out


def spread(
    g: Tensor,
    k: Tensor,
    size: tuple[int, int] | None = None,
    *,
    stride: int = 1,
    post: int = STORE,
    other: Tensor | None = None,
    edges: Tensor | None = None,
    keep: bool = False,
) -> Tensor:
    """The adjoint of `conv` on images of `size`.

    other: as for `conv`; with ADD_SAME (1, in, 1, 1), which is added to every pixel and stays as it is.
    edges: (B, out, 4, 4); instead of g its φ′(g) is taken, times an image of which these are the corner, the edges and
        the constant inside.
    """
    H, W = g.shape[-2:] if size is None else size
    n_in, n_out = k.shape[:2]
    g, k = _last(g), k.contiguous()
    same = None if post != ADD_SAME or other is None else other.contiguous()
    other = None if other is None or same is not None else _last(other)
    out = _room((len(g), n_out, H, W), None if keep else other)
    threads = _threads(out, n_in)
    if tiled := _tiled(stride, n_in, n_out):
        room = _tiled_room(W, n_in, n_out, threads)
    else:
        room = torch.empty(9 * n_in * n_out + threads * (3 * (-(-W // stride) + 8) * n_in + 2 * (W + 2) * n_out))
    edges = None if edges is None else _last(edges.expand(len(g), -1, -1, -1))
    pre = PLAIN if edges is None else UNIFORM
    for b in range(len(g)):
        onto = _at(other, b) if same is None else same.data_ptr()
        arrays, sizes = (_at(g, b), _at(edges, b), k.data_ptr(), onto, _at(out, b)), (H, W, n_in, n_out)
        name, how = ("winograd3x3", 1) if tiled else ("spread3x3", stride)
        _call(name, *arrays, *sizes, how, pre, post, threads, room.data_ptr())
    return out


def kernel_gradient(x: Tensor, g: Tensor, *, stride: int = 1, pre: int = PLAIN) -> Tensor:
    """The gradient of ⟨g, conv(x, k)⟩ in k, (out, in, 3, 3): of bands of rows, summed in their order."""
    x, g = _last(x), _last(g)
    H, W = x.shape[-2:]
    n_in, n_out, h = x.shape[1], g.shape[1], g.shape[2]
    threads = _threads(g, n_in)
    parts = torch.empty(len(x), -(-h // BAND), n_out, n_in, 3, 3)
    room = torch.empty(threads * (3 * (W + 8) * n_in + 9 * n_in * n_out))
    for b in range(len(x)):
        rest = (H, W, n_in, n_out, stride, pre, BAND, threads, room.data_ptr())
        _call("kernel3x3", _at(x, b), _at(g, b), parts[b].data_ptr(), *rest)
    return parts.sum(dim=(0, 1))


def add_total_variation(out: Tensor, v: Tensor, weight: float, epsilon: float) -> Tensor:
    """∇R of `tv.py` at v, (B, C, H, W), is added to out, in its place."""
    out, v = _last(out), _last(v)
    channels, H, W = v.shape[1:]
    threads = max(1, min(n_bands(), v[0].numel() // LITTLE_IMAGE))
    room = torch.empty(threads * 2 * W)
    for b in range(len(v)):
        sizes, numbers = (H, W, channels, threads), (weight, epsilon)
        _call("total_variation", _at(v, b), _at(out, b), *sizes, *numbers, room.data_ptr())
    return out


def bent(b: Tensor, u: Tensor) -> Tensor:
    """φ′(u) b."""
    b, u = _last(b), _last(u)
    t = torch.empty_like(b)
    _call("bend", b.data_ptr(), u.data_ptr(), t.data_ptr(), b.numel())
    return t


def bend_back(a: Tensor, b: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients in b and u of φ′(u) b, given a, that in the product; the first in the place of a."""
    a, b, u = _last(a), _last(b), _last(u)
    in_u = torch.empty_like(a)
    _call("bend_back", a.data_ptr(), b.data_ptr(), u.data_ptr(), in_u.data_ptr(), a.numel())
    return a, in_u


def _tiled(stride: int, n_in: int, n_out: int) -> bool:
    """Whether Winograd's tiles fit."""
    return stride == 1 and n_in % BLOCK == 0 and n_out % BLOCK == 0


def _tiled_room(W: int, n_in: int, n_out: int, threads: int) -> Tensor:
    return torch.empty(36 * n_in * n_out + threads * (7 * W * n_in + 732 * n_in + 960 * n_out + 2304))


def _threads(made: Tensor, n_in: int) -> int:
    """As many as torch would take, as long as there is enough for each; the bits do not change."""
    return max(1, min(n_bands(), made[0].numel() * n_in // LITTLE))


def _room(shape: tuple[int, ...], other: Tensor | None) -> Tensor:
    """Where the result goes: in the place of `other`, of which nothing else is left to be read then."""
    return torch.empty(shape, memory_format=torch.channels_last) if other is None else other


def _last(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=torch.channels_last)


def _at(x: Tensor | None, b: int) -> int | None:
    """The address of image b."""
    return None if x is None else x.data_ptr() + b * x.element_size() * x.stride(0)


def _call(name: str, *values: float | None) -> None:
    """A kernel with its arrays first, then whole numbers, then scratch; other Python threads go on meanwhile."""
    found = library()
    assert found is not None
    getattr(found, name)(*values)


@cache
def library() -> ctypes.CDLL | None:
    """The compiled kernels; None where they cannot be had."""
    found = compiled(*SOURCES)
    return None if found is None else _typed(found)


def _typed(found: ctypes.CDLL) -> ctypes.CDLL:
    pointer, number = ctypes.c_void_p, ctypes.c_int
    found.conv3x3.argtypes = [pointer] * 4 + [number] * 8 + [pointer]
    found.spread3x3.argtypes = [pointer] * 5 + [number] * 8 + [pointer]
    found.winograd3x3.argtypes = [pointer] * 5 + [number] * 8 + [pointer]
    found.kernel3x3.argtypes = [pointer] * 3 + [number] * 8 + [pointer]
    found.total_variation.argtypes = [pointer] * 2 + [number] * 4 + [ctypes.c_float] * 2 + [pointer]
    found.bend.argtypes, found.bend_back.argtypes = [pointer] * 3 + [ctypes.c_long], [pointer] * 4 + [ctypes.c_long]
    for name in ("conv3x3", "spread3x3", "winograd3x3", "kernel3x3", "total_variation", "bend", "bend_back"):
        getattr(found, name).restype = None
    return found
