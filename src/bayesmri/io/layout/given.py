"""What the user says of an array that does not say it itself."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bayesmri.errors import ConfigError
from bayesmri.io.guard import one_line

ROLES = ("slice", "coil", "row", "column")
DROPPED = "-"
READOUT = "readout"  # of a 3-D scan: transformed, it makes the slices


@dataclass(frozen=True)
class Given:
    """axes: what each axis of the array is, of ROLES in any order, `-` for one of which the first entry is taken;
        readout in the place of slice where it is 3-D k-space, whose rows and columns are its phase encodings.

    shifted: the zero frequency lies in the corners, as np.fft.fft2 leaves it; False: in the centre, whatever it seems.
    images: the array holds complex coil images and no k-space; False: k-space, whatever it seems.
    mask: which lines, or points, were acquired, where the data is not fully sampled.
    """

    axes: tuple[str, ...] | None = None
    shifted: bool | None = None
    images: bool | None = None
    mask: NDArray[np.bool_] | None = field(default=None, compare=False)

    @staticmethod
    def of(
        axes: str | None = None,
        *,
        shifted: bool | None = None,
        images: bool | None = None,
        mask: NDArray[np.bool_] | None = None,
    ) -> "Given":
        """axes: in one text, such as "slice coil row column"."""
        return Given(None if axes is None else parse_axes(axes), shifted, images, mask)

    def refused(self, what: str) -> None:
        """Of a file that knows its own axes."""
        flags = {"--axes": self.axes is not None, "--shifted": self.shifted is not None}
        flags["--images"] = self.images is not None
        said = " and ".join(flag for flag, set_ in flags.items() if set_)
        if said:
            raise ConfigError(
                f"got {said} with {what}, which knows its own axes, expected it with an array (.npy, .npz, HDF5 "
                "`kspace`, .cfl); leave it out"
            )


NOTHING = Given()


def parse_axes(text: str) -> tuple[str, ...]:
    """ "row column - coil" → ("row", "column", "-", "coil"): row and column once, slice and coil at most once."""
    axes = tuple(text.replace(",", " ").lower().split())
    wanted = "expected row and column once, slice and coil at most once, - for others, such as 'slice coil row column'"
    unknown = [axis for axis in axes if axis not in (*ROLES, DROPPED, READOUT)]
    if unknown:
        raise ConfigError(f"got the axis {one_line(unknown[0], limit=40)!r} in --axes {one_line(text)!r}, {wanted}")
    twice = next((role for role in (*ROLES, READOUT) if axes.count(role) > 1), None)
    if READOUT in axes and "slice" in axes:
        raise ConfigError(
            f"got readout and slice in --axes {one_line(text)!r}, expected one of them; a 3-D slab has none"
        )
    absent = next((role for role in ("row", "column") if role not in axes), None)
    if twice is not None or absent is not None:
        fault = f"{twice} twice" if twice is not None else f"no {absent}"
        raise ConfigError(f"got {fault} in --axes {one_line(text)!r}, {wanted}")
    return axes
