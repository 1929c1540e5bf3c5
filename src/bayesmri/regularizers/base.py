"""What a regularizer R(x, θ) is: a value with an energy and a gradient, bound to its weights θ.

- `Core`: pure functions of real features and θ, R and ∇R, nothing else.
- `Regularizer`: what the solver sees, energy(x) and grad(x) of complex coil images.
- `Bound`: a core with one θ, and C ≅ R² at its door.
- `ParametricRegularizer`: owns weights; bind(θ) gives the Bound of any other θ, so samples cannot leak.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, final

from torch import Tensor, nn

from bayesmri.complexes import to_complex, to_real
from bayesmri.errors import ModelError, ShapeError

Weights = Mapping[str, Tensor]


class Core(ABC):
    """R and ∇R on real features v (B, C, H, W), as pure functions of (v, θ). Cores are hashable values."""

    @abstractmethod
    def density(self, v: Tensor, theta: Weights) -> Tensor:
        """r(v, θ), the energy of every pixel: real (B, 1, H, W)."""

    @abstractmethod
    def grad(self, v: Tensor, theta: Weights) -> Tensor:
        """∇_v Σ_i r(v, θ)_i: real (B, C, H, W), once more differentiable by autograd in v and θ."""


class Regularizer(ABC):
    """R of complex coil images x (..., Q, H, W)."""

    @abstractmethod
    def energy(self, x: Tensor) -> Tensor:
        """R(x): real (...), one number per image."""

    @abstractmethod
    def grad(self, x: Tensor) -> Tensor:
        """∇R(x): complex like x, ∂R/∂Re x + i ∂R/∂Im x."""


@final
@dataclass(frozen=True, eq=False)
class Bound(Regularizer):
    """R(·, θ) for one θ.

    Q: the number of coils the weights are made for; None takes any.
    """

    core: Core
    theta: Weights = field(repr=False)
    Q: int | None = None

    def energy(self, x: Tensor) -> Tensor:
        r = self.core.density(self._enter(x), self.theta)
        return r.sum(dim=(-3, -2, -1)).reshape(x.shape[:-3])

    def grad(self, x: Tensor) -> Tensor:
        return to_complex(self.core.grad(self._enter(x), self.theta)).reshape(x.shape)

    def _enter(self, x: Tensor) -> Tensor:
        """C ≅ R², and all leading axes as one: complex (..., Q, H, W) → real (B, 2Q, H, W)."""
        if not x.is_complex() or x.ndim < 3:
            raise ShapeError(f"got {x.dtype} of shape {tuple(x.shape)}, expected complex coil images (..., Q, H, W)")
        if self.Q is not None and x.shape[-3] != self.Q:
            raise ShapeError(
                f"got images of {x.shape[-3]} coils, expected {self.Q}, which the weights are made for; "
                f"compress the data to {self.Q} virtual coils or take another model"
            )
        return to_real(x.reshape(-1, *x.shape[-3:]))


class ParametricRegularizer(nn.Module, Regularizer):
    """A regularizer that owns weights θ. As a Regularizer itself it is bind(weights()).

    config: the frozen dataclass it was made of, with the number of coils Q.
    unrolled: it is a part of the unrolled scheme, unlike a network that stands for the whole of it.
    drops, doubts: what only networks do.
    """

    config: Any
    unrolled: ClassVar[bool] = True
    drops: ClassVar[bool] = False
    doubts: ClassVar[bool] = False

    @abstractmethod
    def weights(self) -> dict[str, Tensor]:
        """The own θ by name: the parameters themselves, not copies."""

    @abstractmethod
    def bind(self, theta: Weights) -> Bound:
        """R(·, θ) with exactly these weights; the own ones are neither used nor touched."""

    @abstractmethod
    def kernels(self) -> tuple[str, ...]:
        """The names in θ of the o x o kernels that the Bayesian model draws, (out, in, o, o) each."""

    @abstractmethod
    def project_(self) -> None:
        """Brings the own weights back into Θ, in place: to be called after each optimiser step."""

    @final
    def energy(self, x: Tensor) -> Tensor:
        return self.bind(self.weights()).energy(x)

    @final
    def grad(self, x: Tensor) -> Tensor:
        return self.bind(self.weights()).grad(x)


def check_weights(theta: Weights, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """θ holds every weight, no other, each of its shape."""
    if theta.keys() != shapes.keys():
        missing, unknown = sorted(shapes.keys() - theta.keys()), sorted(theta.keys() - shapes.keys())
        raise ModelError(
            f"weights lack {missing[:3]} and hold unknown {unknown[:3]} ({len(missing)} and {len(unknown)} in all), "
            f"expected the {len(shapes)} names of this configuration"
        )
    for name, shape in shapes.items():
        if tuple(theta[name].shape) != shape:
            raise ModelError(
                f"weight {name} has shape {tuple(theta[name].shape)}, expected {shape}; "
                "it was made with another configuration"
            )
