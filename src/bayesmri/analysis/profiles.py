"""Shapes of small structures, at most 1: a disc, a line, stripes; NumPy alone.

v and u are rows and columns from the centre, in pixels.
"""

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def disc(v: Floats, u: Floats, size: float) -> Floats:
    """2^−(ρ/r)⁴: flat inside, half at the radius, without a sharp edge."""
    return np.asarray(2.0 ** -(((v * v + u * u) / size**2) ** 2))


def line(along: Floats, across: Floats, size: float, half_width: float) -> Floats:
    """2^−((across/w)² + (along/ℓ)⁸): half its height at ±w beside its middle and at ±ℓ along it."""
    return np.asarray(2.0 ** -((across / half_width) ** 2 + (along / size) ** 8))


def stripes(along: Floats, across: Floats, size: float, period: float, shift: float = 0.0) -> Floats:
    """cos(2π along/period + shift) inside a disc."""
    return np.asarray(disc(along, across, size) * np.cos(2 * math.pi * along / period + shift))


def turned(v: Floats, u: Floats, angle: float) -> tuple[Floats, Floats]:
    """Coordinates along a direction and across it; angle: of the direction from upright, in radians."""
    return v * math.cos(angle) - u * math.sin(angle), v * math.sin(angle) + u * math.cos(angle)
