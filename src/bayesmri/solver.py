"""The unrolled proximal gradient scheme (eq. 4) on E(x, z) = D(x, z) + R(x, θ) (eq. 1)."""

from collections.abc import Callable
from typing import Literal

from torch import Tensor
from torch.utils.checkpoint import checkpoint as recompute

from bayesmri.errors import ConfigError
from bayesmri.physics.fidelity import prox_data
from bayesmri.physics.fourier import ifft2c
from bayesmri.physics.operator import check_mask
from bayesmri.physics.sense import sense
from bayesmri.regularizers.base import Regularizer

Callback = Callable[[int, Tensor], None]
Start = Literal["zero-filled", "sense"]


def initial(z: Tensor, mask: Tensor, start: Start) -> Tensor:
    """x₀: the zero-filled images F⁻¹z of the paper, or the linear reconstruction with sensitivities from the centre."""
    return sense(z, mask) if start == "sense" else ifft2c(z)


def unroll(
    z: Tensor,
    mask: Tensor,
    reg: Regularizer,
    *,
    T: Tensor | float,
    S: int,
    callback: Callback | None = None,
    x0: Tensor | None = None,
    checkpoint: bool = False,
) -> Tensor:
    """The terminal state x_S of

        x₀ = F⁻¹ z,   x_{s+1} = prox_{hD}(x_s − h ∇R(x_s, θ)),   h = T / S

    Args:
        z: zero-filled k-space, complex (..., Q, H, W).
        mask: acquired columns, bool (W,).
        T: total time ≥ 0; a 0-dim tensor is learned through.
        callback: called with (s, x_s) after each step, s = 1 … S.
        x0: another start than the zero-filled images, such as `initial`.
        checkpoint: in training, keep only the states x_s and compute each step's inner values again on the way back,
            so that memory stays flat in S at the price of one more ∇R per step.
    """
    check_mask(z, mask)
    if S < 1:
        raise ConfigError(f"S = {S} steps: want at least 1")
    h = T / S

    def step(x: Tensor) -> Tensor:
        return prox_data(x - h * reg.grad(x), z, mask, h)

    x = ifft2c(z) if x0 is None else x0
    for s in range(1, S + 1):
        # nothing in a step draws random numbers, so no generator state has to be kept
        x = recompute(step, x, use_reentrant=False, preserve_rng_state=False) if checkpoint else step(x)
        if callback is not None:
            callback(s, x)
    return x
