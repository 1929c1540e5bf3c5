"""Bias-free convolutions with symmetric padding, their strided siblings, and the exact adjoint of each.

All are pure functions of real features (B, C, H, W) and a kernel (out, in, o, o) with odd o. The padding o // 2 repeats
the edge pixel first (…1 0 | 0 1 2…), which for o = 3 is `replicate`. A transposed convolution is the adjoint of a
strided one, padding included, so it needs no code of its own and restores any shape, odd or even.
"""

from collections.abc import Callable
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor

_BINOMIAL = (1.0, 4.0, 6.0, 4.0, 1.0)
FEW_FEATURES = 16  # below, a product of matrices is no faster than the library's convolution


def conv(x: Tensor, k: Tensor) -> Tensor:
    """K x = k ∗ P x: (B, in, H, W) → (B, out, H, W)."""
    return _correlate(pad(x, k.shape[-1] // 2), k)


def conv_adjoint(g: Tensor, k: Tensor) -> Tensor:
    """K* g = P*(kᵀ ∗ g): (B, out, H, W) → (B, in, H, W)."""
    return pad_adjoint(_spread(g, k), k.shape[-1] // 2)


def conv_adjoint_uniform(c: Tensor, k: Tensor, size: tuple[int, int]) -> Tensor:
    """K* g for 3x3 kernels of an image that is c everywhere: (B, out, 1, 1) → (B, in, H, W).

    Padding touches the outermost pixels only: all others have one value, and a 4x4 image knows them all.
    """
    if min(size) < 4:
        return conv_adjoint(c.expand(*c.shape[:2], *size), k)
    small = conv_adjoint(c.expand(*c.shape[:2], 4, 4).contiguous(), k)
    for dim, n in zip((-2, -1), size, strict=True):  # by copies, whose derivative is a sum: an index's is far slower
        first, inner, last = (small.narrow(dim, at, 1) for at in (0, 1, 3))
        small = torch.cat((first, inner.expand(_with(inner.shape, dim, n - 2)), last), dim)
    return small


def _with(shape: torch.Size, dim: int, n: int) -> list[int]:
    """The shape with n in one place."""
    found = list(shape)
    found[dim] = n
    return found


def down(x: Tensor, k: Tensor) -> Tensor:
    """Every second pixel of K x: (B, in, H, W) → (B, out, ⌈H/2⌉, ⌈W/2⌉)."""
    return F.conv2d(pad(x, k.shape[-1] // 2), k, stride=2)


def up(g: Tensor, k: Tensor, size: tuple[int, int]) -> Tensor:
    """The adjoint of `down` on images of `size`: (B, out, ⌈H/2⌉, ⌈W/2⌉) → (B, in, H, W)."""
    H, W = size
    # the strided convolution never reads the last padded pixel of an even axis: its adjoint leaves zero there
    unread = ((H + 1) % 2, (W + 1) % 2)
    return pad_adjoint(F.conv_transpose2d(g, k, stride=2, output_padding=unread), k.shape[-1] // 2)


def blurred(k: Tensor) -> Tensor:
    """k ∗ b with the binomial b = [1 4 6 4 1]⊗[1 4 6 4 1]/256: (out, in, 3, 3) → (out, in, 7, 7)."""
    b = torch.tensor(_BINOMIAL, dtype=k.dtype, device=k.device) / 16
    blurred_k = F.conv2d(k.reshape(-1, 1, *k.shape[-2:]), torch.outer(b, b)[None, None], padding=4)
    return blurred_k.reshape(*k.shape[:2], *blurred_k.shape[-2:])


def pad(x: Tensor, p: int) -> Tensor:
    """P x: p pixels of symmetric padding on every side."""
    if p == 1:
        return _typed(_PadEdges.apply)(x)
    for dim in (-2, -1):
        x = x.index_select(dim, _mirror(x.shape[dim], p, x.device))
    return x


def pad_adjoint(v: Tensor, p: int) -> Tensor:
    """P* v: the padding is cut off and added to the pixels it was copied from."""
    if p == 1:
        return _typed(_FoldEdges.apply)(v)
    for dim in (-2, -1):
        shape = list(v.shape)
        shape[dim] -= 2 * p
        v = v.new_zeros(shape).index_add(dim, _mirror(shape[dim], p, v.device), v)
    return v


# 3x3 kernels are nearly all of the work. As each other's derivative, P and P* take one copy either way, where autograd
# would take several and the compiler would stumble over the backward operator of `replicate`.


class _PadEdges(torch.autograd.Function):
    """P for p = 1."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return F.pad(x, (1, 1, 1, 1), mode="replicate")

    @staticmethod
    def setup_context(ctx: object, inputs: tuple[Tensor], output: Tensor) -> None:
        """Linear: nothing to remember."""

    @staticmethod
    def backward(ctx: object, g: Tensor) -> Tensor:
        return _typed(_FoldEdges.apply)(g)


class _FoldEdges(torch.autograd.Function):
    """P* for p = 1."""

    @staticmethod
    def forward(v: Tensor) -> Tensor:
        return _fold_pointwise(v) if torch.compiler.is_compiling() else _fold_copying(v)

    @staticmethod
    def setup_context(ctx: object, inputs: tuple[Tensor], output: Tensor) -> None:
        """Linear: nothing to remember."""

    @staticmethod
    def backward(ctx: object, g: Tensor) -> Tensor:
        return _typed(_PadEdges.apply)(g)


def _fold_copying(v: Tensor) -> Tensor:
    """P* v for p = 1 by one copy and small sums: the fast form where operations run one by one."""
    rows = v[..., 1:-1, :].clone()
    rows[..., 0, :] += v[..., 0, :]
    rows[..., -1, :] += v[..., -1, :]
    out = rows[..., 1:-1]
    out[..., 0] += rows[..., 0]
    out[..., -1] += rows[..., -1]
    return out


def _fold_pointwise(v: Tensor) -> Tensor:
    """P* v for p = 1 as a formula of each pixel, which a compiler fuses with its neighbours (a third of the time)."""
    H, W = v.shape[-2] - 2, v.shape[-1] - 2
    i, j = torch.arange(H, device=v.device)[:, None], torch.arange(W, device=v.device)
    zero = v.new_zeros(())
    rows = v[..., 1:-1, :]
    rows = rows + torch.where(i == 0, v[..., :1, :], zero) + torch.where(i == H - 1, v[..., -1:, :], zero)
    out = rows[..., 1:-1]
    return out + torch.where(j == 0, rows[..., :1], zero) + torch.where(j == W - 1, rows[..., -1:], zero)


# On a CPU the library's gradient in the kernel takes twice the time of the other two convolutions; nine products of
# matrices on the same memory take half of that. Backward passes are built of differentiable operations.


def _correlate(x: Tensor, k: Tensor) -> Tensor:
    """k ∗ x without padding: (B, in, H + 2, W + 2) → (B, out, H, W) for o = 3."""
    return _typed_pair(_Correlate.apply)(x, k) if _by_products(k) else F.conv2d(x, k)


def _spread(g: Tensor, k: Tensor) -> Tensor:
    """kᵀ ∗ g, the adjoint of `_correlate`: (B, out, H, W) → (B, in, H + 2, W + 2) for o = 3."""
    return _typed_pair(_Spread.apply)(g, k) if _by_products(k) else F.conv_transpose2d(g, k)


def _by_products(k: Tensor) -> bool:
    return k.device.type == "cpu" and k.shape[-1] == 3 and min(k.shape[:2]) >= FEW_FEATURES


class _Correlate(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, k: Tensor) -> Tensor:
        return F.conv2d(x, k)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, k = ctx.saved_tensors
        wants_x, wants_k = ctx.needs_input_grad
        return _spread(g, k) if wants_x else None, _kernel_gradient(x, g) if wants_k else None


class _Spread(torch.autograd.Function):
    @staticmethod
    def forward(g: Tensor, k: Tensor) -> Tensor:
        return F.conv_transpose2d(g, k)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, x: Tensor) -> tuple[Tensor | None, Tensor | None]:
        g, k = ctx.saved_tensors
        wants_g, wants_k = ctx.needs_input_grad
        return _correlate(x, k) if wants_g else None, _kernel_gradient(x, g) if wants_k else None


def _kernel_gradient(x: Tensor, g: Tensor) -> Tensor:
    """Σ_hw g_o(h, w) x_i(h + a, w + b), (out, in, 3, 3), of x (B, in, H + 2, W + 2) and g (B, out, H, W).

    Pixels as rows of one matrix each: shifting an image by (a, b) is shifting the rows by a(W + 2) + b. g is padded
    with zeros to the size of x, so that rows which wrap around an edge count for nothing.
    """
    width = x.shape[-1]
    X, G = _rows(x), _rows(F.pad(g, (0, 2, 0, 2)))
    n = len(X) - 2 * width - 2
    taps = [G[:n].T @ X[a * width + b : a * width + b + n] for a in range(3) for b in range(3)]
    return torch.stack(taps, dim=-1).view(g.shape[1], x.shape[1], 3, 3)


def _rows(x: Tensor) -> Tensor:
    """(B, C, H, W) → (B·H·W, C), a view where x is channels_last."""
    return x.permute(0, 2, 3, 1).reshape(-1, x.shape[1])


def _typed(apply: object) -> Callable[[Tensor], Tensor]:
    """torch leaves `Function.apply` without types."""
    return cast(Callable[[Tensor], Tensor], apply)


def _typed_pair(apply: object) -> Callable[[Tensor, Tensor], Tensor]:
    return cast(Callable[[Tensor, Tensor], Tensor], apply)


def _mirror(n: int, p: int, device: torch.device) -> Tensor:
    """Which of n pixels stands at each of n + 2p padded places; an axis shorter than p is mirrored again and again."""
    place = torch.arange(-p, n + p, device=device) % (2 * n)
    return torch.minimum(place, 2 * n - 1 - place)
