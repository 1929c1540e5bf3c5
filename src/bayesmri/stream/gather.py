"""Lines as they arrive, gathered by image; tells which images are complete.

An image has one slice (or all of them, where a volume was asked for), contrast, phase, repetition and set. It is
complete with its line flagged LAST_IN_SLICE; where lines carry no such flags, with all lines that the header announces;
when a later repetition of the same slice begins; with LAST_IN_MEASUREMENT, and when the client closes. Some scanners
flag every echo of the last train: what ends by flags or numbers has ended when a line of another image or none follows.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesmri.errors import DataError
from bayesmri.io.ismrmrd_xml import Encoding
from bayesmri.io.mrd.choice import (
    CALIBRATION,
    CALIBRATION_AND_IMAGING,
    NOISE,
    NOT_IMAGING,
    SHARED,
    Choice,
)
from bayesmri.io.mrd.source import Floats, Ints
from bayesmri.messages import Messages, warned
from bayesmri.stream.layout import ACQUISITION_HEAD
from bayesmri.stream.messages import NO_COORDINATES, Line

FIRST_IN_SLICE, LAST_IN_SLICE, LAST_IN_MEASUREMENT = 7, 8, 25
EVERY_SLICE = -1
MOST_OPEN = 20_000  # images under way
Numbered = tuple[int, Line]  # in the order of arrival


@dataclass(frozen=True)
class Key:
    """Which image. slice: EVERY_SLICE for a volume."""

    slice: int
    contrast: int
    phase: int
    repetition: int
    set: int

    @property
    def place(self) -> tuple[int, int, int, int]:
        """What its repetitions have in common."""
        return self.slice, self.contrast, self.phase, self.set

    def choice(self, *, prewhiten: bool) -> Choice:
        return Choice(self.repetition, self.contrast, self.phase, self.set, prewhiten)

    def __str__(self) -> str:
        """ "slice 3, repetition 1"."""
        place = "the volume" if self.slice == EVERY_SLICE else f"slice {self.slice}"
        others = {name: getattr(self, name) for name in ("contrast", "phase", "repetition", "set")}
        return ", ".join([place, *(f"{name} {value}" for name, value in others.items() if value)])


@dataclass(frozen=True, eq=False)
class Received:
    """Acquisitions as `sort_lines` takes them."""

    lines: tuple[Line, ...]
    head: NDArray[Any]
    name: str = "the stream"

    @staticmethod
    def of(lines: tuple[Line, ...]) -> "Received":
        return Received(lines, np.frombuffer(b"".join(line.head for line in lines), ACQUISITION_HEAD))

    def samples(self, rows: Ints) -> list[Floats]:
        return [self.lines[row].numbers for row in rows]

    def coordinates(self, row: int) -> Floats:
        return self.lines[row].coordinates


@dataclass(frozen=True, eq=False)
class Complete:
    """One image's lines, with the noise and calibration scans that go with them. freed: bytes that it gives back."""

    key: Key
    source: Received
    said: Messages
    freed: int


@dataclass
class _Open:
    """Lines of one image so far. places: how many lines there are at each (step 1, step 2).

    imaging: those that are no navigators and the like. flagged: with a first line. ended: with a last one.
    """

    lines: list[Numbered] = field(default_factory=list)
    places: dict[tuple[int, int], int] = field(default_factory=dict)
    imaging: int = 0
    flagged: bool = False
    ended: bool = False


