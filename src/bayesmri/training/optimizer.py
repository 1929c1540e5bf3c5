"""Adam on named tensors, with its moments in the open: they are saved, restored and reset."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor


class Adam:
    """p ← p − lr · m̂ / (√v̂ + ε) with m ← β₁m + (1 − β₁)g, v ← β₂v + (1 − β₂)g², m̂ = m/(1 − β₁ᵗ), v̂ = v/(1 − β₂ᵗ).

    t counts the updates since the last reset.
    """

    def __init__(self, params: Mapping[str, Tensor], *, betas: tuple[float, float], eps: float) -> None:
        self.params = dict(params)
        self.betas, self.eps = betas, eps
        self.m = {name: torch.zeros_like(p) for name, p in self.params.items()}
        self.v = {name: torch.zeros_like(p) for name, p in self.params.items()}
        self.t = 0

    def reset(self) -> None:
        """Forgets the moments."""
        for moment in (*self.m.values(), *self.v.values()):
            moment.zero_()
        self.t = 0

    @torch.no_grad()
    def step(self, grads: Mapping[str, Tensor], rates: Mapping[str, float]) -> None:
        """One update in place; every parameter has its own rate."""
        b1, b2 = self.betas
        self.t += 1
        c1, c2 = 1 - b1**self.t, math.sqrt(1 - b2**self.t)
        for name, p in self.params.items():
            g, m, v = grads[name], self.m[name], self.v[name]
            m.lerp_(g, 1 - b1)
            v.mul_(b2).addcmul_(g, g, value=1 - b2)
            p.addcdiv_(m, v.sqrt().div_(c2).add_(self.eps), value=-rates[name] / c1)

    def state(self) -> dict[str, Tensor]:
        """The moments by name, and t."""
        return moments_state("", self.m, self.v, self.t)

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """The inverse of `state`."""
        self.t = restore_moments("", self.m, self.v, state)


def moments_state(prefix: str, m: Mapping[str, Tensor], v: Mapping[str, Tensor], t: int) -> dict[str, Tensor]:
    """Both moments by name and the count of updates, as tensors to be saved."""
    moments = {f"m.{prefix}{n}": x for n, x in m.items()} | {f"v.{prefix}{n}": x for n, x in v.items()}
    return {**moments, f"adam.{prefix}t": torch.tensor(t)}


def restore_moments(prefix: str, m: Mapping[str, Tensor], v: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> int:
    """Copies saved moments into m and v; returns the count."""
    for name in m:
        m[name].copy_(state[f"m.{prefix}{name}"])
        v[name].copy_(state[f"v.{prefix}{name}"])
    return int(state[f"adam.{prefix}t"])


def clip_norm(grads: dict[str, Tensor], largest: float) -> dict[str, Tensor]:
    """All gradients by one factor, so that their common 2-norm is at most `largest`; 0 leaves them."""
    if largest <= 0:
        return grads
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g) for g in grads.values()]))
    factor = (largest / (norm + 1e-12)).clamp(max=1.0)
    return {name: g * factor for name, g in grads.items()}
