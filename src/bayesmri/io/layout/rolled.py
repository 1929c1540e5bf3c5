"""Images rolled by half of the field of view: k-space of a transform that was not centred on the side of the image."""

import numpy as np
from numpy.typing import NDArray

LEAST = 16  # rows and columns
BAND = 8  # one part in so many of an axis, in its middle and around its ends
BOTH, ONE = 2.5, 4.0  # how much brighter the ends are than the middle: measured images have 0.4 along both axes at most
NAMES = {(0,): "rows", (1,): "columns", (0, 1): "rows and columns"}


def rolled_warnings(z: NDArray[np.complex64]) -> tuple[str, ...]:
    """A sentence where the image of the strongest slice of z (slices, Q, H, W) lies around the edges of its grid.

    np.fft.fftshift(np.fft.fft2(x)) makes such k-space of a centred image x, and so does `bart fftmod`.
    """
    if min(z.shape[-2:]) < LEAST:
        return ()
    part = max(z, key=lambda one: float(np.vdot(one, one).real))
    x = np.abs(np.fft.ifft2(np.fft.ifftshift(part, axes=(-2, -1)))).sum(axis=0)  # rolled: index 0 is the middle
    ratios = [_ends_over_middle(x.sum(axis=1 - axis)) for axis in (0, 1)]
    if not np.isfinite(ratios).all():
        return ()
    along = [axis for axis in (0, 1) if ratios[axis] > 1] if ratios[0] * ratios[1] > BOTH else []
    where = tuple(along or [axis for axis in (0, 1) if ratios[axis] > ONE])
    if not where:
        return ()
    sign = {(0,): "(-1)^row", (1,): "(-1)^column", (0, 1): "(-1)^(row + column)"}[where]
    return (
        f"the image lies around the edges of its field of view along {NAMES[where]} and not in its middle, as if "
        "rolled by half of it (np.fft.fft2 without np.fft.ifftshift of the image?); if it is, multiply k-space by "
        f"{sign}",
    )


def _ends_over_middle(profile: NDArray[np.floating]) -> float:
    """Of a profile whose index 0 is the middle of the image."""
    n = len(profile)
    b = max(1, n // BAND // 2)
    middle = float(profile[:b].sum() + profile[-b:].sum())
    ends = float(profile[n // 2 - b : n // 2 + b].sum())
    return ends / middle if middle > 0 else 1.0
