"""Streaming mean and standard deviation, safe for complex numbers; memory does not grow with the number of samples."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import final

import torch
from torch import Tensor

from bayesmri.complexes import rss
from bayesmri.errors import DataError, ShapeError
from bayesmri.physics.fourier import fft2c

BLOCK = 8  # samples; part of what a result is: another number gives other last bits


@final
@dataclass(frozen=True, eq=False)
class Moments:
    """Mean and spread of the values seen so far; a value itself: adding gives new moments and leaves the old.

        v̄ = (1/n) Σ_i v_i,   spread = Σ_i |v_i − v̄|²,   σ = (spread / n)^{1/2}

    The spread is updated around the running mean (Welford; Chan, Golub and LeVeque) in double precision, so that a
    large offset does not swallow a small deviation.

    mean: float64 or complex128. spread: float64.
    """

    n: int
    mean: Tensor
    spread: Tensor

    @staticmethod
    def of(v: Tensor) -> "Moments":
        """The moments of one value."""
        mean = v.to(torch.complex128 if v.is_complex() else torch.float64)
        return Moments(1, mean, torch.zeros(v.shape, dtype=torch.float64, device=v.device))

    def add(self, v: Tensor) -> "Moments":
        """The moments with one value more."""
        return self.merge(Moments.of(v))

    def merge(self, other: "Moments") -> "Moments":
        """The moments of both sets of values together:

        v̄ = a̅ + (n_b/n) δ,   spread = spread_a + spread_b + (n_a n_b/n) |δ|²,   δ = b̅ − a̅,   n = n_a + n_b
        """
        if self.mean.shape != other.mean.shape or self.mean.dtype != other.mean.dtype:
            raise ShapeError(
                f"got moments of {self.mean.dtype} {tuple(self.mean.shape)} and {other.mean.dtype} "
                f"{tuple(other.mean.shape)}, expected the same kind of value in both"
            )
        n = self.n + other.n
        delta = other.mean - self.mean
        mean = self.mean + delta * (other.n / n)
        return Moments(n, mean, self.spread + other.spread + _power(delta) * (self.n * other.n / n))

    def std(self) -> Tensor:
        """σ_j = ((1/n) Σ_i |v_{i,j} − v̄_j|²)^{1/2}, float64; 1/n as in the paper."""
        return (self.spread / self.n).sqrt()


@final
@dataclass(frozen=True, eq=False)
class Summary:
    """What is kept of the samples of one slice: the moments of

    X: their root-sum-of-squares images (H, W), whose mean is the output (eq. 12): not the RSS of the mean.
    x: the complex coil images (Q, H, W).
    u: their k-space F x (Q, H, W).
    """

    X: Moments
    x: Moments
    u: Moments

    @staticmethod
    def of(x: Tensor) -> "Summary":
        """One sample's coil images, complex (Q, H, W)."""
        return Summary(Moments.of(rss(x)), Moments.of(x), Moments.of(fft2c(x)))

    def merge(self, other: "Summary") -> "Summary":
        return Summary(self.X.merge(other.X), self.x.merge(other.x), self.u.merge(other.u))


def blocks(N: int) -> list[range]:
    """0 … N − 1 in parts of BLOCK: what is summed apart, whoever does it."""
    return [range(first, min(N, first + BLOCK)) for first in range(0, N, BLOCK)]


def merged(parts: Iterable[Summary]) -> Summary:
    """The summary of all parts together, one after the other."""
    summary: Summary | None = None
    for part in parts:
        summary = part if summary is None else summary.merge(part)
    if summary is None:
        raise DataError("got no samples, expected at least one for a mean")
    return summary


def summarize(samples: Iterable[Tensor]) -> Summary:
    """The summary of all samples, complex (Q, H, W) each, holding one of them at a time.

    Summed by `blocks` of their order, so that blocks summed elsewhere give the same bits.
    """
    given = iter(samples)
    return merged(merged(map(Summary.of, block)) for block in _blocks_of(given))


def _blocks_of(samples: Iterator[Tensor]) -> Iterator[Iterator[Tensor]]:
    for first in samples:
        yield chain([first], islice(samples, BLOCK - 1))


def _power(v: Tensor) -> Tensor:
    """|v|², without the square root that abs() would take."""
    return v.real.square() + v.imag.square() if v.is_complex() else v.square()
