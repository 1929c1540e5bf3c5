"""Arrays as text for a page: quantised, differenced, deflated, base64.

A canvas shows 8 bits. Images keep 12, so that a window of a sixteenth of the range still has 256 greys; the browser
applies window and level to these. What noise leaves takes 1.2 bytes per pixel, half of what floats would.
"""

import base64
import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]

BITS = 12
LEVELS = 2**BITS - 1
BEST, QUICK = 9, 1  # efforts of zlib: for a page that is sent, and for one that waits


@dataclass(frozen=True)
class Packed:
    """value = low + step · q, q whole; text: base64 of what `image` or `change` packed."""

    low: float
    step: float
    text: str

    def as_json(self) -> dict[str, float | str]:
        return {"low": self.low, "step": self.step, "z": self.text}


def image(X: Floats, *, effort: int = BEST) -> Packed:
    """q = round((X − low) / step) in 0 … 4095, as differences of neighbours d, zigzag 2d or −2d − 1, high bytes first.

    Differences of smooth images are small numbers, and their high bytes nearly all 0: that deflates well.
    """
    low, high = min(0.0, float(X.min())), float(X.max())
    step = (high - low) / LEVELS
    q = (
        np.zeros(X.size, np.int32)
        if step == 0
        else np.rint((X.ravel().astype(np.float64) - low) / step).astype(np.int32)
    )
    d = np.diff(q, prepend=0)
    zigzag = np.where(d >= 0, 2 * d, -2 * d - 1)
    planes = np.concatenate((zigzag >> 8, zigzag & 255)).astype(np.uint8)
    return Packed(low, step, _text(planes, effort))


def change(D: Floats, *, effort: int = BEST) -> Packed:
    """Signed 8 bits around 0, q = round(D / step) in −127 … 127: what a sample differs from the mean by."""
    step = float(np.abs(D).max()) / 127
    return Packed(0.0, step, _text(_steps(D.astype(np.float64), step).astype(np.int8).view(np.uint8), effort))


def decades(U: Floats, peak: float, *, below: float, effort: int = BEST) -> Packed:
    """log₁₀(U / peak) in 8 bits, from −below to 0; what is 0 lies at the bottom."""
    logs = np.log10(np.maximum(U.astype(np.float64) / peak, 10.0**-below)) if peak > 0 else np.full(U.shape, -below)
    step = below / 255
    q = np.rint((np.minimum(logs, 0) + below) / step).astype(np.uint8)
    return Packed(-below, step, _text(q, effort))


def raw(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _steps(values: NDArray[np.float64], step: float) -> NDArray[np.float64]:
    return np.rint(values / step) if step > 0 else np.zeros(values.shape)


def _text(data: NDArray[np.uint8], effort: int) -> str:
    return raw(zlib.compress(data.tobytes(), effort))
