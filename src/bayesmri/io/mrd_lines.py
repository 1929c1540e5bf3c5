"""The acquisitions of an MRD file: which lines are imaging data, checked before any sample is read."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from bayesmri.errors import DataError, FormatError
from bayesmri.io.guard import byte_budget, check_bytes
from bayesmri.io.safe_h5 import dataset, where

Ints = NDArray[np.int64]
BATCH = 256  # lines decoded at a time

STEPS = ("kspace_encode_step_1", "kspace_encode_step_2")
COUNTERS = (*STEPS, "average", "slice", "contrast", "phase", "repetition", "set")
SAMPLES = ("number_of_samples", "active_channels", "center_sample", "discard_pre", "discard_post")
INTEGERS = ("flags", "encoding_space_ref", *SAMPLES)
VECTORS = ("position", "read_dir", "phase_dir", "slice_dir")

NOISE, CALIBRATION, CALIBRATION_AND_IMAGING, REVERSE = 19, 20, 21, 22
NOT_IMAGING = {
    "noise": (NOISE,),
    "navigator": (23, 28),  # navigation and real-time feedback
    "phase-correction": (24, 30, 31),  # phase correction and phase stabilization
    "dummy": (26, 27, 29),  # feedback, dummy and surface-coil correction scans
}


@dataclass(frozen=True)
class Lines:
    """One entry per imaging line that is kept, in file order."""

    row: Ints  # index into the file's dataset
    step: Ints
    slice: Ints
    reverse: NDArray[np.bool_]
    center: Ints
    discard_pre: Ints
    discard_post: Ints
    position: NDArray[np.float64]  # (n, 3), LPS millimetres; likewise the directions
    read_dir: NDArray[np.float64]
    phase_dir: NDArray[np.float64]
    slice_dir: NDArray[np.float64]
    samples: int
    channels: int
    notes: tuple[str, ...]


def read_lines(group: Any, *, calibration: str, budget: int | None, reference: bool = False) -> Lines:
    """The table of imaging lines: first repetition, contrast, phase and set; all slices and averages.

    reference: of separate calibration scans instead, of which there must be some.
    """
    data = dataset(group, "data")
    name = where(group, "data")
    _check_dtype(data, name)
    check_bytes(name, data.shape, data.dtype.itemsize, stored=data.id.get_storage_size(), budget=byte_budget(budget))
    head = data.fields("head")[()]
    notes: tuple[str, ...]
    if reference:
        keep, notes = _separate(head, calibration) & (head["encoding_space_ref"] == 0), ()
    else:
        keep, notes = _imaging(head, calibration)
    keep, more = _first_of_each(head, keep)
    if not keep.any():
        raise DataError(f"{name} holds no imaging line: {'; '.join(notes) or 'it is empty'}")
    return _table(head[keep], np.flatnonzero(keep), notes + more)


def samples(group: Any, lines: Lines) -> Iterator[tuple[slice, NDArray[np.complex64]]]:
    """Batches (which lines, complex (n, channels, samples)), the length of each line checked."""
    data = dataset(group, "data").fields("data")
    wanted = 2 * lines.samples * lines.channels
    for start in range(0, len(lines.row), BATCH):
        rows = lines.row[start : start + BATCH]
        # run by run: HDF5 selects scattered rows one by one, and far more slowly
        runs = np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1)
        block = [values for run in runs for values in data[int(run[0]) : int(run[-1]) + 1]]
        for row, values in zip(rows, block, strict=True):
            if np.shape(values) != (wanted,):
                raise FormatError(
                    f"acquisition {row} holds {np.size(values)} numbers: its header says {lines.channels} channels x "
                    f"{lines.samples} samples = {wanted}; the file is damaged"
                )
        values = np.stack(block).astype(np.float32, copy=False).reshape(-1, lines.channels, lines.samples, 2)
        yield slice(start, start + len(rows)), values[..., 0] + 1j * values[..., 1]


def flag(flags: NDArray[np.uint64], bits: tuple[int, ...]) -> NDArray[np.bool_]:
    """Flag number b is bit b − 1."""
    wanted = np.uint64(sum(1 << (bit - 1) for bit in bits))
    found: NDArray[np.bool_] = (flags & wanted) != 0
    return found


def _check_dtype(data: Any, name: str) -> None:
    wrong = FormatError(
        f"{name} is not a table of ISMRMRD acquisitions, expected `head`, `traj` and `data` (float32) for each line"
    )
    fields = data.dtype.names or ()
    if data.ndim != 1 or not {"head", "data"} <= set(fields) or h5py.check_vlen_dtype(data.dtype["data"]) != np.float32:
        raise wrong
    head = data.dtype["head"]
    if not {*INTEGERS, *VECTORS, "idx"} <= set(head.names or ()) or not set(COUNTERS) <= set(head["idx"].names or ()):
        raise wrong
    if any(head[n].kind not in "ui" or head[n].shape for n in INTEGERS):
        raise wrong
    if any(head["idx"][n].kind not in "ui" or head["idx"][n].shape for n in COUNTERS):
        raise wrong
    if any(head[n].base.kind != "f" or head[n].shape != (3,) for n in VECTORS):
        raise wrong


def _imaging(head: NDArray[Any], calibration: str) -> tuple[NDArray[np.bool_], tuple[str, ...]]:
    """Lines of the image; calibration lines too where they fill the same k-space (embedded, interleaved)."""
    flags = head["flags"].astype(np.uint64)
    keep = np.ones(len(head), dtype=bool)
    notes = []
    for kind, bits in NOT_IMAGING.items():
        found = flag(flags, bits) & keep
        keep &= ~found
        if found.any():
            notes.append(f"{kind} scans were skipped ({int(found.sum())} lines)")
    keep &= ~_separate(head, calibration)
    if (flag(flags, (CALIBRATION,)) & ~flag(flags, (CALIBRATION_AND_IMAGING,)) & keep).any():
        notes.append(f"{calibration} calibration lines were used as imaging lines")
    other = (head["encoding_space_ref"] != 0) & keep
    if other.any():
        keep &= ~other
        notes.append(f"further encodings were skipped ({int(other.sum())} lines)")
    return keep, tuple(notes)


def separate_lines(group: Any, *, calibration: str) -> int:
    """How many lines of separate calibration scans there are."""
    return int(_separate(dataset(group, "data").fields("head")[()], calibration).sum())


def _separate(head: NDArray[Any], calibration: str) -> NDArray[np.bool_]:
    """Lines that show the coils only, in k-space of their own."""
    flags = head["flags"].astype(np.uint64)
    only = flag(flags, (CALIBRATION,)) & ~flag(flags, (CALIBRATION_AND_IMAGING,))
    for bits in NOT_IMAGING.values():
        only &= ~flag(flags, bits)
    return only & (calibration not in ("embedded", "interleaved"))


def _first_of_each(head: NDArray[Any], keep: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], tuple[str, ...]]:
    notes = []
    for counter in ("repetition", "contrast", "phase", "set"):
        values = head["idx"][counter]
        present = np.unique(values[keep])
        if len(present) > 1:
            keep = keep & (values == present[0])
            notes.append(f"of {len(present)} values of `{counter}` the first was taken")
    return keep, tuple(notes)


def _table(head: NDArray[Any], rows: Ints, notes: tuple[str, ...]) -> Lines:
    idx = head["idx"]
    if (idx["kspace_encode_step_2"] != 0).any():
        raise FormatError(
            "the MRD file is a 3-D acquisition (kspace_encode_step_2 > 0), expected 2-D slices; "
            "apply the inverse FFT along the second phase encoding first"
        )
    n_averages = len(np.unique(idx["average"]))
    if n_averages > 1:
        notes = (*notes, f"{n_averages} averages were averaged")
    return Lines(
        row=rows,
        step=idx["kspace_encode_step_1"].astype(np.int64),
        slice=idx["slice"].astype(np.int64),
        reverse=flag(head["flags"].astype(np.uint64), (REVERSE,)),
        center=head["center_sample"].astype(np.int64),
        discard_pre=head["discard_pre"].astype(np.int64),
        discard_post=head["discard_post"].astype(np.int64),
        position=head["position"].astype(np.float64),
        read_dir=head["read_dir"].astype(np.float64),
        phase_dir=head["phase_dir"].astype(np.float64),
        slice_dir=head["slice_dir"].astype(np.float64),
        samples=_shared(head["number_of_samples"], "samples"),
        channels=_shared(head["active_channels"], "channels"),
        notes=notes,
    )


def _shared(values: NDArray[Any], what: str) -> int:
    found = np.unique(values)
    if len(found) != 1:
        raise FormatError(
            f"the imaging lines have from {found[0]} to {found[-1]} {what}, expected the same number in every line"
        )
    if found[0] < 1:
        raise DataError(f"the imaging lines have no {what}: there is nothing to reconstruct")
    return int(found[0])
