"""What a reconstruction is asked to do; no torch here, so that the command line can say it before any work."""

from dataclasses import dataclass
from typing import Literal

MethodName = Literal["zero-filled", "tv"]


@dataclass(frozen=True)
class Options:
    """How to reconstruct.

    tv_weight: λ of total variation, None for the default.
    coils: compress to that many virtual coils first; None keeps the measured ones.
    full_fov: keep the whole grid where the file asks for a smaller image (readout oversampling).
    """

    method: MethodName = "tv"
    tv_weight: float | None = None
    coils: int | None = None
    device: str = "cpu"
    full_fov: bool = False
