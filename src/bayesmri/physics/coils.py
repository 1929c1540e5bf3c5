"""Coils of a measurement: virtual coils by SVD compression, and the emulated single coil of fastMRI's track.

Sums over a volume go slice by slice: with coils as rows, a whole volume would be copied.
"""

from typing import Literal

import torch
from torch import Tensor

from bayesmri.complexes import rss
from bayesmri.errors import ConfigError

CoilMode = Literal["raw", "virtual", "sensitivities"]


def coil_gram(z: Tensor) -> Tensor:
    """z zᴴ with coils as rows, complex (Q, Q); the Grams of a volume's slices add up to the volume's.

    z: k-space or coil images, complex (..., Q, H, W).
    """
    return torch.stack([coils @ coils.mH for coils in _slices(z)]).sum(dim=0)


def compression_matrix(gram: Tensor) -> Tensor:
    """Uᴴ of the SVD z = U Σ Vᴴ, from z zᴴ = U Σ² Uᴴ: unitary (Q, Q), rows ordered by the energy they collect."""
    _, vectors = torch.linalg.eigh(gram)
    matrix: Tensor = vectors.flip(-1).mH
    return matrix


def compress_coils(z: Tensor, Q: int, matrix: Tensor | None = None) -> Tensor:
    """The Q virtual coils of largest energy, (..., Q', H, W) → (..., Q, H, W); missing coils are zero.

    matrix: a `compression_matrix` of the whole volume, where z is only a part of it.
    """
    if Q < 1:
        raise ConfigError(f"got a request for {Q} virtual coils, expected at least 1")
    matrix = compression_matrix(coil_gram(z)) if matrix is None else matrix
    virtual = z.new_zeros(*z.shape[:-3], Q, *z.shape[-2:])
    some = min(Q, len(matrix))
    for coils, to in zip(_slices(z), virtual.view(-1, Q, z.shape[-2] * z.shape[-1]), strict=True):
        to[:some] = matrix[:some] @ coils  # slice by slice: at once it would take twice the memory
    return virtual


def emulated_weights(y: Tensor, *, iterations: int = 100) -> Tensor:
    """argmin_w Σ_i (|Σ_q w_q y_{i,q}| − Y_i)², complex (Q,): the emulated single coil of Tygert and Zbontar.

    Alternates between the phase of the combined image and a linear least-squares fit to Y times that phase, which never
    increases the objective. Starts from the virtual coil of largest energy.

    y: fully sampled coil images of one volume, complex (..., Q, H, W).
    """
    slices = _slices(y)
    Y = [rss(coils[..., None])[..., 0] for coils in slices]
    gram = coil_gram(y)
    ridge = 1e-6 * gram.diagonal().real.mean() * torch.eye(len(gram), device=y.device, dtype=y.dtype)
    w = compression_matrix(gram)[0]
    for _ in range(iterations):
        fits = [coils.conj() @ (Y_s * _phase(w @ coils)) for coils, Y_s in zip(slices, Y, strict=True)]
        w = torch.linalg.solve(gram.conj() + ridge, torch.stack(fits).sum(dim=0))
    return w


def emulate_single_coil(y: Tensor, weights: Tensor | None = None) -> Tensor:
    """Σ_q w_q y_q, complex (..., Q, H, W) → (..., 1, H, W); linear, so it holds in image space and in k-space alike."""
    weights = emulated_weights(y) if weights is None else weights
    return torch.einsum("q,...qhw->...hw", weights, y).unsqueeze(-3)


def _phase(image: Tensor) -> Tensor:
    """image / |image|, and 1 where it is 0."""
    return torch.where(image == 0, 1, torch.sgn(image))


def _slices(z: Tensor) -> list[Tensor]:
    """Views (Q, H·W) of the slices of (..., Q, H, W)."""
    return [part.flatten(1) for part in z.reshape(-1, *z.shape[-3:])]
