"""What an evaluation or a study is made of: models, data, and how it is undersampled and sampled; no torch here."""

from dataclasses import dataclass
from pathlib import Path

from bayesmri.bounds.bound import check_level
from bayesmri.config import check_seed
from bayesmri.errors import ConfigError
from bayesmri.evaluation.tracks import Track

SAMPLES = 32
JOIN = "+"  # of the members of an ensemble
ISOTROPIC = "isotropic:"  # before a model: with one variance for all its weights


def members_of(text: str) -> list[str]:
    """The models that a text names: one, or the members of an ensemble, a+b+c; a file or folder is never split."""
    return [text] if Path(text).exists() else [part for part in text.split(JOIN) if part]


def named(text: str) -> str:
    """The text without folders, which may tell more than they should."""
    start = ISOTROPIC if text.startswith(ISOTROPIC) else ""
    return start + JOIN.join(Path(part).name for part in members_of(text.removeprefix(start)))


@dataclass(frozen=True)
class Request:
    """What a study is made of; None and () stand for the study's own choice.

    models: run folders or models' files. data: a folder or file of fully sampled volumes.
    slices: only so many middle slices of every volume. samples: N of every slice.
    coils, most_coils, snr_db: simulated for magnitude images. track: every volume as one coil, or as an array.
    iterations: of a study that searches. errors: show error maps, too.
    level: of calibrated error bounds.
    """

    models: tuple[str, ...]
    data: Path | None = None
    accelerations: tuple[float, ...] = ()
    samples: int | None = None
    slices: int | None = None
    mask: str = "random"
    center_fraction: float | None = None
    coils: int = 1
    snr_db: float | None = 30.0
    device: str = "cpu"
    seed: int = 0
    iterations: int | None = None
    errors: bool = False
    level: float | None = None
    track: Track | None = None
    most_coils: int = 0

    def __post_init__(self) -> None:
        check_seed(self.seed)
        if self.slices is not None and self.slices < 1:
            raise ConfigError(f"{self.slices} slices of every volume: want at least 1, or leave it out for all")
        if self.samples is not None and self.samples < 2:
            raise ConfigError(f"{self.samples} samples: want at least 2, such as {SAMPLES}; fewer do not spread")
        if self.level is not None:
            check_level(self.level)
        if self.iterations is not None and self.iterations < 1:
            raise ConfigError(f"{self.iterations} iterations: want at least 1, or leave it out")
