"""Whether axes are what they were taken for: k-space peaks along rows and columns, not along coils."""

import numpy as np
from numpy.typing import NDArray

from bayesmri.errors import ShapeError
from bayesmri.io.guard import sizes

LEAST = 16  # entries of an axis that may be one of k-space
FLAT = 10.0  # largest energy over the median along an axis: coils have less, k-space 40 and more
FEW = 4  # entries that tell nothing yet
ALIKE, SIDED = 0.005, 0.14  # of the field of view: how far slices of one subject lie apart is between 0.006 and 0.13
STEEPER = 8.0  # times: along which a leading axis must exceed a flat one


def check_roles(array: NDArray[np.complex64], axes: tuple[str, ...]) -> None:
    """Refuses coils or slices among the last two axes, where a leading one looks like k-space instead."""
    if array.ndim < 3 or 0 in array.shape:
        return
    ratios = [peak_ratio(array, axis) for axis in range(array.ndim)]
    leading = [a for a in range(array.ndim - 2) if array.shape[a] >= LEAST and _central(array, a)]
    flat = [a for a in (array.ndim - 1, array.ndim - 2) if ratios[a] < FLAT and array.shape[a] > 1]
    found = [(a, b) for a in leading for b in flat if ratios[a] > max(FLAT, STEEPER * ratios[b])]
    if not found:
        return
    lead, last = found[0]
    others = [a for a in range(array.ndim) if a not in (lead, last)]
    roles = {last: "coil", lead: "row", others[-1]: "column"} | ({others[0]: "slice"} if len(others) > 1 else {})
    words = " ".join(roles[a] for a in range(array.ndim))
    raise ShapeError(
        f"the axes of {sizes(array.shape)} were taken as ({', '.join(axes)}), but the energy peaks along axis {lead} "
        f"and not along axis {last}, as if that were coils or slices; say what each axis is, such as --axes {words!r}"
    )


def profile(array: NDArray[np.complex64], axis: int) -> NDArray[np.float64]:
    """Energy along one axis."""
    parts = (np.abs(part) for part in np.moveaxis(array, axis, 0))
    return np.array([float(np.square(part, dtype=np.float64).sum()) for part in parts])


def peak_ratio(array: NDArray[np.complex64], axis: int) -> float:
    """The largest energy along an axis over the median; lines that hold nothing do not count."""
    energy = profile(array, axis)
    held = energy[energy > 1e-12 * energy.max()] if np.isfinite(energy).all() and energy.max() > 0 else energy
    with np.errstate(invalid="ignore", divide="ignore"):
        return float(np.nan_to_num(held.max() / np.median(held), nan=1.0)) if len(held) else 1.0


def _central(array: NDArray[np.complex64], axis: int) -> bool:
    """Whether the energy along an axis peaks in its middle, or at its ends as after fftshift."""
    n, peak = array.shape[axis], int(np.nan_to_num(profile(array, axis)).argmax())
    return bool(abs(peak - n // 2) <= max(2, n // 16) or min(peak, n - peak) <= 2)


def doubts(z: NDArray[np.complex64]) -> tuple[str, ...]:
    """A warning where the entries of z (slices, Q, H, W) look like what they were not taken for.

    Coils see one slice each from its own side; slices of one coil are shaded alike.
    """
    slices, Q = z.shape[:2]
    if slices >= FEW and Q == 1 and shading(z[:, 0]) > SIDED:
        return (
            f"the {slices} entries that were taken as slices are shaded from different sides, as coils of one slice "
            "are; if they are coils, say so: --axes 'coil row column'",
        )
    if Q >= FEW and shading(z[0]) < ALIKE:
        others = "coil slice row column" if slices > 1 else "slice row column"
        return (
            f"the {Q} entries that were taken as coils are shaded alike, as slices are; if they are slices, say so: "
            f"--axes '{others}'",
        )
    return ()


def shading(entries: NDArray[np.complex64]) -> float:
    """How far the centres of mass of the images (n, H, W) lie apart: their standard deviation over the field of view.

    Of the central 24 lines alone, where k-space is complete; between ALIKE and SIDED where that cannot be told.
    """
    H, W = entries.shape[-2:]
    n = min(24, H, W)
    part = entries[:, H // 2 - n // 2 :, W // 2 - n // 2 :][:, :n, :n]
    live = part[np.abs(part).max(axis=(1, 2)) > 0]
    inner = live[:, n // 2 - 3 : n // 2 + 3, n // 2 - 3 : n // 2 + 3]
    if len(live) < FEW or not np.isfinite(live).all() or not (inner != 0).all():
        return (ALIKE + SIDED) / 2
    x = np.fft.ifft2(np.fft.ifftshift(live * np.outer(np.hanning(n), np.hanning(n)), axes=(-2, -1)))
    p = np.square(np.abs(x), dtype=np.float64)
    p /= p.sum(axis=(1, 2), keepdims=True)
    turn = np.exp(2j * np.pi * np.arange(n) / n)
    variance = 0.0
    for axis in (1, 2):
        centre = (p.sum(axis=axis) * turn).sum(axis=1)
        place = np.angle(centre * np.conj(centre.mean())) / (2 * np.pi)
        variance += float(place.var())
    return float(np.sqrt(variance))
