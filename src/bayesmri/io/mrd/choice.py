"""Which of an MRD file's lines make the image: by flags and counters, and by what the user chose."""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesmri.errors import ConfigError
from bayesmri.io.guard import one_line
from bayesmri.messages import Messages, noted, warned

Bools = NDArray[np.bool_]

NOISE, CALIBRATION, CALIBRATION_AND_IMAGING, REVERSE = 19, 20, 21, 22
PHASE_CORRECTION = (24, 30, 31)  # phase correction and phase stabilization
NOT_IMAGING = {
    "noise": (NOISE,),
    "navigator": (23, 28),  # navigation and real-time feedback
    "phase-correction": PHASE_CORRECTION,
    "dummy": (26, 27, 29),  # feedback, dummy and surface-coil correction scans
}
SHARED = ("embedded", "interleaved")  # calibration modes whose lines lie in the k-space of the image


@dataclass(frozen=True)
class Choice:
    """Which image of an MRD file: by the file's own counters, from 0; None takes the first that there is.

    prewhiten: decorrelate the coils with the file's noise scans, where it has any.
    """

    repetition: int | None = None
    contrast: int | None = None
    phase: int | None = None
    set: int | None = None
    prewhiten: bool = True

    @property
    def given(self) -> dict[str, int]:
        """The counters that were chosen, by their names."""
        return {name: value for name in COUNTED if (value := getattr(self, name)) is not None}

    def refused(self, kind: str) -> None:
        """Of a file that has no such counters."""
        for name, value in self.given.items():
            raise ConfigError(
                f"got the {name} {value} for {kind}, expected it with ISMRMRD/MRD files only, whose lines carry one; "
                "leave it out"
            )


COUNTED = tuple(part.name for part in fields(Choice) if part.name != "prewhiten")
FIRST = Choice()


def flag(flags: NDArray[np.uint64], bits: tuple[int, ...]) -> Bools:
    """Flag number b is bit b − 1."""
    wanted = np.uint64(sum(1 << (bit - 1) for bit in bits))
    found: Bools = (flags & wanted) != 0
    return found


def imaging(head: NDArray[Any], calibration: str) -> tuple[Bools, Messages]:
    """Lines of the image; calibration lines too where they fill the same k-space (embedded, interleaved)."""
    flags = head["flags"].astype(np.uint64)
    keep = np.ones(len(head), dtype=bool)
    said = Messages()
    for kind, bits in NOT_IMAGING.items():
        found = flag(flags, bits) & keep
        keep &= ~found
        if found.any() and kind != "noise":  # of which `noise.py` speaks
            said += noted(f"{kind} scans were skipped ({int(found.sum())} lines)")
    keep &= ~separate(head, calibration)
    only = flag(flags, (CALIBRATION,)) & ~flag(flags, (CALIBRATION_AND_IMAGING,)) & keep
    if only.any():
        said += noted(f"{calibration or 'embedded'} calibration lines were used as imaging lines")
    other = (head["encoding_space_ref"] != 0) & keep
    if other.any():
        keep &= ~other
        said += noted(f"further encodings were skipped ({int(other.sum())} lines)")
    reverse = flag(flags, (REVERSE,)) & keep
    if reverse.any() and not reverse[keep].all():
        corrected = flag(flags, PHASE_CORRECTION).any()
        said += warned(
            f"{int(reverse.sum())} of {int(keep.sum())} lines were read out backwards and turned round; echoes of the "
            f"two directions may differ in phase{', which the phase-correction lines tell' if corrected else ''}, and "
            "that is not corrected: expect ghosts"
        )
    return keep, said


def separate(head: NDArray[Any], calibration: str) -> Bools:
    """Lines that show the coils only, in k-space of their own."""
    flags = head["flags"].astype(np.uint64)
    both = flag(flags, (CALIBRATION_AND_IMAGING,))
    only = flag(flags, (CALIBRATION,)) & ~both
    for bits in NOT_IMAGING.values():
        only &= ~flag(flags, bits)
    # a silent header, and lines that serve both: those that only calibrate lie between them
    shared = calibration in SHARED or (not calibration and bool(both.any()))
    return only & (not shared)


def chosen(head: NDArray[Any], keep: Bools, choice: Choice) -> tuple[Bools, Messages]:
    """Of the lines kept those of one repetition, contrast, phase and set; which others there are is said."""
    said = Messages()
    for counter in COUNTED:
        values = head["idx"][counter]
        present = np.unique(values[keep])
        wanted = getattr(choice, counter)
        if wanted is not None and wanted not in present:
            raise ConfigError(f"got the {counter} {wanted}, expected {_range(present)}, which the file holds")
        if len(present) > 1:
            taken = int(present[0]) if wanted is None else wanted
            keep = keep & (values == taken)
            more = "" if wanted is not None else f"; --{counter} takes another"
            said += noted(f"of {len(present)} values of `{counter}` ({_range(present)}) {taken} was taken{more}")
    return keep, said


def nearest(choice: Choice, head: NDArray[Any], keep: Bools) -> Choice:
    """The same choice for calibration scans, which need not have every counter of the image: then their first."""
    for counter, value in choice.given.items():
        if not (head["idx"][counter][keep] == value).any():
            choice = _without(choice, counter)
    return choice


def _without(choice: Choice, counter: str) -> Choice:
    changes: dict[str, Any] = {counter: None}
    return replace(choice, **changes)


def _range(present: NDArray[Any]) -> str:
    """ "0", "0 to 3", "0, 2, 5"."""
    if len(present) == 0:
        return "lines of an image, of which there are none"
    if len(present) == 1:
        return str(present[0])
    if present[-1] - present[0] == len(present) - 1:
        return f"{present[0]} to {present[-1]}"
    return one_line(", ".join(str(n) for n in present), limit=60)
