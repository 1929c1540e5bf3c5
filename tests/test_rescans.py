"""Other lines as likely as those that were measured, and the image scanned once more by them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from bayesmri.complexes import rss
from bayesmri.machine.workers import one_thread
from bayesmri.physics.data_terms import Channels, Coupled, DataTerm
from bayesmri.physics.fourier import fft2c, ifft2c
from bayesmri.physics.mask import MaskKind, MaskSpec
from bayesmri.physics.other_lines import other_lines
from bayesmri.physics.pattern import centre
from bayesmri.posterior.rescans import Rescans, rescanned


def mask_of(kind: MaskKind, R: float = 3.0, shape: tuple[int, int] = (45, 120)) -> NDArray[np.bool_]:
    mask: NDArray[np.bool_] = MaskSpec(kind, R).draw(shape, torch.Generator().manual_seed(1)).numpy()
    return mask


@pytest.mark.parametrize("kind", ["random", "equispaced", "poisson", "elliptical", "partial-fourier"])
def test_other_lines_are_as_many_around_the_same_centre(kind: MaskKind) -> None:
    mask = mask_of(kind)
    first, second = other_lines(mask, 0), other_lines(mask, 1)
    for found in (first, second):
        assert found.shape == mask.shape
        assert found.sum() == mask.sum()
        assert found[centre(mask)].all()
        assert (found != mask).any()
    assert (first != second).any()
    np.testing.assert_array_equal(first, other_lines(mask, 0))


def test_other_lines_follow_the_density() -> None:
    """A side that was left out is left out again, but for what the smoothing lets through."""
    mask = mask_of("partial-fourier", R=2.0, shape=(8, 256))
    empty = np.flatnonzero(mask)[[0, -1]]
    beyond = np.ones(256, dtype=bool)
    beyond[max(0, empty[0] - 32) : empty[1] + 33] = False
    assert beyond.sum() > 30
    assert not any((other_lines(mask, j) & beyond).any() for j in range(5))


def test_nothing_missing_leaves_nothing_to_choose() -> None:
    np.testing.assert_array_equal(other_lines(np.ones(20, dtype=bool), 3), np.ones(20, dtype=bool))
    block = np.zeros(20, dtype=bool)
    block[7:14] = True
    np.testing.assert_array_equal(other_lines(block, 3), block)


def zero_filling(D: DataTerm) -> Tensor:
    return ifft2c(D.z)


def channels(z: Tensor, mask: Tensor, s: Tensor | None) -> DataTerm:
    return Channels(z, mask)


def image(Q: int, shape: tuple[int, int]) -> Tensor:
    return torch.randn(2, Q, *shape, dtype=torch.complex64, generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("kind", ["random", "poisson"])
def test_rescans_are_what_other_lines_make_of_the_image(kind: MaskKind) -> None:
    """Of zero filling x' − x = −F⁻¹(1 − M')F x, in closed form; the same for a mask of every slice of a batch."""
    x, mask = image(3, (45, 120)), torch.from_numpy(mask_of(kind))
    D = Channels(mask * fft2c(x), mask)
    found = rescanned(D, x, channels, zero_filling, K=2)
    lines = [torch.from_numpy(other_lines(mask.numpy(), j)) for j in range(2)]
    lost = [ifft2c(~one * fft2c(x)) for one in lines]
    want = torch.stack([rss(one).square() for one in lost]).mean(dim=0).sqrt()
    torch.testing.assert_close(found.distance, want)
    changed = torch.stack([(rss(x - one) - rss(x)).square() for one in lost]).mean(dim=0).sqrt()
    torch.testing.assert_close(found.changed, changed, atol=1e-5, rtol=1e-4)
    batch = mask.expand(2, 1, 45 if kind == "poisson" else 1, 120)
    again = rescanned(replace(D, mask=batch), x, channels, zero_filling, K=2)
    assert all(torch.equal(a, b) for a, b in zip(again, found, strict=True))


def test_sensitivities_stay_what_they_are() -> None:
    x, mask = image(3, (21, 32)), torch.from_numpy(mask_of("random", shape=(21, 32)))
    s = torch.randn(2, 2, 3, 21, 32, dtype=torch.complex64, generator=torch.Generator().manual_seed(3))
    seen: list[DataTerm] = []

    def solve(D: DataTerm) -> Tensor:
        seen.append(D)
        return ifft2c(D.z)

    rescanned(Coupled(mask * fft2c(x), mask, s), x, channels, solve, K=2)
    assert len(seen) == 2
    for D in seen:
        assert isinstance(D, Coupled)
        assert D.s is s


def test_the_bits_do_not_depend_on_threads() -> None:
    x, mask = image(2, (21, 32)), torch.from_numpy(mask_of("random", shape=(21, 32)))
    D = Channels(mask * fft2c(x), mask)

    def made() -> Rescans:
        return rescanned(D, x, channels, zero_filling)

    several = made()
    with one_thread():
        alone = made()
    assert all(torch.equal(a, b) for a, b in zip(several, alone, strict=True))
