"""What there is to train on: volumes found in files and folders, or drawn as phantoms, split by subject."""

import fnmatch
import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from bayesmri.data.phantom import Anatomy
from bayesmri.errors import BayesMRIError, ConfigError, DataError
from bayesmri.io.formats import read, sniff, volume_paths
from bayesmri.io.safe_h5 import dataset, names, open_h5, text_attribute
from bayesmri.kspace import Header, KSpace, check_grid

LAYOUTS = {"fastmri": "kspace", "images-h5": "image"}  # formats of which one slice can be read
Split = Literal["both", "train", "val"]


@dataclass(frozen=True)
class SourceConfig:
    """One place that volumes come from: a file or folder (`path`), or phantoms (`phantom`).

    weight: the share of training elements drawn from it, relative to the other sources.
    split: both, divided by subject; train or val, all of it on one side.
    count, size: of phantoms, how many subjects and their (H, W). first: the number of the first; a phantom is
        a function of its number, so that others than those of training are had with another first.
    """

    path: str | None = None
    phantom: Anatomy | None = None
    weight: float = 1.0
    split: Split = "both"
    count: int = 32
    size: tuple[int, int] = (256, 256)
    first: int = 0

    def __post_init__(self) -> None:
        if (self.path is None) == (self.phantom is None):
            raise ConfigError(
                "got a data source with both a path and a phantom (knee, head, leaves), or neither, expected one"
            )
        if not (self.weight >= 0 and math.isfinite(self.weight)):
            raise ConfigError(f"got a data source of weight {self.weight}, expected a number of at least 0")


@dataclass(frozen=True)
class Volume:
    """One volume, not yet read.

    coils: 0 for magnitude images, which carry none.
    layout: the dataset's name for HDF5 files that are read slice by slice, "" for others.
    """

    source: int
    name: str
    subject: str
    slices: int
    shape: tuple[int, int]
    coils: int
    path: Path | None = None
    layout: str = ""
    nbytes: int = 0


@dataclass(frozen=True)
class Catalog:
    """All volumes, on their side of the split; notes: files left out, and why."""

    train: tuple[Volume, ...]
    val: tuple[Volume, ...]
    notes: tuple[str, ...] = field(default=())


def find(sources: Sequence[SourceConfig], *, val_fraction: float, val_subjects: Sequence[str] = ()) -> Catalog:
    """Every volume of every source, each subject wholly in training or wholly in validation.

    val_fraction: share of the subjects of `both` sources that validate, on average: a hash of each one's name decides,
        so that adding files does not move the others. Above 0 at least one validates and, of several, one trains.
    val_subjects: patterns (`*Figure 8B*`) of subjects that validate besides.
    """
    notes: list[str] = []
    by_split: dict[Split, list[Volume]] = {"both": [], "train": [], "val": []}
    for index, source in enumerate(sources):
        found = _phantoms(index, source) if source.phantom else _files(index, source, notes)
        by_split[source.split].extend(found)
    fixed = {v.subject for v in by_split["val"]}
    held = _held_out({v.subject for v in by_split["both"]}, val_fraction, val_subjects) | fixed
    everything = [v for volumes in by_split.values() for v in volumes]
    return Catalog(
        train=tuple(v for v in everything if v.subject not in held),
        val=tuple(v for v in everything if v.subject in held),
        notes=tuple(notes),
    )


def _held_out(subjects: set[str], fraction: float, patterns: Sequence[str]) -> set[str]:
    """{s : hash(s) < fraction}, and those that a pattern names.

    Where that is nobody the lowest hash validates; where it is everybody the highest trains.
    """
    for pattern in patterns:
        if not fnmatch.filter(subjects, pattern):
            known = ", ".join(sorted(subjects)[:8])
            raise ConfigError(
                f"got data.val_subjects = {pattern!r}, which matches no subject, expected one of {known}"
                f"{', …' if len(subjects) > 8 else ''}; patterns are as *Figure 8B*"
            )
    named = {s for s in subjects if any(fnmatch.fnmatchcase(s, p) for p in patterns)}
    if fraction <= 0:
        return named
    ranked = sorted(subjects - named, key=_hash)
    below = [s for s in ranked if _hash(s) < fraction] or ([] if named else ranked[:1])
    everybody = len(named) + len(below) == len(subjects) > 1
    return named | set(below[:-1] if everybody else below)


