"""D of the variational problem as the solver takes it: a start, a proximal map, and what R and the reader see.

- `Channels`: x are the coil images and R sees all of them as its channels (the paper); one coil is a case of it.
- `Separate`: R sees each coil image by itself, for several coils of which nothing is known.
- `Coupled`: m is the image that coils of known sensitivities see, one for each set of them; R sees each by itself.

A state is a tuple of tensors, the first of which is what R sees.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import final

import torch
from torch import Tensor

from bayesmri.physics.coil_operator import CoilOperator
from bayesmri.physics.columns import CoilColumns, Plan, idle, plans, projected, row_prox
from bayesmri.physics.conjugate_gradients import Known, shifted_conjugate_gradients
from bayesmri.physics.fidelity import prox_data
from bayesmri.physics.fourier import ifft2c
from bayesmri.physics.operator import check_mask

WEIGHT = 0.005  # λ of the start with sensitivities
START_STEPS = 15
PROX_STEPS = 3  # 10 give the same images to 0.02 dB

State = tuple[Tensor, ...]


class DataTerm(ABC):
    """D(·, z) = ½‖A · − z‖² of slices z, complex (B, Q, H, W), zero-filled.

    mask: bool (W,), (H, W) or (B, 1, 1 or H, W). plain: by torch alone, which `bench` compares with.
    """

    z: Tensor
    mask: Tensor
    plain: bool

    @cached_property
    def _plans(self) -> tuple[Plan, ...] | None:
        """Where the mask keeps whole columns, on a CPU."""
        return None if self.plain else plans(self.z, self.mask)

    @abstractmethod
    def start(self) -> State:
        """Where the scheme begins."""

    @abstractmethod
    def prox(self, v: Tensor, h: Tensor | float, before: State) -> State:
        """prox_{hD}(v); before: the state that v came from, a good first guess."""

    @abstractmethod
    def for_reg(self, x: Tensor) -> Tensor:
        """What R sees of a state, (..., Q of R, H, W)."""

    @abstractmethod
    def from_reg(self, g: Tensor) -> Tensor:
        """The inverse of `for_reg`."""

    @abstractmethod
    def images(self, state: State) -> Tensor:
        """The coil images x, complex (B, Q, H, W)."""

    @final
    @cached_property
    def _zero_filled(self) -> Tensor:
        return ifft2c(self.z)

    @final
    def _closed_form(self, v: Tensor, h: Tensor | float) -> Tensor:
        """prox_{hD}(v) for A = M F."""
        if self._plans is None or torch.compiler.is_compiling():
            return prox_data(v, self.z, self.mask, h)
        if idle(v, h, self.z):
            return row_prox(v, self._zero_filled, self._plans, h)
        return v + h / (1 + h) * (self._zero_filled - projected(v, self._plans))


@final
@dataclass(frozen=True, eq=False)
class Channels(DataTerm):
    """A = M F on coil images, whose prox has a closed form.

    x0: the start; None are the zero-filled images F⁻¹z.
    """

    z: Tensor
    mask: Tensor
    x0: Tensor | None = None
    plain: bool = False

    def __post_init__(self) -> None:
        check_mask(self.z, self.mask)

    def start(self) -> State:
        return (self._zero_filled if self.x0 is None else self.x0,)

    def prox(self, v: Tensor, h: Tensor | float, before: State) -> State:
        return (self._closed_form(v, h),)

    def for_reg(self, x: Tensor) -> Tensor:
        return x

    def from_reg(self, g: Tensor) -> Tensor:
        return g

    def images(self, state: State) -> Tensor:
        return state[0]


@final
@dataclass(frozen=True, eq=False)
class Separate(DataTerm):
    """A = M F on coil images that R sees one by one."""

    z: Tensor
    mask: Tensor
    plain: bool = False

    def __post_init__(self) -> None:
        check_mask(self.z, self.mask)

    def start(self) -> State:
        return (self._zero_filled,)

    def prox(self, v: Tensor, h: Tensor | float, before: State) -> State:
        return (self._closed_form(v, h),)

    def for_reg(self, x: Tensor) -> Tensor:
        return x.unsqueeze(-3)

    def from_reg(self, g: Tensor) -> Tensor:
        return g.squeeze(-3)

    def images(self, state: State) -> Tensor:
        return state[0]


@final
@dataclass(frozen=True, eq=False)
class Coupled(DataTerm):
    """A = M F C on the combined images m, (B, J, H, W), whose prox takes a few conjugate gradients.

    s: sensitivities, complex (B, J, Q, H, W).
    """

    z: Tensor
    mask: Tensor
    s: Tensor
    steps: int = PROX_STEPS
    plain: bool = False
    A: CoilOperator = field(init=False, repr=False)
    b: Tensor = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_mask(self.z, self.mask)
        A = CoilOperator(self.mask, self.s)
        object.__setattr__(self, "A", A)
        object.__setattr__(self, "b", A.joined(ifft2c(self.z)))  # A*z: z is zero-filled, so M z = z

    def start(self) -> State:
        """argmin ½‖A m − z‖² + λ/2 ‖m‖², which is prox_{D/λ}(0), after a few conjugate gradients: SENSE."""
        return self._sense

    @cached_property
    def _sense(self) -> State:
        """Once for all samples of a slice."""
        zero, h = torch.zeros_like(self.b), 1 / WEIGHT
        with torch.no_grad():
            return self._solved(zero, h, (zero, zero), START_STEPS)

    def prox(self, v: Tensor, h: Tensor | float, before: State) -> State:
        """(Id + hA*A)⁻¹(v + hA*z), from the state before and A*A of it."""
        return self._solved(v, h, before, self.steps)

    def _solved(self, v: Tensor, h: Tensor | float, before: State, steps: int) -> State:
        (x, Nx), fast = before, None if torch.compiler.is_compiling() or not idle(self.s) else self._columns
        if fast is not None and idle(v, h, x, Nx, self.z):
            return fast.prox(v, self.b, (x, Nx), h=h, steps=steps)
        N = self.A.normal if fast is None else fast.normal
        return shifted_conjugate_gradients(N, v + h * self.b, Known(x, Nx), h=h, steps=steps)

    @cached_property
    def _columns(self) -> CoilColumns | None:
        return None if self._plans is None else CoilColumns.of(self._plans, self.s)

    def for_reg(self, x: Tensor) -> Tensor:
        return x.unsqueeze(-3)

    def from_reg(self, g: Tensor) -> Tensor:
        return g.squeeze(-3)

    def images(self, state: State) -> Tensor:
        return self.A.seen(state[0])
