"""The error of a scan as it is to be expected without the truth, and the few numbers that scale it; no torch here."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bayesmri.bounds.left_out import N_FOLDS
from bayesmri.errors import ConfigError

NEAR = math.log(1.5)  # of accelerations: a scale of R = 4 is none for R = 8
WORDS = "left-out lines"
ENOUGH, MANY = 32, 48  # left-out lines that the spread is told for, and beyond which more help no more
SEEN = (0.05, 0.6, -1.1)  # g where no calibration says otherwise


@dataclass(frozen=True)
class ErrorScale:
    """What other scans tell about a method, at an R and for numbers of coils.

    bias: of the energy that left-out lines predict of missing ones, actual over predicted.
    seen: g of the share of the complex error's energy which the magnitude sees, κ = κ_r exp(g₀ + g₁ c + g₂ ν): errors
    of smooth phase are in phase with the image, of which left-out lines, without their mirror images, show only half;
    noise is not in phase.
    peak: maximum of the truth over the one expected.
    spread_db: PSNR ± that times (ENOUGH / lines left out)^½ held 90 % of the scans.
    volumes, subjects: fitted with; 0 are the default numbers.
    """

    spread_db: float
    arrays: tuple[int, int] = (1, 1)
    acceleration: float = 4.0
    bias: float = 1.0
    seen: tuple[float, float, float] = SEEN
    peak: float = 1.0
    volumes: int = 0
    subjects: int = 0
    provenance: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        numbers = (self.spread_db, self.bias, self.peak, *self.seen)
        if not (all(map(math.isfinite, numbers)) and min(self.spread_db, self.bias, self.peak) > 0):
            raise ConfigError(
                f"got an expected error of bias {self.bias:g}, peak {self.peak:g} and spread {self.spread_db:g} dB, "
                "expected finite positive numbers"
            )

    @property
    def fitted(self) -> bool:
        return self.volumes > 0

    def half_width(self, left_out: int) -> float:
        """Of the interval of PSNR, in dB: wider where fewer lines tell."""
        return self.spread_db * math.sqrt(ENOUGH / min(max(left_out, 1), MANY))

    def total(self, missing: float, misfit: float) -> float:
        """‖e‖² of the coil images from what is expected on missing lines and known on acquired ones."""
        return self.bias * missing + misfit

    def kappa(self, seen: float, coherence: float, noise: float) -> float:
        """κ ≤ 1. seen: κ_r. noise: ν, its share of ‖e‖²."""
        g0, g1, g2 = self.seen
        return min(1.0, seen * math.exp(g0 + g1 * coherence + g2 * min(1.0, noise)))


DEFAULT = ErrorScale(spread_db=3.0)


def scale_for(known: Sequence[ErrorScale], *, coils: int, acceleration: float) -> ErrorScale:
    """The one fitted for so many coils at the nearest R, not too far from it; else the default numbers."""
    fitting = [
        (apart, scale)
        for scale in known
        if scale.arrays[0] <= coils <= scale.arrays[1]
        and (apart := abs(math.log(acceleration / scale.acceleration))) <= NEAR
    ]
    return min(fitting, key=lambda pair: pair[0])[1] if fitting else DEFAULT


@dataclass(frozen=True)
class Expected:
    """PSNR, NMSE and RMS error that the image would have against the fully sampled one, as fastMRI counts them.

    psnr_low, psnr_high: hold 90 % of scans. rmse: of the magnitude, in the units of the image; rmse_complex: of the
    coil images; slices: rmse of every slice.
    noise_share: of the error's energy, at most that much is noise of the missing lines, which no method can know.
    left_out: lines, or points, that were left out, in so many folds. exact: nothing is missing, so nothing was guessed.
    fitted: the scale was fitted for this method and kind of data. note: what limits it, "" where nothing does.
    """

    psnr: float
    psnr_low: float
    psnr_high: float
    nmse: float
    rmse: float
    rmse_complex: float
    slices: tuple[float, ...]
    noise_share: float
    left_out: int
    folds: int = N_FOLDS
    method: str = WORDS
    exact: bool = False
    fitted: bool = False
    note: str = ""

    @property
    def sentence(self) -> str:
        """ "expected 31.2 dB ± 0.5, measured without a reference"."""
        if self.exact:
            return f"{self.psnr:.1f} dB against the image of all lines, of which none is missing"
        return f"expected {self.psnr:.1f} dB ± {(self.psnr_high - self.psnr_low) / 2:.1f}, measured without a reference"
