"""The acquisitions of an MRD file: the table of their headers, checked before any sample is read."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesmri.errors import DataError, FormatError
from bayesmri.io.mrd.choice import REVERSE, Choice, chosen, flag, imaging, nearest, separate
from bayesmri.io.mrd.source import Acquisitions, Ints
from bayesmri.messages import Messages, noted

BATCH = 256  # lines decoded at a time


@dataclass(frozen=True)
class Lines:
    """One entry per line that is kept, in file order."""

    row: Ints  # index into the file's dataset
    step: Ints
    step_2: Ints
    slice: Ints
    average: Ints
    reverse: NDArray[np.bool_]
    center: Ints
    discard_pre: Ints
    discard_post: Ints
    dwell_us: NDArray[np.float64]  # time of a sample; 0 where the file is silent
    position: NDArray[np.float64]  # (n, 3), LPS millimetres; likewise the directions
    read_dir: NDArray[np.float64]
    phase_dir: NDArray[np.float64]
    slice_dir: NDArray[np.float64]
    samples: int
    channels: int
    said: Messages


def imaging_lines(source: Acquisitions, *, calibration: str, choice: Choice) -> Lines:
    """The lines of one repetition, contrast, phase and set; all slices and averages."""
    head = source.head
    keep, said = imaging(head, calibration)
    if not keep.any():
        told = "; ".join(said.notes) or ("noise alone" if len(head) else "it is empty")
        raise DataError(f"{source.name} holds no imaging line: {told}")
    keep, more = chosen(head, keep, choice)
    if not keep.any():  # counters that exist, and not together
        raise DataError(f"{source.name} holds no line of {choice.given} together; choose others")
    return table(head, keep, said + more)


def reference_lines(source: Acquisitions, *, calibration: str, choice: Choice) -> Lines:
    """Those of separate calibration scans, of which there must be some; of the same choice, or their first."""
    head = source.head
    keep = separate(head, calibration) & (head["encoding_space_ref"] == 0)
    if not keep.any():
        raise DataError("separate calibration scans are of another encoding")
    keep, _ = chosen(head, keep, nearest(choice, head, keep))
    return table(head, keep, Messages())


def samples(source: Acquisitions, lines: Lines) -> Iterator[tuple[slice, NDArray[np.complex64]]]:
    """Batches (which lines, complex (n, channels, samples)), the length of each line checked."""
    wanted = 2 * lines.samples * lines.channels
    for start in range(0, len(lines.row), BATCH):
        rows = lines.row[start : start + BATCH]
        block = source.samples(rows)
        for row, values in zip(rows, block, strict=True):
            if np.shape(values) != (wanted,):
                raise FormatError(
                    f"acquisition {row} holds {np.size(values)} numbers: its header says {lines.channels} channels x "
                    f"{lines.samples} samples = {wanted}; the file is damaged"
                )
        values = np.stack(block).astype(np.float32, copy=False).reshape(-1, lines.channels, lines.samples, 2)
        yield slice(start, start + len(rows)), values[..., 0] + 1j * values[..., 1]


def table(head: NDArray[Any], keep: NDArray[np.bool_], said: Messages) -> Lines:
    """The lines kept; they must be alike in samples and channels."""
    rows, head = np.flatnonzero(keep), head[keep]
    idx = head["idx"]
    n_averages = len(np.unique(idx["average"]))
    if n_averages > 1:
        said += noted(f"{n_averages} averages were averaged")
    dwell = head["sample_time_us"] if "sample_time_us" in (head.dtype.names or ()) else np.zeros(len(head))
    return Lines(
        row=rows,
        step=idx["kspace_encode_step_1"].astype(np.int64),
        step_2=idx["kspace_encode_step_2"].astype(np.int64),
        slice=idx["slice"].astype(np.int64),
        average=idx["average"].astype(np.int64),
        reverse=flag(head["flags"].astype(np.uint64), (REVERSE,)),
        center=head["center_sample"].astype(np.int64),
        discard_pre=head["discard_pre"].astype(np.int64),
        discard_post=head["discard_post"].astype(np.int64),
        dwell_us=np.nan_to_num(dwell.astype(np.float64), posinf=0, neginf=0),
        position=head["position"].astype(np.float64),
        read_dir=head["read_dir"].astype(np.float64),
        phase_dir=head["phase_dir"].astype(np.float64),
        slice_dir=head["slice_dir"].astype(np.float64),
        samples=_shared(head["number_of_samples"], "samples"),
        channels=_shared(head["active_channels"], "channels"),
        said=said,
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