def _hash(subject: str) -> float:
    """A number in [0, 1) that depends on the name alone, and looks uniform over names."""
    return int.from_bytes(hashlib.sha256(subject.encode()).digest()[:6], "big") / 2**48


def _phantoms(index: int, source: SourceConfig) -> list[Volume]:
    H, W = source.size
    kind = str(source.phantom)
    return [
        Volume(index, f"{kind} phantom {n}", f"{kind} phantom {n}", 1, (H, W), 0, nbytes=2 * H * W)
        for n in range(source.first, source.first + source.count)
    ]


def _files(index: int, source: SourceConfig, notes: list[str]) -> list[Volume]:
    path = Path(str(source.path)).expanduser()
    if not path.exists():
        raise DataError(f"data source {source.path} does not exist: download the data or correct data.sources.path")
    if path.is_file():
        return [probe(path, index)]
    volumes = []
    for candidate in volume_paths(path):
        try:
            volumes.append(probe(candidate, index))
        except BayesMRIError as error:
            notes.append(f"{candidate.name} left out: {error}")
    if not volumes:
        reason = f" ({notes[-1]})" if notes else ""
        raise DataError(f"data source {source.path} holds no file that can be trained on{reason}")
    return volumes


def probe(path: Path, source: int = 0) -> Volume:
    """Sizes and subject of one volume; where one slice can be read alone, nothing but the header is read."""
    kind = sniff(path)
    if kind in LAYOUTS:
        return _probe_h5(path, LAYOUTS[kind], source)
    data = read(path)
    subject = data.header.patient_id or path.stem
    if isinstance(data, KSpace):
        _check_full(path, data.fully_sampled)
        slices, coils, H, W = data.z.shape
        return Volume(source, path.name, subject, slices, (H, W), coils, path, "", data.z.nbytes)
    slices, H, W = data.magnitude.shape
    return Volume(source, path.name, subject, slices, (H, W), 0, path, "", 2 * slices * H * W)


def subject_of(path: Path, header: Header) -> str:
    """Who was scanned, as `probe` says, of a file that was read already.

    The patient or subject that the file names; where it names none the file itself, by its name without the ending.
    """
    if sniff(path) not in LAYOUTS:
        return header.patient_id or path.stem
    with open_h5(path) as file:
        return _subject(file, path)


def _subject(file: Any, path: Path) -> str:
    """By `patient_id`, as fastMRI has it, or `subject`, of which a reader's header knows but one."""
    return text_attribute(file, "patient_id") or text_attribute(file, "subject") or path.stem


def _probe_h5(path: Path, layout: str, source: int) -> Volume:
    wanted = (3, 4) if layout == "kspace" else (3,)
    with open_h5(path) as file:
        data = dataset(file, layout)
        if data.ndim not in wanted:
            axes = " or ".join(map(str, wanted))
            raise DataError(f"`{layout}` in {path.name} has shape {data.shape}, expected {axes} axes")
        if "mask" in names(file):
            _check_full(path, bool(dataset(file, "mask")[()].all()))
        subject = _subject(file, path)
        coils = 0 if layout == "image" else 1 if data.ndim == 3 else data.shape[1]
        check_grid(data.shape, ndim=data.ndim, axes="(slices, coils, H, W)" if data.ndim == 4 else "(slices, H, W)")
        size = data.size * (8 if layout == "kspace" else 2)
        return Volume(source, path.name, subject, data.shape[0], tuple(data.shape[-2:]), coils, path, layout, size)


def _check_full(path: Path, full: bool) -> None:
    if not full:
        raise DataError(f"{path.name} is undersampled, expected fully sampled k-space or magnitude images for training")
