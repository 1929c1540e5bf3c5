"""Draws θ₁…θ_N (eq. 10) and yields x_S(z, T, θ_i) (eq. 11), one at a time, each with a random stream of its own.

A network with dropout is sampled alike: its i-th random pass in place of θ_i.

The i-th sample of a slice depends on the seed, the measured data of the slice, its index and i, and on nothing else:
in which order, in what batches and by how many workers samples are made does not change them.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, final

import torch
from torch import Tensor

from bayesmri.baselines.network import BoundNetwork
from bayesmri.machine.workers import ordered
from bayesmri.physics.data_terms import DataTerm
from bayesmri.regularizers.base import ParametricRegularizer, Weights
from bayesmri.solver import Scheme


@final
@dataclass(frozen=True)
class Stream:
    """The random numbers of one slice.

    seed: the user's. content: `slice_digest` of the slice. index: of the slice in its file.
    """

    seed: int
    content: str
    index: int

    def rng(self, i: int) -> torch.Generator:
        """Of the i-th sample, i = 0 … N − 1: seeded by the sha256 of (seed, content, index, i).

        On the CPU whatever the device, so that all devices draw the same θ_i.
        """
        text = f"bayesmri sample/{self.seed}/{self.content}/{self.index}/{i}"
        # torch's CPU generator listens to 32 bits: two of 256 samples share a θ once in 130,000 slices
        return torch.Generator().manual_seed(int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big"))


class Draws(Protocol):
    """What samples come from."""

    def samples(self, D: DataTerm, stream: Stream, indices: Iterable[int]) -> Iterator[Tensor]:
        """The samples of these indices of one slice, each complex (1, Q', H, W)."""
        ...


@final
@dataclass(frozen=True, eq=False)
class Sampler:
    """x_S(z, T, θ) with θ drawn.

    regularizer: binds θ; its own weights are not used. draw: θ ~ p(θ), all weights by name, such as a posterior's
    `sample`.
    """

    regularizer: ParametricRegularizer
    draw: Callable[[torch.Generator], Weights]
    scheme: Scheme

    @torch.no_grad()
    def sample(self, D: DataTerm, rng: torch.Generator) -> Tensor:
        """One sample, complex (..., Q, H, W): one θ, shared by all S steps and all slices of D."""
        theta = {name: w.to(D.z.device) for name, w in self.draw(rng).items()}
        return self.scheme.run(D, self.regularizer.bind(theta))

    def samples(self, D: DataTerm, stream: Stream, indices: Iterable[int]) -> Iterator[Tensor]:
        """The samples of these indices of one slice, several at a time on a CPU of several cores."""
        workers = None if D.z.device.type == "cpu" else 1
        yield from ordered(lambda i: self.sample(D, stream.rng(i)), indices, workers=workers)


@final
@dataclass(frozen=True, eq=False)
class Passes:
    """Random passes through a network with dropout, each with channels of its own dropped (Monte-Carlo dropout)."""

    bound: BoundNetwork

    @torch.no_grad()
    def samples(self, D: DataTerm, stream: Stream, indices: Iterable[int]) -> Iterator[Tensor]:
        """The passes of these indices through one slice."""
        for i in indices:
            yield self.bound.dropping(stream.rng(i))(D.z, D.mask)
