"""Total variation: min_x ½‖Ax − z‖² + λ TV(x), solved exactly by splitting, each step in closed form."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from bayesmri.complexes import norm, rss
from bayesmri.errors import ConfigError
from bayesmri.physics.fourier import AXES, ifft2c
from bayesmri.regularizers.tv import differences, differences_adjoint


@dataclass(frozen=True)
class TotalVariation:
    """TV(x) = Σ_d Σ_i (Σ_q |(∂_d x_q)_i|²)^{1/2}, periodic; the coils share their edges. For Q=1 it is SigPy's TV.

    weight: λ, for z scaled so that the zero-filled image has maximum 1.
    iterations: at most; ends earlier once a step changes x by less than `tolerance`, relative to its norm.
    """

    weight: float = 3e-3
    iterations: int = 100
    tolerance: float = 1e-4

    def __post_init__(self) -> None:
        if not (self.weight >= 0 and math.isfinite(self.weight)):
            raise ConfigError(f"got the TV weight {self.weight:g}, expected a number of at least 0, such as 0.003")
        if self.iterations < 1:
            raise ConfigError(f"got {self.iterations} TV iterations, expected at least 1")

    def __call__(self, z: Tensor, mask: Tensor) -> Tensor:
        if self.weight == 0:
            return ifft2c(mask * z)
        # periodic differences do not care where an image begins: shift once, not at every transform
        axes = (-1,) if mask.ndim == 1 else AXES
        x: Tensor = torch.fft.fftshift(self._split(_unshifted(z * mask, AXES), _unshifted(mask, axes)), dim=AXES)
        return x

    def _split(self, z: Tensor, mask: Tensor) -> Tensor:
        """Alternating direction method of multipliers with p = ∇x, scaled dual b and over-relaxation.

            x ← F⁻¹[(M*z + ρ F∇*(p − b)) / (M + ρ|∇̂|²)],   p ← shrink_{λ/ρ}(∇x + b),   b ← b + ∇x − p

        The x-step is exact because periodic differences and A*A are both diagonal in k-space.
        """
        rho = self.weight / THRESHOLD
        inverse = _inverse(mask + rho * _symbol(z))
        x: Tensor = torch.fft.ifft2(z, norm="ortho")
        p = _shrink(differences(x), THRESHOLD)
        b = torch.zeros_like(p)
        for _ in range(self.iterations):
            previous = x
            back = torch.fft.fft2(differences_adjoint(p - b), norm="ortho")
            x = torch.fft.ifft2((z + rho * back) * inverse, norm="ortho")
            d = RELAXATION * differences(x) + (1 - RELAXATION) * p
            p = _shrink(d + b, THRESHOLD)
            b = b + d - p
            if norm(x - previous) <= self.tolerance * norm(x):
                break
        return x


THRESHOLD = 0.02  # λ/ρ, in units of the image's maximum: an edge worth keeping; sets the speed, not the solution
RELAXATION = 1.6


def _unshifted(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    unshifted: Tensor = torch.fft.ifftshift(x, dim=axes)
    return unshifted


def _symbol(z: Tensor) -> Tensor:
    """|∇̂|² = 4 sin²(πk/H) + 4 sin²(πl/W) for the frequencies of z in the order of an uncentred FFT, real (H, W)."""
    H, W = z.shape[-2:]
    rows, cols = (
        4 * torch.sin(math.pi * torch.arange(n, device=z.device, dtype=z.real.dtype) / n) ** 2 for n in (H, W)
    )
    return rows[:, None] + cols


def _inverse(diagonal: Tensor) -> Tensor:
    """1/diagonal, and 0 where a frequency is neither measured nor regularized (its minimum-norm value)."""
    return torch.where(diagonal > 0, 1 / diagonal, 0)


def _shrink(p: Tensor, threshold: float) -> Tensor:
    """prox of threshold·Σ_d Σ_i ‖p_{d,i}‖ over the coils: shortens each vector by at most the threshold."""
    return p * (1 - threshold / rss(p).clamp_min(threshold)).unsqueeze(-3)
