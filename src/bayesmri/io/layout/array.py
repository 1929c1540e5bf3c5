"""An array with or without words about it, as k-space."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesmri.errors import DataError, FormatError, ShapeError
from bayesmri.io.acquired import finish
from bayesmri.io.layout.axes import Arranged, arrange, assumed
from bayesmri.io.layout.given import NOTHING, Given
from bayesmri.io.layout.numbers import as_complex
from bayesmri.io.layout.overrule import stored_mask
from bayesmri.io.layout.roles import check_roles, doubts
from bayesmri.io.layout.spectrum import in_kspace
from bayesmri.io.layout.third import check_coils
from bayesmri.kspace import Header, KSpace

BY_NUMBER = {2: ("row", "column"), 3: ("coil", "row", "column"), 4: ("slice", "coil", "row", "column")}


def kspace_of_array(
    array: NDArray[Any],
    *,
    mask: NDArray[Any] | None = None,
    source: str,
    name: str,
    given: Given = NOTHING,
    by_number: dict[int, tuple[str, ...]] = BY_NUMBER,
) -> KSpace:
    """K-space of an array of any numbers and axes. mask: its own. by_number: what its axes are, unless that is said."""
    values, notes = as_complex(array, name=name, error=DataError if source == "array" else FormatError)
    found = checked(arranged(values, given, by_number, certain=False), given)
    pattern = None if mask is None else stored_mask(mask, (found.z.shape[2], found.z.shape[3]))
    return finish(
        found.z, Header(source=source, notes=notes + found.notes, warnings=found.warnings), mask=pattern, given=given
    )


def arranged(
    values: NDArray[np.complex64], given: Given, by_number: dict[int, tuple[str, ...]], *, certain: bool
) -> Arranged:
    """(slices, Q, H, W), by the user's words or else by the number of axes. certain: the format says what they are."""
    if given.axes is not None:
        return arrange(values, given.axes)
    if values.ndim not in by_number:
        known = " or ".join(f"({', '.join(axes)})" for axes in by_number.values())
        raise ShapeError(
            f"got k-space of {values.ndim} axes, {values.shape}, expected {known}; say what each of them is: --axes"
        )
    found = assumed(values, by_number[values.ndim], certain=certain)
    check_roles(values, by_number[values.ndim])
    check_coils(values, by_number[values.ndim])
    return found


def checked(found: Arranged, given: Given) -> Arranged:
    """Centred k-space, made so where the user says that it is not; refused where it seems to be none."""
    z, notes = in_kspace(found.z, given)
    doubt = doubts(z) if given.axes is None else ()
    return replace(found, z=z, notes=found.notes + notes, warnings=found.warnings + doubt)
