"""What an evaluation or a study is made of: models, data, and how it is undersampled and sampled; no torch here."""

import re
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

from bayesmri.bounds.bound import FLOOR, Region, check_level
from bayesmri.config import check_seed
from bayesmri.errors import ConfigError
from bayesmri.recon.request import BASELINES, FAST_SAMPLES
from bayesmri.zoo import AUTO, FOLDER

Track = Literal["single", "multi"]  # every volume as one coil, or as an array
Spread = Literal["std", "error"]  # σ̂ of the draws, or σ_total by the model's head
SAMPLES = 32
COILS = 8  # of simulated arrays in the multi-coil track, unless the study says otherwise
NAME = re.compile(r"[a-z0-9]+(-[a-z0-9.]+)*")
JOIN = "+"  # of the members of an ensemble
ISOTROPIC = "isotropic:"  # before a model: with one variance for all its weights
ERROR = "error:"  # before a model: with its typical error in the place of σ̂


def members_of(text: str) -> list[str]:
    """The models that a text names: one, or the members of an ensemble, a+b+c; a file or folder is never split."""
    return [text] if Path(text).exists() else [part for part in text.split(JOIN) if part]


def prefixed(text: str) -> tuple[str, str]:
    """What stands before the model or models of a text, if anything, and these."""
    start = next((start for start in (ISOTROPIC, ERROR) if text.startswith(start)), "")
    return start, text.removeprefix(start)


def named(text: str) -> str:
    """The text without folders, which may tell more than they should."""
    start, rest = prefixed(text)
    return start + JOIN.join(Path(part).name for part in members_of(rest))


@dataclass(frozen=True, kw_only=True)
class Acquisition:
    """How fully sampled volumes are seen, whatever is then asked of them.

    mask, center_fraction: of the lines. slices: only so many in the middle of every volume, as if it held no others.
    coils, snr_db: simulated for magnitude images. most_coils: where it is more, every array has a number of coils of
        its own between the two, by the file's name. seed: of coils, phase, noise, masks and samples, with that name.
    """

    mask: str = "random"
    center_fraction: float | None = None
    coils: int = 1
    most_coils: int = 0
    snr_db: float | None = 30.0
    slices: int | None = None
    device: str = "cpu"
    seed: int = 0

    def __post_init__(self) -> None:
        check_seed(self.seed)
        if self.slices is not None and self.slices < 1:
            raise ConfigError(f"got {self.slices} slices of every volume, expected at least 1; leave it out for all")

    def scan(self) -> dict[str, Any]:
        """These values alone, to be handed on."""
        return {part.name: getattr(self, part.name) for part in fields(Acquisition)}


@dataclass(frozen=True)
class Request(Acquisition):
    """What a study is made of; None and () stand for the study's own choice.

    models: run folders or models' files. data: a folder or file of fully sampled volumes.
    samples: N of every slice. track: every volume as one coil, or as an array.
    iterations: of a study that searches. errors: show error maps, too.
    level: of calibrated error bounds.
    """

    models: tuple[str, ...]
    data: Path | None = None
    accelerations: tuple[float, ...] = ()
    samples: int | None = None
    iterations: int | None = None
    errors: bool = False
    level: float | None = None
    track: Track | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.samples is not None and self.samples < 2:
            raise ConfigError(
                f"got {self.samples} samples, expected at least 2, such as {SAMPLES}; fewer do not spread"
            )
        if self.level is not None:
            check_level(self.level)
        if self.iterations is not None and self.iterations < 1:
            raise ConfigError(f"got {self.iterations} iterations, expected at least 1; give more, or leave it out")


