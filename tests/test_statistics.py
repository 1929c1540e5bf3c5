"""Streaming moments equal those of all values at once, in any grouping, and lose no digits."""

import weakref
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from bayesmri.complexes import rss
from bayesmri.errors import DataError, ShapeError
from bayesmri.physics.fourier import fft2c
from bayesmri.statistics import Moments, Summary, summarize

KINDS = [torch.float32, torch.float64, torch.complex64, torch.complex128]


def values(n: int, dtype: torch.dtype, shape: tuple[int, ...] = (3, 5, 4)) -> Tensor:
    return torch.randn((n, *shape), dtype=dtype, generator=torch.Generator().manual_seed(n))


def streamed(v: Tensor) -> Moments:
    moments = Moments.of(v[0])
    for value in v[1:]:
        moments = moments.add(value)
    return moments


def wide(v: Tensor) -> Tensor:
    return v.to(torch.complex128 if v.is_complex() else torch.float64)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("n", [1, 2, 7, 32])
def test_streaming_equals_all_at_once(n: int, dtype: torch.dtype) -> None:
    """torch.std of complex values takes |·|² too."""
    v = values(n, dtype)
    moments = streamed(v)
    assert moments.n == n
    torch.testing.assert_close(moments.mean, wide(v).mean(dim=0), rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(moments.std(), wide(v).std(dim=0, unbiased=False), rtol=1e-12, atol=1e-14)
    assert moments.std().dtype == torch.float64


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
@pytest.mark.parametrize("cut", [1, 4, 8])
def test_two_parts_merge_into_the_whole(cut: int, dtype: torch.dtype) -> None:
    v = values(9, dtype)
    whole = streamed(v)
    for merged in (streamed(v[:cut]).merge(streamed(v[cut:])), streamed(v[cut:]).merge(streamed(v[:cut]))):
        assert merged.n == 9
        torch.testing.assert_close(merged.mean, whole.mean, rtol=1e-13, atol=1e-14)
        torch.testing.assert_close(merged.std(), whole.std(), rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("offset", [1e6, 1e6 * (1 - 1j)])
def test_a_large_offset_swallows_no_deviation(offset: complex) -> None:
    """Deviations of 1 around 10⁶ and of 10⁻³ around 10⁶: the sum of squares in float32 would find nothing."""
    small = 1e-3 * values(50, torch.complex128 if isinstance(offset, complex) else torch.float64)
    moments = streamed(small + offset)
    torch.testing.assert_close(moments.std(), small.std(dim=0, unbiased=False), rtol=1e-6, atol=0)
    v = (values(50, small.to(torch.complex64 if small.is_complex() else torch.float32).dtype) + offset).contiguous()
    torch.testing.assert_close(streamed(v).std(), wide(v).std(dim=0, unbiased=False), rtol=1e-10, atol=0)


def test_equal_values_have_no_deviation() -> None:
    v = values(1, torch.complex64)[0]
    assert torch.equal(streamed(torch.stack([v] * 5)).std(), torch.zeros(v.shape, dtype=torch.float64))


def test_adding_leaves_the_old_moments() -> None:
    v = values(2, torch.float32)
    one = Moments.of(v[0])
    one.add(v[1])
    assert one.n == 1
    assert torch.equal(one.mean, v[0].double())
    assert not one.spread.any()


def test_unlike_values_are_refused() -> None:
    moments = Moments.of(torch.ones(3, 4))
    with pytest.raises(ShapeError, match="same kind"):
        moments.add(torch.ones(4))  # would broadcast
    with pytest.raises(ShapeError, match="same kind"):
        moments.add(torch.ones(3, 4, dtype=torch.complex64))


@pytest.mark.parametrize(("Q", "shape"), [(1, (8, 9)), (3, (7, 10))])
def test_a_summary_is_of_images_coils_and_kspace(Q: int, shape: tuple[int, int]) -> None:
    x = values(6, torch.complex128, (Q, *shape))
    summary = summarize(iter(x))
    torch.testing.assert_close(summary.X.mean, rss(x).mean(dim=0))
    torch.testing.assert_close(summary.X.std(), rss(x).std(dim=0, unbiased=False))
    torch.testing.assert_close(summary.x.mean, x.mean(dim=0))
    torch.testing.assert_close(summary.x.std(), x.std(dim=0, unbiased=False))
    torch.testing.assert_close(summary.u.mean, fft2c(x.mean(dim=0)))  # F is linear
    torch.testing.assert_close(summary.u.std(), fft2c(x).std(dim=0, unbiased=False))
    torch.testing.assert_close(summary.u.spread.sum(), summary.x.spread.sum())  # F is unitary
    assert (summary.X.mean > rss(summary.x.mean)).all()  # the mean of the RSS is not the RSS of the mean


def test_summaries_merge() -> None:
    x = values(5, torch.complex64, (2, 6, 5))
    whole, merged = summarize(x), summarize(x[:2]).merge(summarize(x[2:]))
    for part in ("X", "x", "u"):
        a: Moments = getattr(whole, part)
        b: Moments = getattr(merged, part)
        assert a.n == b.n == 5
        torch.testing.assert_close(a.mean, b.mean)
        torch.testing.assert_close(a.std(), b.std())


def test_samples_are_not_held() -> None:
    """Memory does not grow with N: while one sample is made, at most the one before is still alive."""
    alive: list[weakref.ref[Tensor]] = []
    most = 0

    def samples() -> Iterator[Tensor]:
        nonlocal most
        for i in range(20):
            most = max(most, sum(ref() is not None for ref in alive))
            x = values(1, torch.complex128, (1, 8, 8))[0] + i
            alive.append(weakref.ref(x))
            yield x

    assert summarize(samples()).X.n == 20
    assert most <= 2


def test_one_sample_summarizes_to_itself_and_none_is_refused() -> None:
    x = values(1, torch.complex64, (2, 6, 5))[0]
    assert torch.equal(Summary.of(x).x.mean, x.to(torch.complex128))
    with pytest.raises(DataError, match="no samples"):
        summarize([])
