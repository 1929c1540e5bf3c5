"""Complex numbers however they are stored: any precision and byte order, pairs of reals, integers."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesmri.errors import BayesMRIError, FormatError
from bayesmri.io.guard import one_line

PAIRS = (("real", "imag"), ("r", "i"), ("re", "im"))


def pair_names(dtype: np.dtype[Any]) -> tuple[str, str] | None:
    """The two fields of a record that is a complex number; None where it is none."""
    fields = dtype.names or ()
    plain = all(dtype[name].kind in "iuf" and dtype[name].shape == () for name in fields)
    return next(((a, b) for a, b in PAIRS if fields == (a, b) and plain), None)


def is_number(dtype: np.dtype[Any]) -> bool:
    """Whether `as_complex` may take it, which then depends on the shape for real numbers."""
    return dtype.kind in "iufc" or pair_names(dtype) is not None


def as_complex(
    array: NDArray[Any], *, name: str, error: type[BayesMRIError] = FormatError
) -> tuple[NDArray[np.complex64], tuple[str, ...]]:
    """complex64 and notes: complex numbers, records of two fields, or real numbers with a last axis (real, imag)."""
    fields = pair_names(array.dtype)
    with np.errstate(over="ignore", invalid="ignore"):  # an overflow becomes Inf, which check_finite reports
        if fields is not None:
            return _joined(array[fields[0]], array[fields[1]]), ()
        if array.dtype.kind == "c":
            return np.ascontiguousarray(array, dtype=np.complex64), ()
        if array.dtype.kind in "iuf" and array.ndim >= 3 and array.shape[-1] == 2:
            note = "the last axis, of 2 real numbers, was taken as real and imaginary part"
            return _joined(array[..., 0], array[..., 1]), (note,)
    raise error(
        f"got {name} of {one_line(array.dtype, limit=60)}, expected complex k-space, re + 1j * im or real and "
        f"imaginary parts along a last axis of 2 (its shape is {array.shape}); magnitude images are read from NIfTI, "
        "DICOM or an `image` HDF5"
    )


def _joined(real: NDArray[Any], imag: NDArray[Any]) -> NDArray[np.complex64]:
    out = np.empty(real.shape, dtype=np.complex64)
    out.real, out.imag = real, imag
    return out
