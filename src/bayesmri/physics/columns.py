"""The proximal maps of D where the mask keeps whole columns, by `columns.c`: one-dimensional transforms, no copies.

Optional: without a C compiler, on other devices, in double precision and for other masks `data_terms.py` takes torch's
transforms, slower but equal.
"""

import ctypes
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any, cast, final

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from bayesmri.machine.kernels import compiled
from bayesmri.physics.operator import batched

SOURCE = Path(__file__).with_name("columns.c")
Map = Callable[[Tensor], Tensor]
LANES = 16  # rows at a time
LARGEST_PRIME = 61  # of W: with larger ones torch is as quick


@final
@dataclass(frozen=True, eq=False)
class Plan:
    """F⁻¹ M F of rows of W pixels, for one image: what `columns.c` calls a plan.

    factors: of W, int32. twiddles, roots: of each, cosines and sines. mask: over W, in the order of the transform.
    """

    factors: Tensor
    twiddles: Tensor
    roots: Tensor
    mask: Tensor

    def arguments(self) -> tuple[int, ...]:
        rest = (self.twiddles.data_ptr(), self.roots.data_ptr(), self.mask.data_ptr())
        return (self.factors.data_ptr(), len(self.factors), *rest)


def plans(z: Tensor, mask: Tensor) -> tuple[Plan, ...] | None:
    """One for each of the slices z, complex (B, Q, H, W); None where the kernels do not fit."""
    columns = batched(mask)
    W = z.shape[-1]
    fits = z.dtype == torch.complex64 and z.device.type == "cpu" and columns.shape[-2] == 1
    if not fits or z.numel() == 0 or max(_factors(W)) > LARGEST_PRIME or library() is None:
        return None
    made = [_plan(row) for row in columns[:, 0, 0].unbind()]
    return tuple(made * len(z) if len(made) == 1 else made)


def idle(*values: object) -> bool:
    """Whether nothing is to be learned through these."""
    return not torch.is_grad_enabled() or not any(isinstance(v, Tensor) and v.requires_grad for v in values)


class _SelfAdjoint(torch.autograd.Function):
    """A linear map that is its own adjoint, by a kernel: what goes back through it is mapped alike."""

    @staticmethod
    def forward(x: Tensor, by: Map) -> Tensor:
        return by(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Map], output: Tensor) -> None:
        ctx.by = inputs[1]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        return ctx.by(g), None


def _differentiable(by: Map, x: Tensor) -> Tensor:
    return cast(Callable[[Tensor, Map], Tensor], _SelfAdjoint.apply)(x, by)


def projected(x: Tensor, plans: tuple[Plan, ...]) -> Tensor:
    """A*A x = F⁻¹ M F x for A = M F, (B, Q, H, W); once differentiable."""
    return _differentiable(partial(_projected, plans=plans), x)


