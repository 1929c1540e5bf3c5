"""What a distribution of θ is: it has a mean and can be drawn from."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor


class Posterior(ABC):
    """A distribution of all weights θ of one regularizer, by the names that its `bind` takes.

    stochastic: draws differ. blocks: L by kernel, nothing where there is none.
    """

    stochastic: ClassVar[bool]

    @property
    @abstractmethod
    def blocks(self) -> Mapping[str, Tensor]:
        """L of LLᵀ."""

    @abstractmethod
    def mean(self) -> dict[str, Tensor]:
        """μ."""

    @abstractmethod
    def sample(self, rng: torch.Generator) -> dict[str, Tensor]:
        """One θ. The noise is drawn with the CPU's generator and then moved, so every device gets the same numbers."""

    @abstractmethod
    def to(self, device: torch.device | str) -> "Posterior":
        """The same distribution on another device."""

    @property
    @abstractmethod
    def n_parameters(self) -> int:
        """How many numbers describe it."""
