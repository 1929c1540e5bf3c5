"""The i-th sample of a slice is the same whenever, wherever and with whatever others it is drawn."""

from collections.abc import Mapping

import numpy as np
import pytest
import torch
from torch import Tensor

from bayesmri.kspace import slice_digest
from bayesmri.physics.data_terms import Channels
from bayesmri.physics.mask import random_mask
from bayesmri.regularizers.tdv import TDV, TDVConfig
from bayesmri.sampler import Sampler, Stream
from bayesmri.solver import Scheme, unroll

H, W, S, T = 20, 18, 3, 2.0


def network(Q: int = 1) -> TDV:
    config = TDVConfig(Q=Q, features=4, macroblocks=1, scales=2, init="positive")
    return TDV(config, torch.Generator().manual_seed(0))


def sampler(Q: int = 1, width: float = 0.05) -> tuple[Sampler, list[Mapping[str, Tensor]]]:
    """Draws the kernels around their weights; the list fills with every θ drawn."""
    reg = network(Q)
    mu = {name: w.detach() for name, w in reg.weights().items()}
    drawn: list[Mapping[str, Tensor]] = []

    def draw(rng: torch.Generator) -> dict[str, Tensor]:
        kernels = {name: mu[name] + width * torch.randn(mu[name].shape, generator=rng) for name in reg.kernels()}
        drawn.append(mu | kernels)
        return mu | kernels

    return Sampler(reg, draw, Scheme(T, S)), drawn


def measured(Q: int = 1, slices: int = 2) -> tuple[Tensor, Tensor]:
    mask = random_mask(W, 3, rng=torch.Generator().manual_seed(1))
    z = torch.randn(slices, Q, H, W, dtype=torch.complex64, generator=torch.Generator().manual_seed(Q))
    return 5 * mask * z, mask


def streams(z: Tensor, mask: Tensor, seed: int = 0) -> list[Stream]:
    return [Stream(seed, slice_digest(part.numpy(), mask.numpy()), s) for s, part in enumerate(z)]


@pytest.mark.parametrize("Q", [1, 2])
def test_one_theta_is_shared_by_all_steps(Q: int) -> None:
    made, drawn = sampler(Q)
    z, mask = measured(Q)
    x = made.sample(Channels(z[:1], mask), torch.Generator().manual_seed(3))
    assert len(drawn) == 1
    with torch.no_grad():
        assert torch.equal(x, unroll(z[:1], mask, made.regularizer.bind(drawn[0]), T=T, S=S))


def test_samples_do_not_depend_on_batches_or_order() -> None:
    made, _ = sampler()
    z, mask = measured()
    N, owners = 5, streams(z, mask)

    def run(order: list[int], batch: int) -> dict[tuple[int, int], Tensor]:
        found: dict[tuple[int, int], Tensor] = {}
        for s in order:
            for first in range(0, N, batch):
                indices = range(first, min(N, first + batch))
                samples = made.samples(Channels(z[s][None], mask), owners[s], indices)
                found |= {(s, i): x for i, x in zip(indices, samples, strict=True)}
        return found

    reference = run([0, 1], N)
    assert len(reference) == 2 * N
    last = made.samples(Channels(z[1][None], mask), owners[1], (4, 2, 0))
    backwards = {(1, i): x for i, x in zip((4, 2, 0), last, strict=True)}
    for other in (run([0, 1], 1), run([1, 0], 3), backwards):
        for key, x in other.items():
            assert torch.equal(x, reference[key])
    distinct = {x.numpy().tobytes() for x in reference.values()}
    assert len(distinct) == 2 * N


def test_own_weights_stay_and_leave_no_graph() -> None:
    made, _ = sampler()
    z, mask = measured()
    before = {name: w.clone() for name, w in made.regularizer.weights().items()}
    x = made.sample(Channels(z, mask), torch.Generator().manual_seed(0))
    assert not x.requires_grad
    for name, w in made.regularizer.weights().items():
        assert torch.equal(w, before[name])


def test_samples_are_drawn_one_at_a_time() -> None:
    made, drawn = sampler()
    z, mask = measured()
    samples = made.samples(Channels(z[:1], mask), streams(z, mask)[0], range(1000))
    next(samples)
    next(samples)
    assert len(drawn) == 2


def test_every_part_of_a_stream_counts() -> None:
    def first(stream: Stream, i: int) -> float:
        return float(torch.rand((), dtype=torch.float64, generator=stream.rng(i)))

    base = Stream(0, "a", 0)
    assert first(base, 1) == first(Stream(0, "a", 0), 1)
    draws = [first(base, i) for i in range(100)]
    draws += [first(Stream(1, "a", 0), 0), first(Stream(0, "b", 0), 0), first(Stream(0, "a", 1), 0)]
    assert len(set(draws)) == len(draws)
    assert abs(np.mean(draws) - 0.5) < 0.1


def test_the_digest_is_of_what_was_measured() -> None:
    z, mask = (t.numpy() for t in measured(Q=2))
    full = z[0] + ~mask * np.complex64(1 + 1j)
    digest = slice_digest(z[0], mask)
    assert slice_digest(full, mask) == digest
    assert slice_digest(full * mask, mask) == digest
    assert slice_digest(-(-z[0] * mask), mask) == digest  # signed zeros
    assert slice_digest(np.asfortranarray(z[0]), mask) == digest
    assert slice_digest(z[1], mask) != digest
    assert slice_digest(z[0], mask & (np.arange(W) != np.flatnonzero(mask)[0])) != digest
    assert slice_digest(z[0] * np.complex64(1.0001), mask) != digest
