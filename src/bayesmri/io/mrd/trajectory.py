"""Cartesian or not: by the name in the header, and by the coordinates of the lines where the file stores them."""

import numpy as np
from numpy.typing import NDArray

from bayesmri.errors import FormatError
from bayesmri.io.guard import one_line
from bayesmri.io.ismrmrd_xml import Encoding
from bayesmri.io.mrd.source import Acquisitions
from bayesmri.io.mrd.table import Lines
from bayesmri.messages import Messages, noted

ADVICE = {
    "epi": "echo-planar lines are read out backwards in turns and on ramps; correct their phase and regrid them first",
    "radial": "grid the spokes first",
    "goldenangle": "grid the spokes first",
    "spiral": "grid the spirals first",
}
CHECKED = 64  # lines whose coordinates are looked at
BENT = 0.02  # of the range of coordinates


def check_trajectory(encoding: Encoding) -> None:
    """Refused by name, unless it is Cartesian or the header is silent."""
    if encoding.trajectory not in ("", "cartesian"):
        advice = ADVICE.get(encoding.trajectory, "grid the data first")
        raise FormatError(f"the trajectory is {one_line(encoding.trajectory)!r}, expected Cartesian k-space; {advice}")


def straight_lines(source: Acquisitions, lines: Lines) -> Messages:
    """Stored coordinates must be those of Cartesian readouts: one axis in equal steps, the others constant."""
    n = source.head["trajectory_dimensions"][lines.row].astype(np.int64)
    if not n.any():
        return Messages()
    some = np.flatnonzero(n > 0)
    for line in some[:: max(1, len(some) // CHECKED)]:
        row = int(lines.row[line])
        k = np.asarray(source.coordinates(row), dtype=np.float64)
        if k.size != n[line] * lines.samples:
            raise FormatError(
                f"acquisition {row} holds {k.size} coordinates: its header says {n[line]} x {lines.samples}; the file "
                "is damaged"
            )
        if not _straight(k.reshape(lines.samples, n[line])):
            raise FormatError(
                f"the header calls the trajectory Cartesian, but the coordinates of acquisition {row} are no straight "
                "line in equal steps along one axis; grid the data first"
            )
    return noted("the k-space coordinates in the file are those of straight lines; encode steps placed them")


def _straight(k: NDArray[np.float64]) -> bool:
    """k (samples, dimensions)."""
    if not np.isfinite(k).all():
        return False
    range_ = np.ptp(k, axis=0)
    along = int(np.argmax(range_))
    if range_[along] == 0:
        return True  # nothing was stored but zeros
    steps = np.diff(k[:, along])
    even = np.ptp(steps) <= BENT * np.abs(steps).mean() + 1e-6 * range_[along]
    return bool(even and (np.delete(range_, along) <= BENT * range_[along]).all())
