"""A file as the messages that a scanner would send: header and lines."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesmri.errors import FormatError
from bayesmri.io.apart.reading import reading
from bayesmri.io.formats import read_kspace, sniff
from bayesmri.io.guard import byte_budget, check_bytes, one_line
from bayesmri.io.mrd.read import mrd_group
from bayesmri.io.mrd.source import Stored
from bayesmri.io.safe_h5 import member, open_h5, read_text
from bayesmri.io.write_header import fastmri_header
from bayesmri.kspace import KSpace
from bayesmri.stream.layout import ACQUISITION_HEAD
from bayesmri.stream.messages import NO_COORDINATES, Line

FIRST_IN_SLICE, LAST_IN_SLICE = 1 << 6, 1 << 7


@dataclass(frozen=True, eq=False)
class Recording:
    """heads: uint8 (lines, 340). numbers, coordinates: of all lines one after the other; ends: where each ends."""

    xml: str
    heads: NDArray[np.uint8]
    numbers: NDArray[np.float32]
    number_ends: NDArray[np.int64]
    coordinates: NDArray[np.float32]
    coordinate_ends: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.heads)

    def lines(self) -> Iterator[Line]:
        number = coordinate = 0
        ends = zip(self.number_ends, self.coordinate_ends, strict=True)
        for head, (to_number, to_coordinate) in zip(self.heads, ends, strict=True):
            along = self.coordinates[coordinate:to_coordinate] if to_coordinate > coordinate else NO_COORDINATES
            yield Line(head.tobytes(), self.numbers[number:to_number], along)
            number, coordinate = int(to_number), int(to_coordinate)


def read_recording(path: Path, *, trusted: bool) -> Recording:
    """The lines of an MRD file as they are; of other k-space those that its mask has, slice by slice."""
    return reading(
        lambda: _of_mrd(path) if sniff(path) == "mrd" else of_kspace(read_kspace(path)), path, trusted=trusted
    )


def _of_mrd(path: Path) -> Recording:
    with open_h5(path) as file:
        name = mrd_group(file)
        assert name is not None
        group = member(file, name)
        stored = Stored.of(group, budget=None)
        rows = np.arange(len(stored.head))
        n = stored.head["number_of_samples"].astype(np.int64)
        claimed = 8 * n * stored.head["active_channels"] + 4 * n * stored.head["trajectory_dimensions"]
        check_bytes(one_line(path), (int(claimed.sum()),), 1, stored=path.stat().st_size, budget=byte_budget())
        numbers = list(stored.samples(rows)) if len(rows) else []
        along = [
            stored.coordinates(int(row)) if stored.head["trajectory_dimensions"][row] else NO_COORDINATES
            for row in rows
        ]
        _check_lengths(stored.head, numbers, along)
        return _joined(read_text(group, "xml"), _heads(stored.head), numbers, along)


def of_kspace(kspace: KSpace) -> Recording:
    """What a Cartesian scanner would send of 2-D k-space: every acquired line, those of a slice together."""
    if kspace.mask.ndim == 2 or kspace.header.turned:
        raise FormatError(
            "got k-space whose mask is of points or rows, expected one of columns: lines of a readout are what the "
            "protocol sends"
        )
    slices, Q, H, W = kspace.z.shape
    xml = fastmri_header(
        grid=(H, W),
        recon_shape=kspace.header.recon_shape or (H, W),
        n_slices=slices,
        n_coils=Q,
        voxel_mm=kspace.header.voxel_mm,
    )
    columns = np.flatnonzero(kspace.mask)
    heads = np.zeros(slices * len(columns), ACQUISITION_HEAD)
    heads["version"], heads["number_of_samples"], heads["center_sample"] = 1, H, H // 2
    heads["active_channels"] = heads["available_channels"] = Q
    heads["idx"]["kspace_encode_step_1"] = np.tile(columns, slices)
    heads["idx"]["slice"] = np.repeat(np.arange(slices), len(columns))
    heads["scan_counter"] = np.arange(len(heads))
    heads["flags"][:: len(columns)] |= FIRST_IN_SLICE
    heads["flags"][len(columns) - 1 :: len(columns)] |= LAST_IN_SLICE
    numbers = [np.ascontiguousarray(z[:, :, w]).view(np.float32).ravel() for z in kspace.z for w in columns]
    return _joined(xml, heads, numbers, [NO_COORDINATES] * len(numbers))


def _heads(stored: NDArray[Any]) -> NDArray[Any]:
    """By the names of their fields: files may lay them out in other ways."""
    heads = np.zeros(len(stored), ACQUISITION_HEAD)
    for name in ACQUISITION_HEAD.names or ():
        if name == "idx":
            for counter in set(heads["idx"].dtype.names or ()) & set(stored["idx"].dtype.names or ()):
                heads["idx"][counter] = stored["idx"][counter]
        elif name in (stored.dtype.names or ()):
            heads[name] = stored[name]
    return heads


def _check_lengths(head: NDArray[Any], numbers: list[Any], along: list[Any]) -> None:
    for row, (values, k) in enumerate(zip(numbers, along, strict=True)):
        n = int(head["number_of_samples"][row])
        wanted = 2 * n * int(head["active_channels"][row]), n * int(head["trajectory_dimensions"][row])
        if (np.size(values), np.size(k)) != wanted:
            raise FormatError(
                f"acquisition {row} holds {np.size(values)} numbers and {np.size(k)} coordinates, its header says "
                f"{wanted[0]} and {wanted[1]}: the file is damaged"
            )


def _joined(xml: str, heads: NDArray[Any], numbers: list[Any], along: list[Any]) -> Recording:
    def joined(parts: list[Any]) -> NDArray[np.float32]:
        return np.concatenate([NO_COORDINATES, *parts]).astype(np.float32, copy=False)

    def ends(parts: list[Any]) -> NDArray[np.int64]:
        return np.cumsum([np.size(part) for part in parts], dtype=np.int64)

    flat = heads.view(np.uint8).reshape(len(heads), -1)
    return Recording(xml, flat, joined(numbers), ends(numbers), joined(along), ends(along))