def _projected(x: Tensor, plans: tuple[Plan, ...]) -> Tensor:
    x = x.contiguous()
    out, scratch = torch.empty_like(x), torch.empty(2 * LANES * x.shape[-1])
    for image, to, plan in zip(x, out, plans, strict=True):
        sizes = (image.numel() // image.shape[-1], image.shape[-1])
        _loaded().row_project(image.data_ptr(), to.data_ptr(), *sizes, *plan.arguments(), scratch.data_ptr())
    return out


def row_prox(x: Tensor, b: Tensor, plans: tuple[Plan, ...], h: Tensor | float) -> Tensor:
    """x + h/(1 + h) (A*z − A*A x), which is prox_{hD}(x) for A = M F: A*A is a projection. (B, Q, H, W), b: A*z."""
    x, b = x.contiguous(), b.contiguous()
    out, scratch, weight = torch.empty_like(x), torch.empty(2 * LANES * x.shape[-1]), float(h) / (1 + float(h))
    for image, known, to, plan in zip(x, b, out, plans, strict=True):
        sizes = (image.numel() // image.shape[-1], image.shape[-1])
        arrays = (image.data_ptr(), known.data_ptr(), to.data_ptr())
        _loaded().row_prox(*arrays, *sizes, *plan.arguments(), weight, scratch.data_ptr())
    return out


@final
@dataclass(frozen=True, eq=False)
class CoilColumns:
    """A*A for A = M F C with sensitivities in the order of the kernels.

    s: (B, J, Q, H, W). lanes: (B, ⌈H/16⌉, Q, J, W, 2, 16).
    """

    plans: tuple[Plan, ...]
    lanes: Tensor
    shape: torch.Size

    @classmethod
    def of(cls, plans: tuple[Plan, ...], s: Tensor) -> "CoilColumns":
        n, J, Q, H, W = s.shape
        s, lanes = s.contiguous(), torch.empty(n, -(-H // LANES), Q, J, W, 2, LANES)
        for one, to in zip(s, lanes, strict=True):
            _loaded().coil_lanes(one.data_ptr(), to.data_ptr(), J, Q, H, W)
        return cls(plans, lanes, s.shape)

    def normal(self, m: Tensor) -> Tensor:
        """A*A m, (B, J, H, W); once differentiable."""
        return _differentiable(self._normal, m)

    def _normal(self, m: Tensor) -> Tensor:
        _, J, Q, H, W = self.shape
        m = m.contiguous()
        out, scratch = torch.empty_like(m), torch.empty((2 * J + 1) * 2 * LANES * W)
        for i, plan in enumerate(self.plans):
            arrays = (t[i].data_ptr() for t in (m, self.lanes, out))
            _loaded().coil_normal(*arrays, J, Q, H, W, *plan.arguments(), scratch.data_ptr())
        return out

    def prox(
        self, v: Tensor, b: Tensor, before: tuple[Tensor, Tensor], *, h: Tensor | float, steps: int
    ) -> tuple[Tensor, Tensor]:
        """As `shifted_conjugate_gradients` towards (Id + hA*A)⁻¹(v + hb); images (B, J, H, W)."""
        _, J, Q, H, W = self.shape
        v, b = v.contiguous(), b.contiguous()
        x, Nx = (t.clone(memory_format=torch.contiguous_format) for t in before)
        scratch = torch.empty(6 * J * H * W + (2 * J + 1) * 2 * LANES * W)
        for i, plan in enumerate(self.plans):
            arrays = (t[i].data_ptr() for t in (v, b, self.lanes, x, Nx))
            _loaded().coil_prox(*arrays, J, Q, H, W, *plan.arguments(), float(h), steps, scratch.data_ptr())
        return x, Nx


def _plan(mask: Tensor) -> Plan:
    W = len(mask)
    factors, roots = _factors(W), _rooted(W)
    order = torch.tensor(_order(factors))
    weights = torch.fft.ifftshift(mask).to(torch.float32)[order] / W
    return Plan(torch.tensor(factors, dtype=torch.int32), *roots, weights.contiguous())


@cache
def _rooted(W: int) -> tuple[Tensor, Tensor]:
    """Twiddles exp(−2πi jk/n) of every pass over parts of n = r m, (m, r − 1), and the roots of unity of every r."""
    twiddles: list[float] = []
    roots: list[float] = []
    n = W
    for r in _factors(W):
        roots += _turns((i / r for i in range(r)), sign=1)
        twiddles += _turns((j * k / n for k in range(n // r) for j in range(1, r)), sign=-1)
        n //= r
    return torch.tensor([*twiddles, 0.0]), torch.tensor(roots)


def _turns(turns: Iterable[float], *, sign: int) -> list[float]:
    """Cosine and sine of each."""
    angles = (2 * math.pi * t for t in turns)
    return list(chain.from_iterable((math.cos(angle), sign * math.sin(angle)) for angle in angles))


@cache
def _factors(W: int) -> tuple[int, ...]:
    """4 as often as it goes, then primes; small first."""
    found: list[int] = []
    for r in chain((4, 2, 3), range(5, W + 1, 2)):
        while W % r == 0 and W > 1:
            found.append(r)
            W //= r
    return tuple(sorted(found)) or (1,)


def _order(factors: tuple[int, ...]) -> list[int]:
    """The frequency at each place after decimation in frequency."""
    if len(factors) == 1:
        return list(range(factors[0]))
    r, rest = factors[0], _order(factors[1:])
    return [r * k + j for j in range(r) for k in rest]


def _loaded() -> ctypes.CDLL:
    found = library()
    assert found is not None
    return found


@cache
def library() -> ctypes.CDLL | None:
    """The compiled kernels; None where they cannot be had."""
    found = compiled(SOURCE)
    if found is None:
        return None
    pointer, number, real = ctypes.c_void_p, ctypes.c_int, ctypes.c_float
    plan: list[Any] = [pointer, number, pointer, pointer, pointer]
    found.coil_lanes.argtypes = [pointer] * 2 + [number] * 4
    found.coil_prox.argtypes = [pointer] * 5 + [number] * 4 + plan + [real, number, pointer]
    found.coil_normal.argtypes = [pointer] * 3 + [number] * 4 + [*plan, pointer]
    found.row_project.argtypes = [pointer] * 2 + [number] * 2 + [*plan, pointer]
    found.row_prox.argtypes = [pointer] * 3 + [number] * 2 + plan + [real, pointer]
    for name in ("coil_lanes", "coil_normal", "coil_prox", "row_project", "row_prox"):
        getattr(found, name).restype = None
    return found
