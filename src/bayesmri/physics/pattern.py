"""What a pattern of acquired lines looks like; plain NumPy, so that files can be refused before torch loads."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

MaskKind = Literal["random", "equispaced"]
Lines = NDArray[np.bool_]

LEAST_GAPS = 3  # fewer than this tell no order from chance


def center_share(R: float, center_fraction: float | None) -> float:
    """Share of the lines in the fully sampled centre: the paper's 8 % at R = 4 and 4 % at R = 8 unless given."""
    return 0.32 / R if center_fraction is None else center_fraction


def n_center_lines(W: int, R: float, center_fraction: float | None) -> int:
    """Lines of the fully sampled centre; at least one unless the fraction is 0."""
    fraction = center_share(R, center_fraction)
    return 0 if fraction == 0 else min(W, max(1, round(W * fraction)))


def centre_run(mask: Lines) -> int:
    """The length of the run of acquired lines around W // 2."""
    left, right = _ends(mask)
    return right - left - 1


def kind_of(mask: Lines) -> MaskKind | None:
    """Equispaced where the gaps on both sides of the centre differ by no more than one line, as rounding makes them.

    None where there are too few lines outside the centre to tell.
    """
    left, right = _ends(mask)
    lines = np.flatnonzero(mask)
    gaps = np.concatenate([np.diff(lines[lines < left]), np.diff(lines[lines > right])])
    if gaps.size < LEAST_GAPS:
        return None
    return "equispaced" if gaps.max() - gaps.min() <= 1 else "random"


def _ends(mask: Lines) -> tuple[int, int]:
    """The missing lines to the left and right of the centre; beside each other where the centre itself is missing."""
    centre = len(mask) // 2
    if not mask[centre]:
        return centre, centre + 1
    missing = np.flatnonzero(~mask)
    return int(missing[missing < centre].max(initial=-1)), int(missing[missing > centre].min(initial=len(mask)))
