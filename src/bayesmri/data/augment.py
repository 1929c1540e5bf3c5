"""Variety for training: flips, quarter turns, intensity, size, and windows of rows and columns."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import interpolate, pad

from bayesmri.errors import ConfigError


@dataclass(frozen=True)
class Augment:
    """The paper uses none of these; measured and magnitude slices both take flips and turns, magnitude ones the rest.

    gamma: X ← X^γ with log γ uniform between the two ends.
    resize: magnitude images are resampled by a factor between the two ends.
    jitter: z and Y are multiplied by a factor between 1 − jitter and 1, as if the volume had a brighter slice.
    """

    flip: bool = False
    turn: bool = False
    gamma: tuple[float, float] = (1.0, 1.0)
    resize: tuple[float, float] = (1.0, 1.0)
    jitter: float = 0.0

    def __post_init__(self) -> None:
        for name in ("gamma", "resize"):
            low, high = getattr(self, name)
            if not 0 < low <= high:
                raise ConfigError(
                    f"got augment.{name} = [{low}, {high}], expected two positive numbers, the smaller first"
                )
        if not 0 <= self.jitter < 1:
            raise ConfigError(f"got augment.jitter = {self.jitter}, expected a share of at least 0 and below 1")


def uniform(ends: tuple[float, float], rng: torch.Generator) -> float:
    low, high = ends
    return low + (high - low) * float(torch.rand(1, generator=rng))


def _log_uniform(ends: tuple[float, float], rng: torch.Generator) -> float:
    return math.exp(uniform((math.log(ends[0]), math.log(ends[1])), rng))


def turn_and_flip(y: Tensor, how: Augment, rng: torch.Generator) -> Tensor:
    """One of the 8 symmetries of the square (or fewer), (..., H, W)."""
    flips = torch.randint(2, (3,), generator=rng)
    if how.flip:
        y = y.flip([dim for dim, flip in ((-2, flips[0]), (-1, flips[1])) if flip])
    return y.transpose(-2, -1) if how.turn and flips[2] else y


def vary(X: Tensor, how: Augment, rng: torch.Generator) -> Tensor:
    """Another size and intensity of a magnitude image (H, W) with values in [0, 1]."""
    factor, gamma = (_log_uniform(ends, rng) for ends in (how.resize, how.gamma))
    if factor != 1:
        size = [max(16, round(n * factor)) for n in X.shape]
        X = interpolate(X[None, None], size=size, mode="bilinear", antialias=True, align_corners=False)[0, 0]
    return X if gamma == 1 else X.clamp_min(0) ** gamma


def window(n: int, size: int | None, rng: torch.Generator) -> tuple[int, int]:
    """(first, size) of a window of an axis of length n; a first below 0 asks for padding. None is the whole axis."""
    draw = float(torch.rand(1, generator=rng))  # drawn always, so that later draws do not depend on sizes
    if size is None or size == n:
        return 0, n
    if size > n:
        return -((size - n) // 2), size
    return min(n - size, int(draw * (n - size + 1))), size


def cut(y: Tensor, dim: int, first: int, size: int) -> Tensor:
    """y[first : first + size] along the axis −1 or −2, zero outside."""
    n = y.shape[dim]
    before, after = max(0, -first), max(0, first + size - n)
    y = y.narrow(dim, max(0, first), min(n, first + size) - max(0, first))
    if before == after == 0:
        return y
    return pad(y, (before, after) if dim == -1 else (0, 0, before, after))
