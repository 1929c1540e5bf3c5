"""A mask of the user's own: one value per line of k-space, from a .npy file or from text."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bayesmri.errors import MaskError

MAX_BYTES = 1 << 20  # a mask is one number per line; nothing honest is larger


def read_mask(path: Path) -> NDArray[np.bool_]:
    """bool (W,): lines whose value is not 0 are acquired. Text holds 0s and 1s, separated or not."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise MaskError(f"{path.name} is too large for a mask ({path.stat().st_size} bytes): one value per line")
        values = _npy(path) if path.read_bytes()[:6] == b"\x93NUMPY" else _text(path)
    except OSError as error:
        raise MaskError(
            f"mask {path.name!r} is neither random, equispaced nor a readable file ({error.strerror}): give one"
        ) from error
    mask: NDArray[np.bool_] = np.squeeze(values) != 0
    if mask.ndim != 1 or not mask.any():
        raise MaskError(f"{path.name} holds {values.shape}: want one value per line of k-space, not all of them 0")
    return mask


def _npy(path: Path) -> NDArray[np.generic]:
    try:
        values: NDArray[np.generic] = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise MaskError(f"{path.name} is a damaged .npy file: save the mask again") from error
    if values.dtype.kind not in "biuf" or not np.isfinite(values).all():
        raise MaskError(f"{path.name} holds {values.dtype} values: want finite numbers, 0 for a missing line")
    return values


def _text(path: Path) -> NDArray[np.generic]:
    digits = "".join(path.read_text(encoding="ascii", errors="replace").replace(",", " ").split())
    if not digits or set(digits) - {"0", "1"}:
        raise MaskError(f"{path.name} is neither a .npy file nor text of 0s and 1s: want one value per line of k-space")
    return np.array([digit == "1" for digit in digits])
