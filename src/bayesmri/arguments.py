"""What Python callers may give: numbers of any kind, whatever NumPy makes an array of; one line where it is neither."""

import operator
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesmri.errors import ConfigError, DataError, ShapeError
from bayesmri.io.guard import one_line
from bayesmri.kspace import Header, Images, check_finite


def as_images(array: NDArray[Any]) -> Images:
    if array.dtype.kind not in "buif" or array.ndim not in (2, 3):
        raise ShapeError(
            f"got images of shape {array.shape} and type {array.dtype}, expected real numbers (slices, H, W) or (H, W)"
        )
    magnitude = np.ascontiguousarray(array.reshape(-1, *array.shape[-2:]), dtype=np.float32)
    images = Images(magnitude, Header(source="array"))
    check_finite("the images", magnitude)
    if magnitude.min() < 0:
        raise DataError(f"got images with values down to {magnitude.min():g}, expected magnitudes of at least 0")
    return images


def as_array(name: str, value: ArrayLike) -> NDArray[Any]:
    """Whatever NumPy makes an array of."""
    try:
        return np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:  # ragged lists; tensors on a GPU or with gradients
        raise ShapeError(f"{name} is no array ({one_line(error, limit=120)}), expected one of equal rows") from error


def texts(name: str, values: Sequence[str]) -> tuple[str, ...]:
    """A list of texts; one text alone is no list."""
    if isinstance(values, str) or not all(isinstance(value, str) for value in values):
        raise ConfigError(f"got {name} {one_line(repr(values), limit=60)}, expected a list of texts")
    return tuple(values)


def whole(name: str, value: object) -> int:
    """Any integer type, NumPy's too; neither 1.5 nor "3"."""
    try:
        return operator.index(cast(Any, value))
    except TypeError as error:
        raise ConfigError(f"got {name} {one_line(repr(value), limit=60)}, expected a whole number") from error


def number(name: str, value: object) -> float | None:
    """Any real number; None stays."""
    if value is None:
        return None
    try:
        if isinstance(value, str | bytes):
            raise TypeError("text")
        return float(cast(Any, value))
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(f"got {name} {one_line(repr(value), limit=60)}, expected a number") from error
