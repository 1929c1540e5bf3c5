"""Nonlinear eigenfunctions of a regularizer: ∇R(v) = Λ(v) v, the patterns that its gradient keeps in shape.

    min_v f(v) = ½‖e(v)‖²,   e(v) = ∇R(v) − Λ(v) v,   Λ(v) = ⟨∇R(v), v⟩ / ‖v‖²,   subject to ‖v‖ = ‖v₀‖   (eq. 13)

by Nesterov's projected gradient with backtracking. The paper leaves the set open. Without one v = 0 would always do,
and a learned R means something only near the scale of its training, so the norm of the start is kept. e is orthogonal
to v, so Λ's own gradient drops out of ∇f:

    ∇f(v) = (∇²R(v) − Λ(v)) e − ⟨e, v⟩ ∇Λ(v) = ∇²R(v) e − Λ(v) e
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from bayesmri.complexes import inner, norm
from bayesmri.errors import ConfigError, DataError
from bayesmri.regularizers.base import Regularizer

ITERATIONS = 300
TOLERANCE = 1e-6  # of ‖e‖/‖∇R(v₀)‖
GROW, SHRINK = 2.0, 0.9  # L after a step that was too long, and after one that was not
TRIALS = 40  # of L in one iteration: when a step 10¹² times shorter is too long, rounding decides
Step = Callable[[], None]


@final
@dataclass(frozen=True, eq=False)
class State:
    """One v on the sphere, with what f is made of. gradient: ∇R(v). eigenvalue: Λ(v). residual: ‖e(v)‖."""

    v: Tensor
    gradient: Tensor
    eigenvalue: float
    residual: float

    @property
    def value(self) -> float:
        """f(v) = ½‖e‖²."""
        return 0.5 * self.residual**2


@final
@dataclass(frozen=True, eq=False)
class Eigenfunction:
    """What was found from one start.

    start, end: v₀ and the last v. residuals, eigenvalues: ‖e(v)‖, which never grows, and Λ(v) of every iteration, the
    start's first. unit: ‖∇R(v₀)‖.
    """

    start: State
    end: State
    residuals: tuple[float, ...]
    eigenvalues: tuple[float, ...]
    unit: float


def state_at(reg: Regularizer, v: Tensor) -> State:
    """R's gradient, Λ and ‖e‖ at v, complex (..., Q, H, W)."""
    with torch.no_grad():
        return _state(v, reg.grad(v))


def descent_direction(reg: Regularizer, v: Tensor) -> tuple[State, Tensor]:
    """The state at v and ∇f(v) = ∇²R(v) e − Λ e; the Hessian times e by one backward pass through ∇R."""
    leaf = v.detach().requires_grad_()
    with torch.enable_grad():
        gradient = reg.grad(leaf)
    state = _state(leaf.detach(), gradient.detach())
    e = state.gradient - state.eigenvalue * state.v
    (He,) = torch.autograd.grad(gradient, leaf, grad_outputs=e, allow_unused=True)
    return state, (torch.zeros_like(e) if He is None else He) - state.eigenvalue * e


def eigenfunction(
    reg: Regularizer,
    start: Tensor,
    *,
    iterations: int = ITERATIONS,
    tolerance: float = TOLERANCE,
    on_step: Step | None = None,
) -> Eigenfunction:
    """Nesterov's projected gradient on f, from `start`, complex (..., Q, H, W), all of it one v.

        y = P(v_k + (t_k − 1)/t_{k+1} (v_k − v_{k−1})),   v_{k+1} = P(y − ∇f(y)/L),   t_{k+1} = (1 + √(1 + 4t_k²))/2

    P scales to ‖v₀‖. L is doubled until f(v_{k+1}) ≤ f(y) + ⟨∇f(y), v_{k+1} − y⟩ + L/2 ‖v_{k+1} − y‖² and shrinks a
    little after every step. A step that would raise f is not taken: t starts again at 1 from v_k.
    Ends early where ‖e‖ falls below tolerance · ‖∇R(v₀)‖, or where rounding leaves nothing to gain.
    """
    if iterations < 1:
        raise ConfigError(f"got {iterations} iterations, expected at least 1, such as {ITERATIONS}")
    radius = float(norm(start))
    if not 0 < radius < float("inf"):
        raise DataError(f"got a start of norm {radius:g}, expected a finite image that is not zero")
    first = here = state_at(reg, start)
    unit = float(norm(first.gradient))
    residuals, eigenvalues = [first.residual], [first.eigenvalue]
    before, t, L = start, 1.0, _first_lipschitz(reg, first)
    for _ in range(iterations):
        if here.residual <= tolerance * unit:
            break
        following = (1 + (1 + 4 * t * t) ** 0.5) / 2
        y = _on_sphere(here.v + (t - 1) / following * (here.v - before), radius)
        there, L = _step(reg, y, radius, L)
        if there is None or there.value > here.value:
            if t == 1.0:
                break  # a plain step that descends no more
            before, t = here.v, 1.0
        else:
            before, here, t = here.v, there, following
        L *= SHRINK
        residuals.append(here.residual)
        eigenvalues.append(here.eigenvalue)
        if on_step is not None:
            on_step()
    return Eigenfunction(first, here, tuple(residuals), tuple(eigenvalues), unit)


def _step(reg: Regularizer, y: Tensor, radius: float, L: float) -> tuple[State | None, float]:
    """P(y − ∇f(y)/L) with an L that majorises f, and that L; None, and the old L, where rounding lets none do."""
    at, slope = descent_direction(reg, y)
    for trial in range(TRIALS):
        steep = L * GROW**trial
        there = state_at(reg, _on_sphere(y - slope / steep, radius))
        way = there.v - y
        if there.value <= at.value + float(inner(slope, way)) + 0.5 * steep * float(norm(way)) ** 2:
            return there, steep
    return None, L


def _first_lipschitz(reg: Regularizer, first: State) -> float:
    """‖∇f(v₀)‖ / (0.01 ‖v₀‖): a first step of a hundredth of the image; backtracking and shrinking do the rest."""
    slope = float(norm(descent_direction(reg, first.v)[1]))
    return max(100 * slope / float(norm(first.v)), 1e-30)


def _on_sphere(v: Tensor, radius: float) -> Tensor:
    return v * (radius / float(norm(v)))


def _state(v: Tensor, gradient: Tensor) -> State:
    eigenvalue = float(inner(gradient, v)) / float(norm(v)) ** 2
    return State(v, gradient, eigenvalue, float(norm(gradient - eigenvalue * v)))
