"""Centred k-space, or not: images and shifted spectra are mended where the user says so, and refused where not."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayesmri.errors import DataError
from bayesmri.io.layout.given import Given

Complex = NDArray[np.complex64]

TOP = 1000  # one point in so many: k-space holds a quarter to nine tenths of its energy there, an image 1 to 3 %
SPREAD = 0.1  # share of the energy in those points below which an array may be an image
HALF = 0.35  # below which it may be one along one axis: measured k-space, transformed along one axis, has up to 0.26
TIMES, HALF_TIMES = 3.0, 2.5  # by which a transform must gather the energy; of k-space it spreads it
STRONGER = 4.0  # by which the corners must exceed the centre
LEAST = 0.2  # of the energy in the corners, at least
NAMES = {(): "", (0,): "rows", (1,): "columns", (0, 1): "rows and columns"}


@dataclass(frozen=True)
class Spectrum:
    """images: axes along which the array is an image; shifted: along which its zero frequency lies at the ends."""

    images: tuple[int, ...]
    shifted: tuple[int, ...]


def in_kspace(z: Complex, given: Given) -> tuple[Complex, tuple[str, ...]]:
    """Centred k-space (slices, Q, H, W) and notes."""
    if not z.size or not np.isfinite(z).all() or min(z.shape[-2:]) < 8:
        return z, ()  # said by the checks that follow
    notes: tuple[str, ...] = ()
    found = spectrum(z)
    if found.images and given.images is False:
        notes += (
            f"the array is spread along its {NAMES[found.images]} like an image; --no-images says that it is none",
        )
        found = Spectrum((), _shifted_axes(_strongest(z)))
    if found.images:
        where = NAMES[found.images]
        if given.images is None:
            raise DataError(
                f"the array is spread along its {where} like an image, not gathered in the centre like k-space; if it "
                "holds complex coil images, say so: --images; if it is k-space all the same: --no-images; magnitude "
                "images: bayesmri simulate"
            )
        z = _transformed(z, found.images)
        notes += (f"the array was taken as images and transformed along its {where}, as --images says",)
        found = spectrum(z)
    elif given.images:
        raise DataError("got --images, but the array is gathered like k-space, expected images; leave it out")
    if found.shifted and given.shifted is False:
        return z, (*notes, f"the energy lies at the ends of its {NAMES[found.shifted]}; --no-shifted says that it may")
    if found.shifted:
        where = NAMES[found.shifted]
        if given.shifted is None:
            raise DataError(
                f"the energy of k-space lies at the ends of its {where} and not in the centre (np.fft.fft2 without "
                "fftshift?), expected the zero frequency at H // 2, W // 2; say so: --shifted; if it lies in the "
                "centre all the same: --no-shifted"
            )
        z = np.ascontiguousarray(np.fft.fftshift(z, axes=[axis - 2 for axis in found.shifted]))
        notes += (f"the zero frequency was moved to the centre along {where} (fftshift), as --shifted says",)
    elif given.shifted:
        raise DataError("got --shifted, but the zero frequency lies in the centre already; leave it out")
    return z, notes


def spectrum(z: Complex) -> Spectrum:
    """Judged by the strongest slice of z (slices, Q, H, W)."""
    part = _strongest(z)
    plain = gathered(part)
    images: tuple[int, ...] = ()
    if plain < HALF:
        candidates = {axes: gathered(_transformed(part, axes)) for axes in NAMES if axes}
        best = max(candidates, key=lambda axes: candidates[axes])
        times = TIMES if plain < SPREAD else HALF_TIMES
        images = best if candidates[best] > max(SPREAD, times * plain) else ()
    return Spectrum(images, () if images else _shifted_axes(part))


def _strongest(z: Complex) -> Complex:
    """The slice of the most energy, (Q, H, W), divided by its maximum."""
    part = max(z, key=lambda part: float(np.square(np.abs(part), dtype=np.float64).sum()))
    return np.asarray(part / max(float(np.abs(part).max()), 1e-30))


def gathered(part: Complex) -> float:
    """The share of the energy in the strongest thousandth of the points of one slice (Q, H, W)."""
    p = np.square(np.abs(part), dtype=np.float64).sum(axis=0).ravel()
    n = max(4, p.size // TOP)
    return float(np.partition(p, -n)[-n:].sum() / max(float(p.sum()), 1e-300))


def _shifted_axes(part: Complex) -> tuple[int, ...]:
    """Along which of (rows, columns) the energy lies at the ends rather than in the middle."""
    p = np.square(np.abs(part), dtype=np.float64).sum(axis=0)
    shares = {}
    for axes in NAMES:
        moved = np.fft.fftshift(p, axes=axes) if axes else p
        near = tuple(slice(n // 2 - max(1, n // 16), n // 2 + max(1, n // 16) + 1) for n in p.shape)
        shares[axes] = float(moved[near].sum() / max(float(p.sum()), 1e-300))
    best = max(shares, key=lambda axes: shares[axes])
    return best if shares[best] > max(LEAST, STRONGER * shares[()]) else ()


def _transformed(z: Complex, axes: tuple[int, ...]) -> Complex:
    """Centred and unitary, along some of the last two axes."""
    last = [axis - 2 for axis in axes]
    out = np.fft.fftshift(np.fft.fftn(np.fft.ifftshift(z, axes=last), axes=last, norm="ortho"), axes=last)
    return out.astype(np.complex64)