class Gatherer:
    """whole: all slices together, at the end."""

    def __init__(self, encoding: Encoding, *, whole: bool = False) -> None:
        self.whole = whole
        self.shared = encoding.calibration in SHARED
        self.averages = encoding.limits.get("average", (0, 0))[1]
        steps, partitions = (encoding.limits.get(f"kspace_encoding_step_{i}") for i in (1, 2))
        self.three_d = encoding.matrix is not None and encoding.matrix[2] > 1 and partitions != (0, 0)
        self.expected = 0 if steps is None or (self.three_d and partitions is None) else _n(steps) * _n(partitions)
        self.count = 0
        self.shed = 0  # bytes of lines that were not kept
        self.noise: list[Numbered] = []
        self.calibration: dict[tuple[int, Key], list[Numbered]] = {}  # by slice and counters
        self.open: dict[Key, _Open] = {}
        self.repeated: dict[tuple[int, int, int, int], set[Key]] = {}  # those that are open, by their places
        self.ending: set[Key] = set()
        self.done: set[Key] = set()

    def add(self, line: Line) -> list[Complete]:
        """The images that are complete with this line."""
        head, flags = line.record, int(line.record["flags"])
        self.count += 1
        entry = (self.count, line)
        if _flag(flags, NOISE):
            self.noise.append(entry)
            return []
        key = self._key(head)
        separate = _flag(flags, CALIBRATION) and not _flag(flags, CALIBRATION_AND_IMAGING) and not self.shared
        if int(head["encoding_space_ref"]) or any(_flag(flags, bit) for bits in NOT_IMAGING.values() for bit in bits):
            # nothing is made of its samples; that it was there is said
            bare = Line(line.head, NO_COORDINATES, NO_COORDINATES)
            self.shed += line.nbytes - bare.nbytes
            self._opened(key).lines.append((self.count, bare))
            self._measured(flags)
            return []
        if separate:
            self.calibration.setdefault((int(head["idx"]["slice"]), key), []).append(entry)
            self._measured(flags)
            return []
        made = [self._complete(other) for other in dict.fromkeys([*self._earlier(key), *self._ended_before(key)])]
        held = self._opened(key)
        held.lines.append(entry)
        held.imaging += 1
        held.flagged |= _flag(flags, FIRST_IN_SLICE)
        place = (int(head["idx"]["kspace_encode_step_1"]), int(head["idx"]["kspace_encode_step_2"]))
        held.places[place] = held.places.get(place, 0) + 1
        if self._is_last(held, flags, int(head["idx"]["average"])):
            held.ended = True
            self.ending.add(key)
        self._measured(flags)
        return made

    def flush(self) -> list[Complete]:
        """What has ended, since nothing more of it has come."""
        return [self._complete(key) for key in sorted(self.ending, key=lambda key: self.open[key].lines[-1][0])]

    def rest(self) -> list[Complete]:
        """What is left when no more will come; groups without a line of an image are none."""
        ended = self.flush()
        return ended + [self._complete(key) for key, held in list(self.open.items()) if held.imaging]

    def _key(self, head: Any) -> Key:
        idx = head["idx"]
        place = EVERY_SLICE if self.whole else int(idx["slice"])
        return Key(place, *(int(idx[name]) for name in ("contrast", "phase", "repetition", "set")))

    def _opened(self, key: Key) -> _Open:
        if key not in self.open:
            if len(self.open) >= MOST_OPEN:
                raise DataError(
                    f"got lines of more than {MOST_OPEN} images of which none is complete; send fewer at once"
                )
            self.open[key] = _Open()
            self.repeated.setdefault(key.place, set()).add(key)
        return self.open[key]

    def _earlier(self, key: Key) -> Iterator[Key]:
        """Images of the same slice whose repetition is over, since this one has begun."""
        if self.whole or key in self.open:
            return
        for other in list(self.repeated.get(key.place, ())):
            if other.repetition < key.repetition and self.open[other].imaging:
                yield other

    def _ended_before(self, key: Key) -> list[Key]:
        return [other for other in self.ending if other != key]

    def _is_last(self, held: _Open, flags: int, average: int) -> bool:
        """By its flags, or where there are none by its lines. Some scanners flag every partition: in 3-D by lines."""
        if self.whole:
            return False
        last = _flag(flags, LAST_IN_SLICE) and average >= self.averages and not self.three_d
        if last or (held.flagged and not self.three_d):
            return last
        enough = self.expected > 0 and len(held.places) >= self.expected
        return enough and min(held.places.values()) > self.averages

    def _measured(self, flags: int) -> None:
        if _flag(flags, LAST_IN_MEASUREMENT):
            self.ending |= {key for key, held in self.open.items() if held.imaging}

    def _complete(self, key: Key) -> Complete:
        held = self.open.pop(key)
        self.repeated[key.place].discard(key)
        self.ending.discard(key)
        said = Messages()
        if held.flagged and not held.ended and not (self.whole or self.three_d):
            said += warned(f"the line that ends {key} (LAST_IN_SLICE) never came: lines may be missing")
        if key in self.done:
            said += warned(
                f"{key} was complete before by its flags or the limits of the header, and this image is of lines that "
                "came later alone"
            )
        self.done.add(key)
        coils, freed = self._calibration_of(key)
        lines = sorted([*self.noise, *coils, *held.lines], key=lambda entry: entry[0])
        freed += sum(line.nbytes for _, line in held.lines)
        return Complete(key, Received.of(tuple(line for _, line in lines)), said, freed)

    def _calibration_of(self, key: Key) -> tuple[list[Numbered], int]:
        """Those of the image's own slice and counters, and the first of that slice; bytes that no other will want.

        The first stay: images with none of their own, such as later repetitions, take them.
        """
        of_slice: dict[int, list[Key]] = {}
        for place, counters in self.calibration:
            if key.slice in (EVERY_SLICE, place):
                of_slice.setdefault(place, []).append(counters)
        found: list[Numbered] = []
        freed = 0
        for place, all_counters in of_slice.items():
            found += self.calibration[place, all_counters[0]]
            if key in all_counters[1:]:
                own = self.calibration.pop((place, key))
                found += own
                freed += sum(line.nbytes for _, line in own)
        return found, freed


def _flag(flags: int, bit: int) -> bool:
    """Flag number b is bit b − 1."""
    return bool(flags >> (bit - 1) & 1)


def _n(limits: tuple[int, int] | None) -> int:
    return 1 if limits is None else limits[1] - limits[0] + 1
