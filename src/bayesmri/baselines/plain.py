"""Any torch.nn.Module from (z, mask) to images as a network of this package."""

from typing import Any, final

import torch
from torch import Tensor, nn

from bayesmri.baselines.network import Network

SMALLEST = 8  # what files must have at least


@final
class PlainNetwork(Network):
    """x = module(z, mask) of zero-filled k-space z, complex (B, Q, H, W), and mask, bool (B or 1, 1, 1 or H, W)."""

    def __init__(self, config: Any, module: nn.Module) -> None:
        super().__init__()
        self.config = config
        self.module = module

    def forward(self, z: Tensor, mask: Tensor) -> Tensor:
        x: Tensor = self.module(z, mask)
        return x

    def draw_(self, rng: torch.Generator) -> None:
        """The module's own start values stay."""

    def smallest(self) -> int:
        return SMALLEST


def plain_network(make: type[nn.Module], config: Any, rng: torch.Generator) -> PlainNetwork:
    """`make(config)`, whose start values torch's layers ask a global generator for: seeded by `rng`, and put back."""
    seed = int(torch.randint(2**31, (1,), generator=rng))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return PlainNetwork(config, make(config))
