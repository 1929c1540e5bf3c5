"""Coil sensitivities of the user's own, from BART's `ecalib` (.cfl) or an array (.npy), beside their k-space."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesmri.errors import DataError, FormatError, ShapeError
from bayesmri.io.arrays import read_array
from bayesmri.io.cfl import cfl_pair, read_maps
from bayesmri.io.guard import byte_budget, damaged_as_format_error, one_line, regular_file
from bayesmri.io.map_fit import misfit_warnings
from bayesmri.kspace import KSpace, check_finite

AXES = "(coils, H, W), (sets, coils, H, W) or (slices, sets, coils, H, W)"
MOST_SETS = 4
FAINT = 1e-4  # of the largest: what no coil sees


def read_sensitivities(path: Path, kspace: KSpace) -> KSpace:
    """The k-space with the sensitivities of a file."""
    if cfl_pair(path) is not None:
        return with_sensitivities(kspace, read_maps(path))
    stored = regular_file(path)
    if path.suffix != ".npy":
        raise FormatError(
            f"got sensitivities in {one_line(path.name)}, expected BART's .cfl/.hdr (bart ecalib) or a complex .npy"
        )
    with damaged_as_format_error(path), path.open("rb") as stream:
        array = read_array(stream, one_line(path.name), length=stored, stored=stored, budget=byte_budget(None))
    return with_sensitivities(kspace, array)


def with_sensitivities(kspace: KSpace, array: NDArray[Any]) -> KSpace:
    """The k-space with sensitivities s of (C m)_q = Σ_j s_jq m_j, complex, of one of the shapes in AXES.

    Four axes are (slices, coils, H, W) where the first counts the slices and not sets.
    """
    slices, Q, H, W = kspace.z.shape
    if kspace.header.turned and array.ndim >= 2:  # maps have the rows and columns of the file
        array = array.swapaxes(-1, -2)
    if array.dtype.kind != "c":
        raise DataError(f"got sensitivities of {array.dtype}, expected complex ones")
    wrong = ShapeError(
        f"got sensitivities of shape {array.shape}, expected {AXES} for k-space of {slices} slices of {Q} coils and "
        f"{H}x{W}; make them from this very scan"
    )
    if array.ndim not in (3, 4, 5) or array.shape[-3:] != (Q, H, W):
        raise wrong
    s = array[None, None] if array.ndim == 3 else array
    if s.ndim == 4:
        by_slice = len(s) == slices and (slices > 2 or len(s) == 1)
        s = s[:, None] if by_slice else s[None]
    if len(s) not in (1, slices) or not 1 <= s.shape[1] <= MOST_SETS:
        raise wrong
    check_finite("the sensitivities", s)
    if not np.abs(s).max() > 0:
        raise DataError("got sensitivities that are zero everywhere, expected some coil to see something")
    if Q == 1:
        raise DataError("got sensitivities with k-space of one coil, expected several; leave them out")
    maps = _normalized(s)
    header = replace(kspace.header, warnings=kspace.header.warnings + misfit_warnings(kspace, maps))
    return replace(kspace, sensitivities=maps, header=header)


def _normalized(s: NDArray[np.complexfloating]) -> NDArray[np.complex64]:
    """Σ_q |s_q|² = 1 in every pixel of the first set that any coil sees, and at most 1 in the others.

    A scale of s moves into m, and the steps of a model are made for this one.
    """
    s = np.asarray(s, np.complex128) / np.abs(s).max()
    length = np.sqrt((np.abs(s) ** 2).sum(axis=2, keepdims=True))
    first = length[:, :1]
    s = np.where(first > FAINT, s / np.where(first > FAINT, first, 1), 0)
    longest = np.maximum(1, np.sqrt((np.abs(s) ** 2).sum(axis=2, keepdims=True)))
    unit: NDArray[np.complex64] = (s / longest).astype(np.complex64)
    return unit
