"""3-D Cartesian k-space as slices: the readout is transformed first, which loses nothing, and (ky, kz) remain."""

import numpy as np
from numpy.typing import NDArray

from bayesmri.io.lps import crop_start, is_frame, lps_affine

Vector = NDArray[np.float64]

FLAT = 0.4  # of the central plane's energy, at an eighth of the axis beside it: slices have more, k-space has less


def slices_of_3d(k: NDArray[np.complex64], *, keep: int | None = None) -> NDArray[np.complex64]:
    """z_r = (F_x⁻¹ k)_r for the readout positions r: k (Q, RO, PE1, PE2) → z (slices = RO, Q, H = PE1, W = PE2).

    The transform is the centred unitary one, so that F⁻¹ of every slice is the slice of the 3-D image, in its units.
    What was not acquired, zero along the whole readout, is zero in every slice: one mask (H, W) for all of them.

    keep: central readout positions that are kept, where the readout was oversampled; None keeps all. Index RO // 2
    lands on keep // 2, as in `lps.crop_start`. Coil by coil: little more memory is taken than for both arrays.
    """
    Q, RO, *plane = k.shape
    n = RO if keep is None else min(keep, RO)
    first = crop_start(RO, n)
    z = np.empty((n, Q, *plane), dtype=np.complex64)
    with np.errstate(over="ignore", invalid="ignore"):  # Inf and NaN pass through to check_finite
        for q, coil in enumerate(k):
            image = np.fft.ifft(np.fft.ifftshift(coil, axes=0), axis=0, norm="ortho")
            z[:, q] = np.fft.fftshift(image, axes=0)[first : first + n]
    return z


def kspace_of_slices(z: NDArray[np.complex64]) -> NDArray[np.complex64]:
    """The inverse of `slices_of_3d` where nothing was cut away: z (RO, Q, PE1, PE2) → k (Q, RO, PE1, PE2)."""
    k = np.empty((z.shape[1], len(z), *z.shape[2:]), dtype=np.complex64)
    for q in range(z.shape[1]):
        k[q] = np.fft.fftshift(np.fft.fft(np.fft.ifftshift(z[:, q], axes=0), axis=0, norm="ortho"), axes=0)
    return k


def voxel_of_3d(fov_mm: tuple[float, float, float], matrix: tuple[int, int, int]) -> tuple[float, float, float]:
    """Spacing along (h, w, slice) = (PE1, PE2, RO) of a field of view over its matrix, both (RO, PE1, PE2)."""
    x, y, z = (fov / n for fov, n in zip(fov_mm, matrix, strict=True))
    return y, z, x


def affine_of_3d(
    read: Vector, phase1: Vector, phase2: Vector, *, position: Vector, voxel_mm: tuple[float, float, float],
    shape: tuple[int, int, int],
) -> NDArray[np.float64] | None:  # fmt: skip
    """Index (h, w, slice) = (PE1, PE2, RO) → RAS+ millimetres; None where the directions are no frame.

    read, phase1, phase2: unit vectors, LPS. position: of the volume's centre, LPS, index (H // 2, W // 2, slices // 2).
    voxel_mm: along (h, w, slice), of `voxel_of_3d`. shape: (H, W, slices), the readout as it was kept.
    """
    if not is_frame(read, phase1, phase2) or not np.isfinite(position).all():
        return None
    along = np.stack([phase1, phase2, read]) * np.array(voxel_mm)[:, None]
    origin = position - np.array([n // 2 for n in shape]) @ along
    return lps_affine(along[0], along[1], along[2], origin)


def looks_like_slices(k: NDArray[np.complex64]) -> bool:
    """Whether the last axis of k (Q, RO, PE1, PE2) holds slices rather than a phase encoding.

    The energy of k-space falls off steeply from its centre; that of neighbouring slices is about the same.
    """
    energy = np.zeros(k.shape[-1])
    for coil in k:
        energy += np.square(np.abs(coil), dtype=np.float64).sum(axis=(0, 1))
    n = len(energy)
    if n < 8 or not np.isfinite(energy).all() or not energy[n // 2] > 0:
        return False
    d = max(2, n // 8)
    beside = np.concatenate([energy[n // 2 - d - 1 : n // 2 - d + 1], energy[n // 2 + d : n // 2 + d + 2]])
    return bool(beside.max() > FLAT * energy[n // 2])
