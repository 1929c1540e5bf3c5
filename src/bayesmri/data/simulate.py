"""From a magnitude image to the k-space a scanner could have measured: u = F(s_q · e^{iφ} · X) + ν."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from bayesmri.errors import ConfigError
from bayesmri.io.guard import byte_budget, human, sizes
from bayesmri.physics.fourier import fft2c
from bayesmri.physics.scene import add_noise, loop_sensitivities, smooth_phase

MAX_DB = 200  # beyond the precision of any number here


@dataclass(frozen=True)
class Scanner:
    """coils: receive loops Q; snr_db: power signal-to-noise ratio of k-space, None for none; phase: std in radians."""

    coils: int = 1
    snr_db: float | None = None
    phase: float = 1.0

    def __post_init__(self) -> None:
        if self.snr_db is not None and not abs(self.snr_db) <= MAX_DB:
            raise ConfigError(
                f"got a signal-to-noise ratio of {self.snr_db:g} dB, expected a number from −{MAX_DB} to {MAX_DB}, "
                "such as 30"
            )


def acquire(
    magnitude: Tensor, scanner: Scanner, *, rng: torch.Generator, on_slice: Callable[[], None] | None = None
) -> Tensor:
    """Fully sampled k-space u, complex64 (slices, Q, H, W), of magnitude images (slices, H, W).

    One coil array serves the volume; the phase drifts from slice to slice; Σ_q |s_q|² = 1, so without noise the
    root-sum-of-squares of F⁻¹u is the magnitude again.
    """
    shape = (magnitude.shape[-2], magnitude.shape[-1])
    _check_size((len(magnitude), scanner.coils, *shape))
    s = loop_sensitivities(scanner.coils, shape, rng=rng)
    first, last = (smooth_phase(shape, rng=rng, strength=scanner.phase) for _ in range(2))
    share = torch.linspace(0, 1, len(magnitude))
    u = torch.empty(len(magnitude), scanner.coils, *shape, dtype=s.dtype)
    for i, t in enumerate(share):
        image = torch.polar(magnitude[i].float(), (1 - t) * first + t * last)
        u[i] = fft2c(s * image)
        if on_slice is not None:
            on_slice()
    return u if scanner.snr_db is None else add_noise(u, scanner.snr_db, rng=rng)


def _check_size(shape: tuple[int, ...]) -> None:
    """Within the limit for files: what could not be read back is not simulated."""
    asked, limit = math.prod(shape) * 8, byte_budget()
    if asked > limit:
        raise ConfigError(
            f"got a request for k-space of {sizes(shape)} values = {human(asked)}, expected at most {human(limit)}; "
            "take fewer slices, coils or pixels, or set BAYESMRI_MAX_BYTES"
        )
