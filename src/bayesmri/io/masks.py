"""A mask of the user's own: one value per line of k-space, from a .npy file or from text; per point from .npy."""

import io
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from bayesmri.errors import MaskError
from bayesmri.io.arrays import read_array, read_header
from bayesmri.io.guard import one_line
from bayesmri.physics.pattern import MaskKind

MAX_BYTES = 1 << 25  # a mask is one number per line or point; nothing honest is larger

KINDS = ", ".join(get_args(MaskKind))


def read_mask(path: Path) -> NDArray[np.bool_]:
    """bool (W,), or (H, W): lines, or points, whose value is 1 are acquired. Text is of lines, separated or not."""
    name = one_line(path.name)
    try:
        if not path.is_file():  # a pipe would block, a device never ends
            raise MaskError(f"mask {name!r} is neither {KINDS} nor a file: give one")
        if path.stat().st_size > MAX_BYTES:
            raise MaskError(f"{name} is too large for a mask ({path.stat().st_size} bytes): one value per line")
        content = path.read_bytes()
    except (OSError, ValueError) as error:
        raise MaskError(
            f"mask {name!r} is neither {KINDS} nor a readable file ({one_line(error)}): give one"
        ) from error
    values = _npy(content, name) if content.startswith(b"\x93NUMPY") else _text(content, name)
    mask: NDArray[np.bool_] = np.squeeze(values) != 0
    if mask.ndim not in (1, 2) or not mask.any():
        raise MaskError(
            f"{name} holds {values.shape}, expected one value per line or point of k-space, not all of them 0"
        )
    return mask


def _npy(content: bytes, name: str) -> NDArray[Any]:
    try:
        kind = read_header(io.BytesIO(content), name)[2].kind
        values = None
        if kind in "biuf":
            values = read_array(io.BytesIO(content), name, length=len(content), stored=len(content), budget=MAX_BYTES)
    except Exception as error:  # headers are parsed by ast, which raises several unrelated types
        raise MaskError(f"{name} is a damaged .npy file: save the mask again") from error
    if values is None:
        words = {"U": "text", "S": "text", "O": "Python objects", "c": "complex numbers"}.get(kind, "no numbers")
        raise MaskError(f"{name} holds {words}, expected numbers: 1 for an acquired line and 0 for a missing one")
    wrong = values[~np.isin(values, (0, 1))]
    if wrong.size:
        raise MaskError(f"{name} holds the value {wrong[0]:g}, expected 1 for an acquired line and 0 for a missing one")
    return values


def _text(content: bytes, name: str) -> NDArray[Any]:
    digits = "".join(content.decode("ascii", "replace").replace(",", " ").split())
    if not digits or set(digits) - {"0", "1"}:
        raise MaskError(f"{name} is neither a .npy file nor text of 0s and 1s, expected one value per line of k-space")
    return np.array([digit == "1" for digit in digits])
