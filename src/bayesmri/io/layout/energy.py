"""Signal or rounding noise: decided by energy, for lines by a gap between them, for points by a valley."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Real = NDArray[np.float64]
Bool = NDArray[np.bool_]

FAINT = 1e-4  # of the largest amplitude: rounding of single precision lies at 1e-9 to 1e-5, scanners' noise above
GAP = 1.5  # decades without any line between rounding noise and the faintest acquired one
VALLEY, BIN = 1.0, 0.25  # decades without points, but for some of Rayleigh's lower tail
TAIL = 0.002  # of the points
MODE = 0.02  # of the points, at least, on each side of the valley
BRIGHT, HOLES = 4.0, 0.1  # quanta around a zero that was not rounded; share of such points that are no accident
QUANTUM, WHOLE = 0.05, 16.5  # of the values, at least, are 1 to 16 times the smallest: stored as integers


@dataclass(frozen=True)
class Held:
    """Which rows, columns and points hold more than rounding noise.

    rows (H,), columns (W,), points (H, W). floor: the amplitude of the rounding noise over that of the rest, along
    columns and rows, 0 where there is none or it is exactly zero. quantised: zeros are values that were rounded.
    """

    rows: Bool
    columns: Bool
    points: Bool
    column_floor: float
    row_floor: float
    quantised: bool = False


@dataclass(frozen=True)
class Power:
    """|z|² of a volume, summed over slices and coils (H, W), over rows (slices, Q, W).

    slices: its root over coils alone, the amplitude of each slice (slices, H, W).
    """

    points: Real
    lines: Real
    slices: NDArray[np.float32]


def power(z: NDArray[np.complex64]) -> Power:
    """Slice by slice, to bound the memory."""
    lines, slices = np.zeros((*z.shape[:2], z.shape[3])), np.zeros((len(z), *z.shape[2:]), np.float32)
    points = np.zeros(z.shape[2:])
    for s, part in enumerate(z):
        p = part.real.astype(np.float64) ** 2 + part.imag.astype(np.float64) ** 2
        p.sum(axis=1, out=lines[s])
        of_slice = p.sum(axis=0)
        points += of_slice
        slices[s] = np.sqrt(of_slice)
    return Power(points, lines, slices)


def held(p: Real, *, coarse: bool = False) -> Held:
    """Of the power (H, W) of a volume. coarse: its values are quantised, zeros may be rounded ones."""
    columns, column_floor = held_lines(np.sqrt(p.sum(axis=0)))
    rows, row_floor = held_lines(np.sqrt(p.sum(axis=1)))
    points = (p > 0) & columns & rows[:, None]
    inside = points[rows][:, columns]
    if coarse:
        points = columns & rows[:, None]
    elif inside.any():
        points &= np.sqrt(p) > point_threshold(np.sqrt(p[points]))
    return Held(rows, columns, points, column_floor, row_floor, coarse)


def held_lines(amplitude: Real) -> tuple[Bool, float]:
    """(lines above the rounding noise, that noise over the median of the lines above it).

    Rounding noise is faint and a gap lies above it: signal, which falls off towards the edges of k-space, has lines of
    every amplitude down to its own noise.
    """
    found = amplitude > 0
    ordered = np.sort(amplitude[found])
    if len(ordered) < 2:
        return found, 0.0
    gaps = np.diff(np.log10(ordered))
    gaps[ordered[:-1] > FAINT * ordered[-1]] = 0
    k = int(gaps.argmax())
    if gaps[k] < GAP:
        return found, 0.0
    above: Bool = amplitude > np.sqrt(ordered[k] * ordered[k + 1])
    return above, float(np.median(ordered[: k + 1]) / np.median(ordered[k + 1 :]))


def point_threshold(amplitude: Real) -> float:
    """Between the points of rounding noise and those of signal, of amplitudes > 0; 0 where there are not both."""
    values = np.log10(np.sort(amplitude))
    if len(values) < 64 or values[0] > values[-1] + np.log10(FAINT):
        return 0.0
    edges = np.arange(values[0], values[-1] + np.log10(FAINT), BIN)
    below = np.searchsorted(values, edges) / len(values)
    for i, low in enumerate(edges):
        j = int(np.searchsorted(edges, low + VALLEY))
        if MODE <= below[i] <= 1 - MODE and j < len(edges) and below[j] - below[i] <= TAIL:
            return float(10 ** (low + VALLEY / 2))
    return 0.0


def quantised(z: NDArray[np.complex64]) -> bool:
    """Whether the values are small whole multiples of one number, as integers are: then zeros are rounded values.

    Judged by the middle slice of z (slices, Q, H, W).
    """
    parts = np.abs(z[len(z) // 2].view(np.float32)).ravel()
    parts = parts[parts > 0]
    if not len(parts):
        return False
    steps = parts[parts < WHOLE * parts.min()] / parts.min()
    return len(steps) > QUANTUM * len(parts) and bool(np.abs(steps - np.round(steps)).max() < 1e-3)


def punctured(z: NDArray[np.complex64], p: Real) -> bool:
    """Whether zeros lie among values too large to be rounded to zero: points that were not acquired.

    Of integers z (slices, Q, H, W) with the power p (H, W). Rows and columns that are empty everywhere do not count.
    """
    parts = np.abs(z[len(z) // 2].view(np.float32))
    quantum = float(parts[parts > 0].min(initial=np.inf))
    box = p[p.any(axis=1)][:, p.any(axis=0)]
    there = box > 0
    around = _around(np.sqrt(box)) / np.maximum(_around(there.astype(np.float64)), 1)
    bright = around > BRIGHT * quantum * np.sqrt(2 * z.shape[0] * z.shape[1])
    return bool((bright & ~there).sum() > HOLES * max(1, int(bright.sum())))


def _around(a: Real) -> Real:
    """Sums of 5 x 5 neighbours."""
    wide = np.pad(a, 2)
    H, W = a.shape
    rows = sum((wide[i : i + H] for i in range(1, 5)), wide[:H])
    return np.asarray(sum((rows[:, i : i + W] for i in range(1, 5)), rows[:, :W]))
