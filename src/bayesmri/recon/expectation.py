"""From what left-out lines told of every slice to the PSNR, NMSE and RMS error of the volume; no torch here."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bayesmri.bounds.expected import ErrorScale, Expected
from bayesmri.metrics import PSNR_CAP

TINY = 1e-30
NOT_FITTED = (
    "the expected error is by numbers that were fitted to other methods or data, with a wide interval; bayesmri "
    "calibrate --expected fits them"
)


@dataclass(frozen=True)
class Told:
    """One slice, before any scale.

    missing, misfit: ‖e‖² expected on missing lines and known on acquired ones. seen: κ_r. coherence: c.
    noise: its energy on missing lines. power: ‖Y‖² of what is shown, peak: its maximum, pixels: how many;
    grid: of all.
    error: ‖X − Y‖² of what is shown where nothing is missing.
    """

    missing: float
    misfit: float
    seen: float
    coherence: float
    noise: float
    power: float
    peak: float
    pixels: int
    grid: int
    error: float | None = None

    def total(self, scale: ErrorScale) -> float:
        return scale.total(self.missing, self.misfit)

    def magnitude(self, scale: ErrorScale) -> float:
        """‖X − Y‖² = κ ‖e‖²."""
        if self.error is not None:
            return self.error
        total = self.total(scale)
        return total * scale.kappa(self.seen, self.coherence, self.noise / max(total, TINY))


def expect(slices: Sequence[Told], scale: ErrorScale, *, left_out: int) -> Expected:
    """Of the volume. left_out: lines or points; 0 where none is missing."""
    exact = left_out == 0
    errors = [told.magnitude(scale) for told in slices]
    pixels, total = sum(told.pixels for told in slices), math.fsum(told.total(scale) for told in slices)
    peak = max(told.peak for told in slices) * (1.0 if exact else scale.peak)
    mse = math.fsum(errors) / pixels
    psnr = PSNR_CAP if mse <= peak**2 * 10 ** (-PSNR_CAP / 10) else 10 * math.log10(peak**2 / mse)
    wide = 0.0 if exact else scale.half_width(left_out)
    noise = math.fsum(told.noise for told in slices)
    return Expected(
        psnr=psnr,
        psnr_low=psnr - wide,
        psnr_high=min(PSNR_CAP, psnr + wide),
        nmse=math.fsum(errors) / max(math.fsum(told.power for told in slices), TINY),
        rmse=math.sqrt(mse),
        rmse_complex=math.sqrt(total / sum(told.grid for told in slices)),
        slices=tuple(math.sqrt(error / told.pixels) for error, told in zip(errors, slices, strict=True)),
        noise_share=0.0 if exact else min(1.0, noise / max(total, TINY)),
        left_out=left_out,
        exact=exact,
        fitted=exact or scale.fitted,
        note="" if exact or scale.fitted else NOT_FITTED,
    )
