"""Which lines a scan holds, and how many of them lie around its centre."""

from torch import Tensor

from bayesmri.physics.centre import centre_acquired, n_central_lines
from bayesmri.physics.operator import batched


def measured_lines(z: Tensor) -> Tensor:
    """The columns that hold anything, bool (W,), of k-space (slices, Q, H, W).

    The points, bool (H, W), where most of those columns is empty, as in the calibration block of a 3-D scan.
    """
    points = (z != 0).flatten(0, -3).any(dim=0)
    lines = points.any(dim=0)
    return lines if not lines.any() or points[:, lines].float().mean() > 0.5 else points


def central_lines(mask: Tensor) -> int:
    """How many lines around the centre there are without a gap; 0 where the centre itself is missing."""
    lines = batched(mask)
    return int(n_central_lines(lines)) if centre_acquired(lines) else 0
