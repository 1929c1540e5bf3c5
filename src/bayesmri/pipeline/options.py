"""What a reconstruction is asked to do; no torch here, so that the command line can say it before any work."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from bayesmri.errors import ConfigError

if TYPE_CHECKING:
    from bayesmri.model import Model

MethodName = Literal["zero-filled", "tv", "l1-wavelet"]
BASELINES: tuple[str, ...] = get_args(MethodName)


@dataclass(frozen=True)
class Options:
    """How to reconstruct.

    model: auto, a shipped name, a run folder, a model's file or a loaded model; it takes the place of the method.
    tv_weight: λ of total variation, None for the default.
    coils: compress to that many virtual coils first; None keeps the measured ones.
    single_coil: combine the coils into one emulated coil first.
    full_fov: keep the whole grid where the file asks for a smaller image (readout oversampling).
    samples: N draws of θ from the model's posterior; 0 reconstructs once, at its mean.
    seed: of those draws. keep_samples: keep every sample's image, not only their mean and standard deviation.
    """

    method: MethodName = "tv"
    model: "str | Model | None" = None
    tv_weight: float | None = None
    coils: int | None = None
    single_coil: bool = False
    device: str = "cpu"
    full_fov: bool = False
    samples: int = 0
    seed: int = 0
    keep_samples: bool = False

    def __post_init__(self) -> None:
        if self.samples < 0:
            raise ConfigError(f"{self.samples} samples: want a whole number of at least 0, such as 32")
        if self.samples and self.model is None:
            raise ConfigError(
                f"{self.samples} samples came with the method {self.method}, which has no posterior: "
                "give a model with one, or leave the samples out"
            )
        if self.keep_samples and not self.samples:
            raise ConfigError("samples are to be kept and none drawn: give their number, such as 32")
        check_seed(self.seed)


def check_seed(seed: int) -> int:
    if not 0 <= seed < 2**63:
        raise ConfigError(f"seed {seed}: want a whole number from 0 to 2^63 − 1")
    return seed
