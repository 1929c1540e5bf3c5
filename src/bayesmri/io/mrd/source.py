"""Where acquisitions come from: a file here, a scanner's stream elsewhere; what sorts them asks no more than this."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import h5py
import numpy as np
from numpy.typing import NDArray

from bayesmri.errors import FormatError
from bayesmri.io.guard import byte_budget, check_bytes
from bayesmri.io.safe_h5 import dataset, where

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]

STEPS = ("kspace_encode_step_1", "kspace_encode_step_2")
COUNTERS = (*STEPS, "average", "slice", "contrast", "phase", "repetition", "set")
SAMPLES = ("number_of_samples", "active_channels", "center_sample", "discard_pre", "discard_post")
INTEGERS = ("flags", "encoding_space_ref", "trajectory_dimensions", *SAMPLES)
VECTORS = ("position", "read_dir", "phase_dir", "slice_dir")


class Acquisitions(Protocol):
    """Lines of k-space in the order in which they were measured.

    name: for messages. head: their headers, a table with the fields of ISMRMRD's AcquisitionHeader.
    """

    @property
    def name(self) -> str: ...

    @property
    def head(self) -> NDArray[Any]: ...

    def samples(self, rows: Ints) -> Sequence[Floats]:
        """Real and imaginary parts of each of these lines, channel by channel."""
        ...

    def coordinates(self, row: int) -> Floats:
        """The k-space coordinates of one line, sample by sample."""
        ...


@dataclass(frozen=True, eq=False)
class Stored:
    """Those of an MRD file. group: the HDF5 group that holds `xml` and `data`."""

    group: Any
    head: NDArray[Any]

    @staticmethod
    def of(group: Any, *, budget: int | None) -> "Stored":
        """The headers are read; their number is checked against what is stored."""
        data = dataset(group, "data")
        name = where(group, "data")
        _check_dtype(data, name)
        stored = data.id.get_storage_size()
        check_bytes(name, data.shape, data.dtype.itemsize, stored=stored, budget=byte_budget(budget))
        return Stored(group, data.fields("head")[()])

    @property
    def name(self) -> str:
        return where(self.group, "data")

    def samples(self, rows: Ints) -> Sequence[Floats]:
        """Run by run: HDF5 selects scattered rows one by one, and far more slowly."""
        data = dataset(self.group, "data").fields("data")
        runs = np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1)
        return [values for run in runs for values in data[int(run[0]) : int(run[-1]) + 1]]

    def coordinates(self, row: int) -> Floats:
        found: Floats = dataset(self.group, "data").fields("traj")[row : row + 1][0]
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