@dataclass(frozen=True)
class Study(Acquisition):
    """What is compared.

    methods: zero-filled, tv, …; auto, families of shipped models, models (name, run folder or file); all of them.
    samples: N; models with a posterior are judged by the mean of N samples, too.
    single_coil: measured arrays are combined into one emulated coil.
    array: measured k-space of one coil is given a simulated array of that many coils.
    masks: how many are drawn for every volume; one alone moves an undersampled array by several decibels.
    tracks: instead of coils, single_coil and array: every volume as one coil (single), an array (multi), or both.
    """

    data: Path
    methods: tuple[str, ...] = ("zero-filled", "tv")
    accelerations: tuple[float, ...] = (4.0,)
    single_coil: bool = False
    array: bool = False
    tracks: tuple[Track, ...] = ()
    samples: int = 0
    masks: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.masks < 1:
            raise ConfigError(f"got {self.masks} masks for every volume, expected at least 1")
        for name in ("accelerations", "tracks"):
            given = getattr(self, name)
            if len(set(given)) < len(given):
                raise ConfigError(f"got the {name} {', '.join(map(str, given))}, one of them twice; give each once")

    def track(self, track: Track | None) -> "Study":
        """The study of one track alone."""
        if track is None:
            return self
        coils = 1 if track == "single" else self.coils if self.coils > 1 else COILS
        return replace(self, tracks=(), coils=coils, single_coil=track == "single", array=track == "multi")


@dataclass(frozen=True)
class Wanted(Acquisition):
    """A bound to be calibrated.

    acceleration: R, None for the model's own. samples: N, None for 32, or 4 of the fast route.
    region: the pixels that are counted. cap: the largest share of a subject that counts as missed, None by the number
    of subjects. floor: f. by_file: every file is a subject, whatever patient it names.
    track: every volume as one coil (single) or as an array (multi); None takes them as they are.
    relative: the floor is a share of the scan's expected RMS error, which left-out lines tell, not of its maximum.
    of: what is scaled, σ̂ or σ_total; the latter is there without samples, too.
    repeats: of an expected error, every volume is taken so often, with masks, coils and noise of other seeds.
    """

    data: Path
    level: float = 0.9
    acceleration: float | None = None
    samples: int | None = None
    fast: bool = False
    region: Region = "everywhere"
    cap: float | None = None
    floor: float = FLOOR
    by_file: bool = False
    track: Track | None = None
    relative: bool = False
    of: Spread = "std"
    repeats: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_level(self.level)
        if self.repeats < 1:
            raise ConfigError(f"got {self.repeats} repeats of every volume, expected at least 1")
        if self.samples == 0 and (self.of == "std" or self.fast):
            raise ConfigError("got 0 samples, expected at least 2 for bounds of their standard deviation")
        if self.cap is not None and not 1 - self.level <= self.cap <= 1:
            raise ConfigError(
                f"got the cap {self.cap:g} at the level {self.level:g}, expected a share from 1 − level to 1"
            )
        if not 0 < self.floor < 1:
            raise ConfigError(
                f"got the floor {self.floor:g}, expected a share of the maximum above 0 and below 1, such as {FLOOR}"
            )

    @property
    def drawn(self) -> int:
        """N."""
        return (FAST_SAMPLES if self.fast else SAMPLES) if self.samples is None else self.samples

    def request(self, name: str, R: float) -> Request:
        """As studies ask for volumes and their samples."""
        return Request(
            models=(name,),
            data=self.data,
            accelerations=(R,),
            samples=None if self.samples == 0 else self.drawn,
            track=self.track,
            **self.scan(),
        )


@dataclass(frozen=True)
class Publication:
    """What is given away, and what its card says besides the run's own facts.

    run: a run folder or a model's file; one that was published keeps the results, limits and predictor of its card.
    name: of the published model. out: the folder for NAME.json and its weights.
    results: of `bayesmri evaluate` on this model. licence: of training files that do not state their own.
    processor: that it was trained on, in place of what the run says. limits: further sentences for its users.
    force: files of that name may be there, and are overwritten.
    data: its training data, to record how it looks; None keeps what the model records.
    """

    run: str | Path
    name: str
    out: Path = FOLDER
    results: Path | None = None
    licence: str | None = None
    processor: str | None = None
    limits: tuple[str, ...] = ()
    force: bool = False
    data: Path | None = None

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name) or len(self.name) > 64:
            raise ConfigError(
                f"got the name {self.name!r}, expected small letters, digits and dashes, such as tdv-mine"
            )
        if self.name in (AUTO, *BASELINES):
            raise ConfigError(f"the name {self.name} already means something else: give another, such as tdv-mine")


def setting_name(track: Track | None, R: float) -> str:
    """ "single-coil, R = 4", or without a track "R = 4"."""
    return f"{'' if track is None else f'{track}-coil, '}R = {R:g}"
