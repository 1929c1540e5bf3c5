"""The unrolled proximal gradient scheme (eq. 4) on E(x, z) = D(x, z) + R(x, θ) (eq. 1)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, final, get_args

from torch import Tensor
from torch.utils.checkpoint import checkpoint as recompute

from bayesmri.errors import ConfigError
from bayesmri.physics.coils import CoilMode
from bayesmri.physics.data_terms import Channels, Coupled, DataTerm, Separate, State
from bayesmri.physics.sense import sense, sensitivity_sets
from bayesmri.regularizers.base import Regularizer

Callback = Callable[[int, Tensor], None]
Start = Literal["zero-filled", "sense"]


def unroll(
    z: Tensor,
    mask: Tensor,
    reg: Regularizer,
    *,
    T: Tensor | float,
    S: int,
    rho: Tensor | float | None = None,
    momentum: Tensor | float | None = None,
    s: Tensor | None = None,
    callback: Callback | None = None,
    x0: Tensor | None = None,
    checkpoint: bool = False,
) -> Tensor:
    """The coil images of the terminal state x_S of `descend`, from k-space.

    Args:
        z: zero-filled k-space, complex (..., Q, H, W).
        mask: acquired columns, bool (W,), or points, bool (H, W).
        s: sensitivities, complex (B, J, Q, H, W); None: R sees the coil images themselves.
        x0: without sensitivities, another start than the zero-filled images.
    """
    D: DataTerm = Channels(z, mask, x0) if s is None else Coupled(z, mask, s)
    return descend(D, reg, T=T, S=S, rho=rho, momentum=momentum, callback=callback, checkpoint=checkpoint)


def descend(
    D: DataTerm,
    reg: Regularizer,
    *,
    T: Tensor | float,
    S: int,
    rho: Tensor | float | None = None,
    momentum: Tensor | float | None = None,
    callback: Callback | None = None,
    checkpoint: bool = False,
) -> Tensor:
    """The coil images, complex (..., Q, H, W), of the terminal state x_S of

        v_s = x_s + γ (x_s − x_{s−1}),   x_{s+1} = prox_{hD}(v_s − ρ ∇R(v_s, θ)),   h = T / S

    Args:
        T: total time ≥ 0; a 0-dim tensor is learned through.
        rho: ρ, the step on R; None is the paper's ρ = h.
        momentum: γ ≥ 0 (Nesterov's extrapolation); None is the paper's scheme without, v_s = x_s.
        callback: called with (s, the coil images of x_s) after each step, s = 1 … S.
        checkpoint: in training, keep only the states x_s and compute each step's inner values again on the way back,
            so that memory stays flat in S at the price of one more ∇R per step.
    """
    if S < 1:
        raise ConfigError(f"got S = {S} steps, expected at least 1")
    h = T / S
    step_on_R = h if rho is None else rho

    def step(*states: Tensor) -> State:
        now, before = states[: len(states) // 2], states[len(states) // 2 :]
        # A*A of a state is a part of it where that is needed, and linear in it
        v = now if momentum is None else tuple(a + momentum * (a - b) for a, b in zip(now, before, strict=True))
        return D.prox(v[0] - step_on_R * D.from_reg(reg.grad(D.for_reg(v[0]))), h, v)

    state = before = D.start()
    for s in range(1, S + 1):
        both = (*state, *before)
        before = state
        # nothing in a step draws random numbers, so no generator state has to be kept
        state = recompute(step, *both, use_reentrant=False, preserve_rng_state=False) if checkpoint else step(*both)
        if callback is not None:
            callback(s, D.images(state))
    return D.images(state)


@final
@dataclass(frozen=True, eq=False)
class Scheme:
    """The unrolled scheme but for R and the data.

    T, S, rho, momentum: of `descend`. start: x₀ where coils are channels. coils: how they enter, as a model's `Coils`.
    """

    T: Tensor | float
    S: int
    rho: Tensor | float | None = None
    start: Start = "zero-filled"
    coils: CoilMode = "raw"
    momentum: Tensor | float | None = None

    def __post_init__(self) -> None:
        if self.start not in get_args(Start):
            raise ConfigError(f"got a scheme that starts from {self.start!r}, expected {' or '.join(get_args(Start))}")

    def data_term(self, z: Tensor, mask: Tensor, s: Tensor | None = None) -> DataTerm:
        """D of slices z, complex (B, Q, H, W).

        s: sensitivities where they are known, complex (B, J, Q, H, W); None estimates them from the central lines.
        """
        if self.coils != "sensitivities" or z.shape[-3] == 1:
            return Channels(z, mask, sense(z, mask) if self.start == "sense" else None)
        s = sensitivity_sets(z, mask) if s is None else s
        return Separate(z, mask) if s is None else Coupled(z, mask, s)

    def run(
        self, D: DataTerm, reg: Regularizer, *, callback: Callback | None = None, checkpoint: bool = False
    ) -> Tensor:
        """`descend` with these numbers."""
        return descend(
            D,
            reg,
            T=self.T,
            S=self.S,
            rho=self.rho,
            momentum=self.momentum,
            callback=callback,
            checkpoint=checkpoint,
        )
