"""What a reconstruction is asked to do; no torch here, so that the command line can say it before any work."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from bayesmri.analysis.templates import templates
from bayesmri.bounds.bound import check_level
from bayesmri.config import check_seed
from bayesmri.errors import ConfigError

if TYPE_CHECKING:
    from bayesmri.model import Model
    from bayesmri.recon.acquisition import Sampling

MethodName = Literal["zero-filled", "tv", "sense", "l1-wavelet", "bart-l1", "bart-tv"]
MOST_SAMPLES = 4096
BASELINES: tuple[str, ...] = get_args(MethodName)
FAST_SAMPLES = 6  # with the deterministic reconstruction and the predictor, seven times the cost of the first


@dataclass(frozen=True)
class Options:
    """How to reconstruct.

    model: auto, a shipped name, a run folder, a model's file or a loaded model; it takes the place of the method.
    tv_weight: λ of total variation, None for the default.
    coils: compress to that many virtual coils first; None keeps the measured ones.
    single_coil: combine the coils into one emulated coil first.
    full_fov: keep the whole grid where the file asks for a smaller image (readout oversampling).
    samples: N draws of θ from the model's posterior; 0 reconstructs once, at its mean.
    fast: few draws, and the model's own predictor makes of them what many would give; 0 samples are then 6.
    level: of the calibrated error bound; None takes the highest that the model has for such data, if any.
    check: leave measured lines out, and tell the error to be expected from them; four more reconstructions.
    tune: let left-out lines choose ρ and the number of steps for this scan.
    scale: what the data is divided by, such as a result of the same volume records; None takes it from the volume.
        Where it is given, no slice has an influence on another.
    seed: of those draws. keep_samples: keep every sample's image, not only their mean and standard deviation.
    visibility: templates whose visibility is mapped, such as lesion:3:0.3.
    strict: a warning is an error, found before the work where it can be.
    """

    method: MethodName = "tv"
    model: "str | Model | None" = None
    tv_weight: float | None = None
    coils: int | None = None
    single_coil: bool = False
    device: str = "cpu"
    full_fov: bool = False
    scale: float | None = None
    samples: int = 0
    seed: int = 0
    keep_samples: bool = False
    fast: bool = False
    level: float | None = None
    check: bool = False
    tune: bool = False
    visibility: tuple[str, ...] = ()
    strict: bool = False

    def __post_init__(self) -> None:
        templates(self.visibility)
        if self.fast and self.samples == 0:
            object.__setattr__(self, "samples", FAST_SAMPLES)
        if not 0 <= self.samples <= MOST_SAMPLES:
            raise ConfigError(
                f"got {self.samples} samples, expected a whole number from 0 to {MOST_SAMPLES}, such as 32; the error "
                "of their standard deviation falls with 1/√N"
            )
        if self.samples and self.model is None:
            raise ConfigError(
                f"got {self.samples} samples with the method {self.method}, which has no posterior; "
                "give a model with one, or leave the samples out"
            )
        if self.level is not None:
            check_level(self.level)
            if self.model is None:
                raise ConfigError(
                    f"got an error bound at the level {self.level:g} with the method {self.method}, which has none; "
                    "give a model that was calibrated (bayesmri calibrate)"
                )
        if self.tune and (self.fast or self.level is not None):
            raise ConfigError(
                "got a model to be tuned with its fast route or an error bound, which are for its own numbers; leave "
                "one out"
            )
        if self.scale is not None and not 0 < self.scale < float("inf"):
            raise ConfigError(
                f"got the scale {self.scale:g}, expected a positive number, such as the `scale` that a result of the "
                "same volume records"
            )
        if self.tv_weight is not None and (self.model is not None or self.method != "tv"):
            taken = self.method if self.model is None else "a model"
            raise ConfigError(
                f"got a weight of total variation ({self.tv_weight:g}) with {taken}, expected it with tv only; "
                "leave one of them out"
            )
        if self.single_coil and self.coils is not None:
            raise ConfigError(f"{self.coils} virtual coils and a single emulated one were asked for: leave one out")
        if self.keep_samples and not self.samples:
            raise ConfigError("samples are to be kept and none drawn: give their number, such as 32")
        check_seed(self.seed)


def settings(
    options: Options, sampling: "Sampling | None", *, model: str | None, reading: Mapping[str, Any]
) -> dict[str, Any]:
    """As a result records them. model: its name, which takes the place of the method.

    reading: how the file was read, where that is not the default.
    """
    config = {**asdict(replace(options, model=model)), "sampling": None if sampling is None else asdict(sampling)}
    config["visibility"] = [template.text for template in templates(options.visibility)]  # without folders
    if model is not None:
        del config["method"]
    return config | ({"reading": dict(reading)} if reading else {})


def recorded_seed(options: Options, sampling: "Sampling | None") -> int | None:
    """One seed serves the mask and the samples, each deriving its own stream from it; None where nothing is drawn."""
    return options.seed if options.samples else None if sampling is None else sampling.seed


def check_sensitivities(options: Options) -> None:
    """They are of the coils as they were measured."""
    if options.single_coil:
        raise ConfigError("got sensitivities and one emulated coil, expected one of the two; leave the other out")


def check_spread(samples: int) -> int:
    """For files, which hold the samples' standard deviation."""
    if samples == 1:
        raise ConfigError("got 1 sample, which alone has no standard deviation, expected at least 2, or none")
    return samples


@dataclass(frozen=True)
class Trial:
    """What `bench --uncertainty` measures.

    model: a run folder, file or name; None for the first shipped one that has a predictor.

    data: a folder or file; None for the demo's head slice. slices: of every volume. reference: samples of σ_ref.
    """

    model: str | None = None
    data: Path | None = None
    acceleration: float | None = None
    slices: int = 1
    reference: int = 256
    seed: int = 0

    def __post_init__(self) -> None:
        check_seed(self.seed)
        if self.reference < 64:
            raise ConfigError(f"got a reference of {self.reference} samples, expected at least 64, such as 256")
