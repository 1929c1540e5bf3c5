"""Whether the image that a file brings along is that of its k-space, fully sampled: else it is no truth."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bayesmri.io.geometry import center_window
from bayesmri.kspace import KSpace

UNLIKE = 0.05  # relative error, after the best factor: what an image of the same k-space never has
ALIKE = 0.01  # relative error below which two images are one


def judged(kspace: KSpace) -> KSpace:
    """The k-space without a truth that cannot be one, and a warning instead."""
    if kspace.truth is None:
        return kspace
    error = worst_error(kspace.truth, kspace.z)
    warning = None
    if kspace.fully_sampled and error > UNLIKE:
        warning = (
            f"the file's own image differs by {100 * error:.0f} % from that of its k-space, which is fully sampled: it "
            "was left out, no metrics are made with it; one of the two is damaged"
        )
    elif not kspace.fully_sampled and error < ALIKE and kspace.acceleration > 1.1:
        warning = (
            "the file's own image is the zero-filled one of the undersampled k-space, no fully sampled one: it was "
            "left out, no metrics are made with it"
        )
    if warning is None:
        return kspace
    header = replace(kspace.header, warnings=(*kspace.header.warnings, warning))
    return replace(kspace, truth=None, header=header)


def worst_error(truth: NDArray[np.float32], z: NDArray[np.complex64]) -> float:
    """max over slices of min_c ‖c X₀ − Y‖ / ‖Y‖, X₀ = RSS(F⁻¹z) of the centre that Y shows; empty slices left out."""
    worst = 0.0
    for Y, part in zip(truth.astype(np.float64), z, strict=True):
        x = np.fft.fftshift(np.fft.ifft2(np.fft.ifftshift(part, axes=(-2, -1)), norm="ortho"), axes=(-2, -1))
        X = np.sqrt(np.square(np.abs(x), dtype=np.float64).sum(axis=0))
        X = X[center_window((X.shape[0], X.shape[1]), (Y.shape[0], Y.shape[1]))]
        norm = float((Y * Y).sum())
        if norm == 0 or not X.any():
            continue
        cosine = float((X * Y).sum()) ** 2 / (norm * float((X * X).sum()))
        worst = max(worst, float(np.sqrt(max(0.0, 1 - cosine))))
    return worst
