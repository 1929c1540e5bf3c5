"""What a reconstruction is asked to do; no torch here, so that the command line can say it before any work."""

from dataclasses import dataclass
from typing import Literal, get_args

MethodName = Literal["zero-filled", "tv"]
BASELINES: tuple[str, ...] = get_args(MethodName)


@dataclass(frozen=True)
class Options:
    """How to reconstruct.

    model: a run folder or a model's file; it takes the place of the method.
    tv_weight: λ of total variation, None for the default.
    coils: compress to that many virtual coils first; None keeps the measured ones.
    single_coil: combine the coils into one emulated coil first.
    full_fov: keep the whole grid where the file asks for a smaller image (readout oversampling).
    """

    method: MethodName = "tv"
    model: str | None = None
    tv_weight: float | None = None
    coils: int | None = None
    single_coil: bool = False
    device: str = "cpu"
    full_fov: bool = False
