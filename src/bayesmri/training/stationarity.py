"""Is L at its optimum? By reconstructions alone, whichever way L was found.

J + β(α tr LLᵀ − log det LLᵀ) does not change with the size s of sL at s = 1 where

    v = [d/ds E J(μ + sLε)]_{s=1} / 2β(p − α tr LLᵀ)

is 1. Above 1 the data pull L together, it is too wide; below 1 it is too narrow. J is even in s on average, so pairs ±ε
take away what is odd in them, most of the noise.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from torch import Tensor

from bayesmri.complexes import rss
from bayesmri.data.dataset import Batch
from bayesmri.errors import ModelError
from bayesmri.model import Model
from bayesmri.posterior.block_gaussian import BlockGaussian
from bayesmri.posterior.kl import trace
from bayesmri.posterior.triangular import diagonal
from bayesmri.regularizers.base import ParametricRegularizer, Weights
from bayesmri.training.loss import LossConfig, loss

STEP = 0.2  # of s around 1; J is nearly quadratic in it


@torch.no_grad()
def pulls(
    model: Model,
    blocks: Sequence[Mapping[str, Tensor]],
    batches: Iterable[Batch],
    config: LossConfig,
    rng: torch.Generator,
    on_step: Callable[[], None] = lambda: None,
    *,
    step: float = STEP,
) -> list[float]:
    """d/ds E J(μ + sLε) at s = 1 of every L: the same elements and the same ε for all, four reconstructions each."""
    mu = {name: w.detach() for name, w in model.regularizer.weights().items()}
    sums, n = torch.zeros(len(blocks), dtype=torch.float64), 0
    for batch in batches:
        J, seed = _objective(model, batch, config), int(torch.randint(2**31, (), generator=rng))
        draws = [BlockGaussian(mu, L).sample(torch.Generator().manual_seed(seed)) for L in blocks]
        sums += torch.tensor([_slope(J, mu, theta, step) for theta in draws], dtype=torch.float64)
        n += 1
        on_step()
    return [float(total) / max(1, n) for total in sums]


def _objective(model: Model, batch: Batch, config: LossConfig) -> Callable[[Weights], float]:
    reg, scheme, gain = model.regularizer, model.scheme, model.scaling.gain
    if not isinstance(reg, ParametricRegularizer):
        raise ModelError("got a model without kernels to draw, expected a regularizer that has some, such as tdv")
    D = scheme.data_term(batch.z, batch.mask, batch.s)
    return lambda theta: float(loss(rss(scheme.run(D, reg.bind(theta))) / gain, batch.Y / gain, config).mean())


def _slope(J: Callable[[Weights], float], mu: Weights, theta: Weights, step: float) -> float:
    """d/ds at s = 1 of the mean of J over μ ± s(θ − μ)."""
    outer, inner = (
        sum(J({name: w + sign * s * (theta[name] - w) for name, w in mu.items()}) for sign in (1, -1)) / 2
        for s in (1 + step, 1 - step)
    )
    return (outer - inner) / (2 * step)


@torch.no_grad()
def balance(L: Mapping[str, Tensor], *, alpha: float, beta: float) -> float:
    """2β(p − α tr LLᵀ), which the pull is at the optimum; p is the number of weights drawn."""
    p = sum(diagonal(l).numel() for l in L.values())
    return 2 * beta * (p - alpha * float(trace(L)))
