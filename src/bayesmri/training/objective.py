"""J of a batch, whichever loss and model the configuration names."""

import torch
from torch import Tensor

from bayesmri.baselines.network import BoundNetwork
from bayesmri.baselines.unet import moments
from bayesmri.complexes import rss
from bayesmri.data.dataset import Batch
from bayesmri.model import BoundLearned, solve
from bayesmri.solver import Scheme
from bayesmri.training.loss import likelihood_loss, loss
from bayesmri.training.settings import TrainConfig


def objective(
    config: TrainConfig,
    bound: BoundLearned,
    batch: Batch,
    *,
    scheme: Scheme,
    checkpoint: bool = False,
) -> Tensor:
    """J of every element, (B,), of images divided by the gain: of maximum about 1, whatever the network sees."""
    batch, gain = batch.to(next(iter(bound.theta.values())).device), config.scaling.gain
    z, mask, Y = batch.z, batch.mask, batch.Y / gain
    if config.loss.kind == "nll":
        assert isinstance(bound, BoundNetwork)
        x, variance = moments(bound, z, mask)
        return likelihood_loss(rss(x) / gain, variance / gain**2, Y, config.loss)
    x = solve(z, mask, bound, scheme, s=batch.s, checkpoint=checkpoint)
    return loss(rss(x) / gain, Y, config.loss)


def with_dropout(bound: BoundLearned, rng: torch.Generator) -> BoundLearned:
    """As it is trained: a network with dropout drops by this generator, all others stay as they are."""
    return bound.dropping(rng) if isinstance(bound, BoundNetwork) and bound.network.drops else bound
