"""Lines onto the grid: averaged where several are at one place, in 3-D transformed along the readout first."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayesmri.io.guard import byte_budget, check_bytes
from bayesmri.io.mrd.grid import Placing, crop_readout
from bayesmri.io.mrd.noise import Whitening
from bayesmri.io.mrd.source import Acquisitions, Ints
from bayesmri.io.mrd.table import Lines, samples
from bayesmri.io.three_d import slices_of_3d
from bayesmri.kspace import check_grid

Complex = NDArray[np.complex64]
Shape = tuple[int, int, int, int]


@dataclass(frozen=True)
class Filled:
    """z: 2-D (slices, Q, H, W), 3-D (slabs · H, Q, W, P). counts: lines at each place, (slices or slabs, W, P).

    first, last: the rows of X that all lines of a place have, like counts; `first` ≥ `last` where there is no line.
    cut: the share of the central lines' energy that was removed with the oversampling of the readout.
    """

    z: Complex
    counts: Ints
    first: Ints
    last: Ints
    cut: float


def shape_of(lines: Lines, placing: Placing, budget: int | None) -> Shape:
    """(slices, Q, rows, columns) of k-space, within the budget of bytes."""
    n, g = len(placing.slices), placing.grid
    shape = (n * g.H, lines.channels, g.W, g.P) if g.three_d else (n, lines.channels, g.H, g.W)
    check_grid(shape, ndim=4, axes="(slices, coils, H, W)")
    held = len(lines.row) * lines.channels * lines.samples * 8
    full = (n, lines.channels, g.X, g.W, g.P)
    check_bytes("the encoded matrix", full, 8, stored=held, budget=byte_budget(budget))
    return shape


def fill(source: Acquisitions, lines: Lines, placing: Placing, shape: Shape, whitening: Whitening | None) -> Filled:
    """Mean over all lines at the same place."""
    g = placing.grid
    z = np.zeros(shape, dtype=np.complex64)
    places = (len(placing.slices), g.W, g.P)
    counts, first, last = (np.full(places, start, dtype=np.int64) for start in (0, 0, g.X))
    central = (np.abs(placing.w - g.W // 2) <= g.W // 16) & (np.abs(placing.p - g.P // 2) <= g.P // 16)
    energy = np.zeros(2)  # of the whole readout, and of what is kept of it
    with np.errstate(over="ignore", invalid="ignore"):  # Inf and NaN pass through to check_finite
        for which, whole, rows in _rows(source, lines, placing, whitening):
            energy += [np.sum(np.abs(part[central[which]]) ** 2, dtype=np.float64) for part in (whole, rows)]
            for s, w, p, row in zip(placing.s[which], placing.w[which], placing.p[which], rows, strict=True):
                if g.three_d:
                    z[s * g.H : (s + 1) * g.H, :, w, p] += row.T
                else:
                    z[s, :, :, w] += row
        at = placing.s, placing.w, placing.p
        np.add.at(counts, at, 1)
        np.maximum.at(first, at, placing.first)
        np.minimum.at(last, at, placing.last)
        _divide(z, counts, placing)
    last[counts == 0] = 0
    known = 0 < energy[0] < np.inf
    return Filled(z, counts, first, last, cut=float(1 - energy[1] / energy[0]) if known else 0.0)


def _divide(z: Complex, counts: Ints, placing: Placing) -> None:
    """By the number of lines at each place, slice by slice."""
    g = placing.grid
    if counts.max() == 1:
        return
    n = np.maximum(counts, 1).astype(np.float32)
    for i, part in enumerate(z):
        part /= n[i // g.H] if g.three_d else n[i, :, 0]


def _rows(
    source: Acquisitions, lines: Lines, placing: Placing, whitening: Whitening | None
) -> Iterator[tuple[slice, Complex, Complex]]:
    """(which lines, k-space (n, Q, X), (n, Q, H)): in 2-D k-space of the rows kept, in 3-D those rows themselves."""
    g = placing.grid
    for which, data in samples(source, lines):
        mixed = data if whitening is None else whitening.apply(data)
        grid = np.zeros((*mixed.shape[:2], g.X), dtype=np.complex64)
        for i, line in enumerate(range(which.start, which.stop)):
            start, first, last = (int(v[line]) for v in (placing.start, placing.first, placing.last))
            line_of = mixed[i, :, ::-1] if lines.reverse[line] else mixed[i]
            grid[i, :, first:last] = line_of[:, first - start : last - start]
        if g.three_d:  # (n, Q, X) is (Q, X, n, 1) of one batch of points (ky, kz)
            yield which, grid, slices_of_3d(grid.transpose(1, 2, 0)[..., None], keep=g.H)[..., 0].transpose(2, 1, 0)
        else:
            yield which, grid, grid if g.H == g.X else crop_readout(grid, g.H)
