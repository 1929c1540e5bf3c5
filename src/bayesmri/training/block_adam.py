"""Adam on blocks followed by a prox: one step size per block, so that step and prox agree on it."""

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from bayesmri.training.optimizer import moments_state, restore_moments

Prox = Callable[[Tensor, Tensor], Tensor]


class BlockAdam:
    """l_u ← prox_{h_u f}(l_u − h_u m̂_u),   h_u = lr / (√v̂_u + ε) for every block u, the last axis of a tensor.

    m ← β₁m + (1 − β₁)g for every entry, v_u ← β₂v_u + (1 − β₂) mean_ab g_u,ab² for every block, and m̂, v̂ as in Adam.
    The prox of a block takes exactly the h_u of its step. t counts the updates since the last reset.
    """

    def __init__(self, params: Mapping[str, Tensor], *, betas: tuple[float, float], eps: float) -> None:
        self.params = dict(params)
        self.betas, self.eps = betas, eps
        self.m = {name: torch.zeros_like(l, requires_grad=False) for name, l in self.params.items()}
        self.v = {name: torch.zeros_like(l[..., :1], requires_grad=False) for name, l in self.params.items()}
        self.t = 0

    def reset(self) -> None:
        """Forgets the moments."""
        for moment in (*self.m.values(), *self.v.values()):
            moment.zero_()
        self.t = 0

    @torch.no_grad()
    def step(self, grads: Mapping[str, Tensor], lr: float, prox: Prox) -> None:
        """One update in place. prox: of (blocks, h), h with one number per block."""
        b1, b2 = self.betas
        self.t += 1
        c1, c2 = 1 - b1**self.t, math.sqrt(1 - b2**self.t)
        for name, l in self.params.items():
            g, m, v = grads[name], self.m[name], self.v[name]
            m.lerp_(g, 1 - b1)
            v.lerp_(g.square().mean(dim=-1, keepdim=True), 1 - b2)
            h = lr / (v.sqrt() / c2 + self.eps)
            l.copy_(prox(l - h * (m / c1), h))

    def state(self) -> dict[str, Tensor]:
        """The moments by name, and t."""
        return moments_state("L.", self.m, self.v, self.t)

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """The inverse of `state`."""
        self.t = restore_moments("L.", self.m, self.v, state)
