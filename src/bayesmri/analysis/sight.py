"""What one slice tells about templates at all of its places: energy on measured lines, clutter and noise.

All of it comes from the data and the reconstruction; the truth is not asked.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import scipy  # imports its parts as they are used, which most commands do without
from numpy.typing import NDArray

from bayesmri.analysis.templates import View

Floats = NDArray[np.float64]
Complexes = NDArray[np.complexfloating]

RING = 6.0  # pixels: clutter is looked for around the place and not at it, most of it RING·√2 from its middle
LEAST_LINES = 3  # on each side of the centre that a smooth phase is taken from
OUTER = 0.45  # of the rows: beyond, k-space is mostly noise
FLOOR = 1e-4  # of the peak, below which no clutter is told apart
HALF = math.sqrt(math.log(2))  # the median of |ν| over its root mean square, for complex normal ν
PEAK = 0.995  # quantile


@dataclass(frozen=True, eq=False)
class Sight:
    """One slice. x: reconstructed images, complex (Q', H, W). z: measured k-space (Q, H, W), zero-filled, in the same
    units. mask: bool (W,) or (H, W). fine: how many pixels there are along a side for one that was encoded.
    """

    x: Complexes = field(repr=False)
    z: Complexes = field(repr=False)
    mask: NDArray[np.bool_] = field(repr=False)
    fine: float = 1.0

    def times(self, factor: float) -> "Sight":
        """The same in other units."""
        return Sight(factor * self.x, factor * self.z, self.mask, self.fine)

    @property
    def shape(self) -> tuple[int, int]:
        return self.z.shape[-2], self.z.shape[-1]

    @cached_property
    def acceleration(self) -> float:
        """R: how many cells the smallest box around the measured ones has for each of them."""
        there = np.argwhere(self.mask)
        return float(np.prod(np.ptp(there, axis=0) + 1) / max(1, len(there))) if len(there) else 1.0

    @cached_property
    def X(self) -> Floats:
        return np.asarray(np.sqrt(np.sum(np.abs(self.x).astype(np.float64) ** 2, axis=0)))

    @cached_property
    def peak(self) -> float:
        """A high quantile of X; all else is relative to it."""
        return float(np.quantile(self.X, PEAK)) or float(self.X.max()) or 1.0

    @cached_property
    def smooth(self) -> Complexes:
        """Coil images of the centre of k-space, whose phase is smooth: (Q, H, W)."""
        return low_resolution(self.z, self.mask)

    @cached_property
    def noise(self) -> float:
        """σ, the root mean square of complex noise in k-space and image."""
        return float(np.sqrt(np.mean(noise_of_coils(self.z, self.mask) ** 2)))

    def brightness(self, radius: float) -> Floats:
        """b, the mean of X over a place of that radius."""
        blurred = scipy.ndimage.gaussian_filter(self.X, radius / 2, mode="nearest")
        return np.asarray(np.maximum(blurred, FLOOR * self.peak))

    def kept(self, view: View) -> Floats:
        """η = ‖M F(C â e^{iφ})‖² / ‖C â‖² at every place, in [0, 1].

        Across a template φ is nearly linear, and moves its spectrum: η = Σ_q |l_q|² S(δ_q) / Σ_q |l_q|² with the
        images l of low resolution, the slope δ of their phase, and S(δ) = Σ_k M(k) |F â(k − δ)|² / ‖â‖².
        """
        M = self.mask if self.mask.ndim == 2 else self.mask[None]
        table = spectrum_on(M, view.centred, self.shape)
        power = np.abs(self.smooth) ** 2
        total = np.zeros(self.shape)
        for rows, columns, weight in zip(*self._slopes, power, strict=True):
            total += weight * scipy.ndimage.map_coordinates(table, np.stack([rows, columns]), order=1, mode="grid-wrap")
        return np.asarray(np.clip(total / np.maximum(power.sum(axis=0), 1e-30), 0, 1))

    def clutter(self, view: View) -> dict[str, Floats]:
        """The root mean square, around every place, of what a matched filter ⟨·, â⟩/‖â‖² finds, by the image:

        image: X itself. filled: what the reconstruction added to the zero-filled image. folded: what of it does not
        have the smooth phase of the object, as folding and noise do.
        """
        a = view.centred
        kernel = np.zeros(self._padded)
        kernel[: a.shape[0], : a.shape[1]] = a / np.sum(a * a)
        shift = (a.shape[0] // 2, a.shape[1] // 2)
        F = np.conj(scipy.fft.rfft2(np.roll(kernel, (-shift[0], -shift[1]), axis=(0, 1))))
        found = {}
        for name, image in self._transformed.items():
            response = scipy.fft.irfft2(image * F, s=self._padded)[: self.shape[0], : self.shape[1]]
            mean = self._around(response**2) / self._inside
            found[name] = np.sqrt(np.maximum(mean, (FLOOR * self.peak) ** 2))
        return found

    @cached_property
    def _slopes(self) -> tuple[list[Floats], list[Floats]]:
        """Slope of the phase of every coil along rows and columns, in lines of k-space."""
        blurred = scipy.ndimage.gaussian_filter
        rows: list[Floats] = []
        columns: list[Floats] = []
        for image in self.smooth:
            for axis, found in ((0, rows), (1, columns)):
                step = np.roll(image, -1, axis) * np.conj(image)
                step = blurred(step.real, 2.0) + 1j * blurred(step.imag, 2.0)
                found.append(np.angle(step) / (2 * math.pi) * image.shape[axis])
        return rows, columns

    @cached_property
    def _padded(self) -> tuple[int, int]:
        """Room for kernels and rings beyond the borders."""
        H, W = self.shape
        room = 64 + math.ceil(6 * RING * self.fine)
        return int(scipy.fft.next_fast_len(H + room, real=True)), int(scipy.fft.next_fast_len(W + room, real=True))

    @cached_property
    def _transformed(self) -> dict[str, Complexes]:
        real, imaginary = _demodulated(self.x, low_resolution(_fft(self.x), self.mask))
        start, _ = _demodulated(_ifft(self.z), self.smooth)
        images = {"image": self.X, "filled": real - start, "folded": imaginary}
        return {name: scipy.fft.rfft2(image, s=self._padded) for name, image in images.items()}

    @cached_property
    def _ring(self) -> Complexes:
        """The transform of q e^{−q}, q = ρ²/(2·RING²), ρ in encoded pixels: nothing at the place itself."""
        n, m = self._padded
        v, u = np.fft.fftfreq(n, 1 / n)[:, None], np.fft.fftfreq(m, 1 / m)[None]
        q = (v * v + u * u) / (2 * (RING * self.fine) ** 2)
        ring = q * np.exp(-q)
        return np.asarray(scipy.fft.rfft2(ring / ring.sum()))

    @cached_property
    def _inside(self) -> Floats:
        return np.maximum(self._around(np.ones(self.shape)), 1e-3)

    def _around(self, image: Floats) -> Floats:
        around = scipy.fft.irfft2(scipy.fft.rfft2(image, s=self._padded) * self._ring, s=self._padded)
        return np.asarray(around[: self.shape[0], : self.shape[1]])


def spectrum_on(M: NDArray[np.bool_], a: Floats, shape: tuple[int, int]) -> Floats:
    """S(δ) = Σ_k M(k) |F a(k − δ)|² / ‖a‖² for all shifts δ in lines.

    (1, W) where M is of whole columns, else (H, W).
    """
    power = np.abs(np.fft.fft2(a, s=shape)) ** 2
    power /= power.sum()
    if M.shape[0] == 1:
        power = power.sum(axis=0, keepdims=True)
    lines = np.fft.ifftshift(M.astype(np.float64))
    return np.asarray(np.fft.ifft2(np.fft.fft2(lines) * np.conj(np.fft.fft2(power))).real)


def low_resolution(z: Complexes, mask: NDArray[np.bool_]) -> Complexes:
    """F⁻¹ of the centre of k-space that was acquired without a gap, softened by a Hann window: (Q, H, W)."""
    H, W = z.shape[-2:]
    plane = np.broadcast_to(mask, (H, W))
    n = max(LEAST_LINES, _reach(plane[H // 2]))
    m = max(LEAST_LINES, min(_reach(plane[:, W // 2]), round(n * H / W)))
    return _ifft(z * _hann(H, m)[:, None] * _hann(W, n))


def noise_of_coils(z: Complexes, mask: NDArray[np.bool_]) -> Floats:
    """σ_q, (Q,): the median of |z| in the outer rows and the outer half of the measured columns, over that of noise of
    σ = 1; 0 where nothing was measured there. What signal there is makes it larger.
    """
    H, W = z.shape[-2:]
    plane = np.broadcast_to(mask, (H, W))
    far = np.abs(np.arange(H) - H // 2) >= OUTER * H
    wide = np.abs(np.arange(W) - W // 2) >= W / 4
    for outer in (plane & far[:, None] & wide, plane & far[:, None], plane & wide, plane):
        values = np.abs(z[:, outer])
        values = values[:, (values > 0).any(axis=0)]  # zero padding is no measurement
        if values.shape[1] >= 16:
            return np.asarray(np.median(values, axis=1) / HALF, dtype=np.float64)
    return np.zeros(len(z))


def _reach(lines: NDArray[np.bool_]) -> int:
    """Lines on both sides of the centre without a gap."""
    middle = len(lines) // 2
    left, right = lines[:middle][::-1], lines[middle:]
    return int(min(np.cumprod(left).sum(), np.cumprod(right).sum()))


def _hann(n: int, reach: int) -> Floats:
    k = np.abs(np.arange(n) - n // 2)
    return np.where(k <= reach, np.cos(math.pi * k / (2 * reach + 2)) ** 2, 0.0)


def _demodulated(x: Complexes, smooth: Complexes) -> tuple[Floats, Floats]:
    """Σ_q l̄_q x_q / ‖l‖: what has the smooth phase of the object is real."""
    length = np.sqrt(np.sum(np.abs(smooth) ** 2, axis=0))
    found = np.sum(np.conj(smooth) * x, axis=0) / np.maximum(length, 1e-6 * max(float(length.max()), 1e-30))
    return np.asarray(found.real, dtype=np.float64), np.asarray(found.imag, dtype=np.float64)


def _fft(x: Complexes) -> Complexes:
    axes = (-2, -1)
    return np.fft.fftshift(np.fft.fft2(np.fft.ifftshift(x, axes=axes), norm="ortho"), axes=axes)


def _ifft(u: Complexes) -> Complexes:
    axes = (-2, -1)
    return np.fft.fftshift(np.fft.ifft2(np.fft.ifftshift(u, axes=axes), norm="ortho"), axes=axes)
