"""Whether sensitivities are of this very scan: its images lie in their span, and they vary slowly."""

import numpy as np
from numpy.typing import NDArray

from bayesmri.kspace import KSpace
from bayesmri.physics.pattern import centre_block, centre_run

CENTRE, FEWEST = 24, 4  # lines around the centre of k-space that are compared, at most and at least
MISFIT = 0.3  # of the energy, not explained by the sensitivities
SMOOTH = 0.5  # of 1, which is the coherence of neighbouring pixels


def misfit_warnings(kspace: KSpace, maps: NDArray[np.complex64]) -> tuple[str, ...]:
    """Sentences on s (slices or 1, sets, Q, H, W) that do not belong to the data; judged by its strongest slice."""
    strongest = int(np.argmax([float(np.vdot(part, part).real) for part in kspace.z]))
    s = maps[strongest if len(maps) > 1 else 0]
    H = kspace.z.shape[-2]
    block = centre_block(kspace.mask) if kspace.mask.ndim == 2 else (H, centre_run(kspace.mask))
    known = min(block) >= FEWEST
    lost, smooth = unexplained(kspace.z[strongest], s, block) if known else 0.0, coherence(s[0])
    if lost > MISFIT:
        return (
            f"the sensitivities do not explain {100 * lost:.0f} % of the images' energy around the centre of k-space: "
            "are they of this scan, with its coils, rows and columns in this order?",
        )
    if smooth < SMOOTH:
        return (
            "the sensitivities change sign or phase from pixel to pixel, expected smooth ones (bart fftmod, or a "
            "transform that was not centred?): the image is wrong if they are not meant so",
        )
    return ()


def unexplained(z: NDArray[np.complex64], s: NDArray[np.complex64], block: tuple[int, int]) -> float:
    """1 − Σ |s_jᴴ y|² / Σ |y|², y: images (Q, H, W) of the centre of z, of which `block` rows and columns are complete.

    Where the first of s (J, Q, H, W) sees anything.
    """
    H, W = z.shape[-2:]
    rows, columns = (np.zeros(n) for n in (H, W))
    for window, n, complete in ((rows, H, block[0]), (columns, W, block[1])):
        m = min(CENTRE, complete)
        window[n // 2 - m // 2 : n // 2 - m // 2 + m] = np.hanning(m + 2)[1:-1]
    y = np.fft.fftshift(np.fft.ifft2(np.fft.ifftshift(z * np.outer(rows, columns), axes=(-2, -1))), axes=(-2, -1))
    seen = (np.abs(s[0]) ** 2).sum(axis=0) > 0.5
    total = float((np.abs(y) ** 2).sum(axis=0)[seen].sum())
    if not total > 0:
        return 0.0
    found = (np.abs((s.conj() * y).sum(axis=1)) ** 2).sum(axis=0)
    return 1 - min(1.0, float(found[seen].sum()) / total)


def coherence(s: NDArray[np.complex64]) -> float:
    """Σ Re s̄(p) s(p + 1) / Σ |s(p)| |s(p + 1)| of neighbours along rows and columns, of s (Q, H, W)."""
    pairs = ((s[:, 1:], s[:, :-1]), (s[..., 1:], s[..., :-1]))
    ratios = [float((a.conj() * b).real.sum()) / max(float((np.abs(a) * np.abs(b)).sum()), 1e-30) for a, b in pairs]
    return min(ratios)
