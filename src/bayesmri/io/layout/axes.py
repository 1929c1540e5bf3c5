"""Axes: an array of any order becomes (slices, Q, H, W)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayesmri.errors import ShapeError
from bayesmri.io.guard import sizes
from bayesmri.io.layout.given import DROPPED, READOUT, ROLES
from bayesmri.io.three_d import slices_of_3d

Complex = NDArray[np.complex64]


@dataclass(frozen=True)
class Arranged:
    """z: complex64 (slices, Q, H, W). notes: what was assumed or left out. warnings: what speaks against it."""

    z: Complex
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def arrange(array: Complex, axes: tuple[str, ...]) -> Arranged:
    """The array with its axes named by the user; of a dropped one the first entry is taken.

    A readout in the place of slices is transformed: see `three_d`.
    """
    if READOUT in axes:
        k = arrange(array, tuple("slice" if axis == READOUT else axis for axis in axes))
        note = f"3-D: the readout of {len(k.z)} was transformed, which makes as many slices of rows and columns"
        return Arranged(slices_of_3d(k.z.swapaxes(0, 1)), (*k.notes, note))
    named = _fitting(array, axes)
    notes = tuple(
        f"of the {n} entries along axis {i} the first was taken, as --axes says"
        for i, (n, axis) in enumerate(zip(named.shape, axes, strict=True))
        if axis == DROPPED and n > 1
    )
    part = named[tuple(0 if axis == DROPPED else slice(None) for axis in axes)]
    kept = [axis for axis in axes if axis != DROPPED]
    present = [role for role in ROLES if role in kept]
    z = part.transpose([kept.index(role) for role in present])
    shape = iter(z.shape)
    full = tuple(next(shape) if role in present else 1 for role in ROLES)
    return Arranged(np.ascontiguousarray(z).reshape(full), notes)


def assumed(array: Complex, axes: tuple[str, ...], *, certain: bool) -> Arranged:
    """The array with the axes of its format; unless that is certain, a note says what they were taken for."""
    found = arrange(array, axes)
    if certain or array.ndim == 2:
        return found
    names = ", ".join(axes)
    note = f"the {array.ndim} axes of {sizes(array.shape)} were taken as ({names}); say it if they are others: --axes"
    return Arranged(found.z, (note, *found.notes))


def _fitting(array: Complex, axes: tuple[str, ...]) -> Complex:
    """With one axis for each name: trailing axes of one entry, then any others of one entry, may be unnamed."""
    shape = list(array.shape)
    while len(shape) > len(axes) and shape[-1] == 1:
        shape.pop()
    if len(shape) > len(axes):
        shape = [n for n in shape if n != 1]
    if len(shape) != len(axes):
        raise ShapeError(
            f"got --axes with {len(axes)} names ({' '.join(axes)}) for an array of {sizes(array.shape)} values, "
            f"expected one name for each of its {array.ndim} axes"
        )
    return array.reshape(shape)
