"""Whether BART's dimensions hold what they are for: k-space peaks along 0, 1 and 2, and not along 3, the coils."""

import numpy as np
from numpy.typing import NDArray

from bayesmri.errors import ShapeError
from bayesmri.io.layout.roles import LEAST, STEEPER, peak_ratio

FLAT = 5.0  # largest energy over the median: coils and images have less, k-space of 8 entries 11 and more, of noise 1
NAMES = ("read", "phase 1", "phase 2")
COIL = 3


def check_dimensions(array: NDArray[np.complex64]) -> None:
    """Refuses coils, slices or images in the place of an encoding; array: (read, phase1, phase2, coils, …).

    Slices in the place of the second phase encoding are not refused here: see `three_d.looks_like_slices`.
    """
    part = array[(slice(None),) * 4 + (0,) * (array.ndim - 4)]
    three_d = part.shape[2] > 1
    flat = [a for a in (0, 1) if part.shape[a] > 1 and peak_ratio(part, a) < FLAT]
    if not flat:
        return
    axis = flat[0]
    n, ratio = part.shape[axis], peak_ratio(part, axis)
    fault = f"the energy does not peak along BART's dimension {axis} ({NAMES[axis]}, {n} entries), as k-space does"
    if part.shape[COIL] >= LEAST and peak_ratio(part, COIL) > max(FLAT, STEEPER * ratio):
        raise ShapeError(
            f"{fault}, but along dimension {COIL}, the coils ({part.shape[COIL]} entries); "
            f"exchange the two: `bart transpose {axis} {COIL} IN OUT`"
        )
    if three_d:
        raise ShapeError(
            f"{fault}; say what dimensions 0, 1, 2 (and {COIL}) are: {_words(axis, coils=part.shape[COIL] > 1)}"
        )


def _words(axis: int, *, coils: bool) -> str:
    """What to say, by what the flat dimension may be."""
    last = " coil" if coils else ""
    slices, plain = ["row", "column"], ["readout", "row", "column"]
    slices.insert(axis, "slice")
    said = [f"--axes '{' '.join(slices)}{last}' for slices or a transformed readout"]
    if not coils:
        said.append(f"--axes '{' '.join('coil' if name == 'slice' else name for name in slices)}' for coils")
    said.append(f"--axes '{' '.join(plain)}{last}' if they are (read, phase, phase)")
    return ", ".join(said)
