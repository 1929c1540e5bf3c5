"""The encoded extent: zero padding at both edges of k-space told from partial Fourier and from missing lines."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayesmri.errors import DataError
from bayesmri.kspace import MIN_SIZE
from bayesmri.physics.pattern import centre_run, kind_of

Bool = NDArray[np.bool_]

SURE, LIKELY = 0.01, 0.05  # how likely an accident may be for lines to count as padding; the latter if rows are padded


@dataclass(frozen=True)
class Extent:
    """One axis: the encoded part [start, stop) of n, and how its empty edges are to be understood.

    note: in words, "" where no edge is empty. complete: no line is missing but for padding.
    """

    start: int
    stop: int
    n: int
    note: str = ""
    complete: bool = True

    @property
    def padded(self) -> bool:
        return self.stop - self.start < self.n


def slack(n: int) -> int:
    """By how many lines the zero padding of one edge may exceed that of the other, and what is too little to matter."""
    return max(2, n // 32)


def extent(held: Bool, *, lines: str = "columns", edges: tuple[str, str] = ("left", "right"), near: int = 0) -> Extent:
    """Of lines that hold signal, bool (n,).

    Empty lines at both edges that are no accident of the sampling are zero padding; what one edge lacks beyond the
    other is partial Fourier. The zero frequency n // 2 stays the centre.

    near: the size of the other axis, where that is padded: likely that of this one.
    """
    n, there = len(held), np.flatnonzero(held)
    if not len(there):
        raise DataError("k-space holds no acquired line: every column is zero")
    left, right = int(there[0]), n - 1 - int(there[-1])
    gap = int(np.diff(there).max(initial=1)) - 1
    words = f"{left} empty {lines} at the {edges[0]} and {right} at the {edges[1]} edge of k-space"
    one_sided = abs(left - right) > slack(n) + gap
    complete = gap == 0 and not one_sided
    if left + right == 0 or (gap == 0 and left + right <= slack(n)):
        return Extent(0, n, n, complete=gap == 0)
    chance = accident(held, left, right, gap)
    start, stop = _centred(there, n, gap, near) if chance < (LIKELY if near else SURE) else (0, n)
    if stop - start < n:
        kind = "zero padding and partial Fourier" if one_sided else "zero padding"
        note = f"{words} were taken as {kind}: {stop - start} of {n} {lines} were encoded"
        return Extent(start, stop, n, note, complete)
    if gap == 0:
        return Extent(0, n, n, f"{words} were taken as {'partial Fourier' if one_sided else 'zero padding'}", complete)
    doubt = f"{words} may be zero padding, which would make R smaller; they were taken as lines that were not acquired"
    return Extent(0, n, n, doubt if chance < LIKELY else "", complete)


def accident(held: Bool, left: int, right: int, gap: int) -> float:
    """How likely sampling alone leaves both edges empty: lines outside the centre drawn at random, or equispaced ones.

    Without gaps that is no sampling at all, beyond what one edge may have more than the other.
    """
    n, both = len(held), min(left, right)
    if gap == 0:
        return 0.0 if both > slack(n) or abs(left - right) <= slack(n) else 1.0
    if kind_of(held) == "equispaced":
        return 0.0 if both > gap else 1.0
    outer, room = int(held.sum()) - centre_run(held), n - centre_run(held)
    return max(0.0, 1 - 2 * both / max(1, room)) ** outer if both > slack(n) else 1.0


def _centred(there: NDArray[np.int64], n: int, gap: int, near: int) -> tuple[int, int]:
    """The smallest extent around n // 2 with all lines in it; by a usual gap wider at each edge if that is rounder."""
    before, after = n // 2 - int(there[0]), int(there[-1]) - n // 2
    least = max(2 * before, 2 * after + 1, 2 * MIN_SIZE)
    gaps = np.diff(there)[np.diff(there) > 1] - 1
    usual = round(float(np.median(gaps))) if gap else 0
    sizes = range(least, min(n, least + 2 * usual) + 1)
    if not sizes:
        return 0, n
    size = near if near in sizes else max(sizes, key=lambda m: (m & -m, -m)) if gap else least
    start = n // 2 - size // 2
    return (start, start + size) if start >= 0 and start + size <= n else (0, n)


def lacks(held: Bool, wanted: Bool) -> bool:
    """Whether wanted columns are empty in another way than zero padding, which is about as wide at both edges.

    The padding of an edge ends somewhere between the last wanted column that is empty and the first that is not.
    """
    missing, there = wanted & ~held, np.flatnonzero(held)
    first, last = int(there[0]), int(there[-1])
    if missing[first:last].any():
        return True
    left = _end(missing[:first]), first
    right = _end(missing[:last:-1]), len(held) - 1 - last
    return max(left[0] - right[1], right[0] - left[1]) > slack(len(held))


def _end(missing: Bool) -> int:
    """How many entries there are up to the last True."""
    return int(np.flatnonzero(missing).max(initial=-1)) + 1
