"""Calibrated error bounds as a model carries them: what they were made of, where they hold, and the bound itself.

    |X̄ − Y| ≤ λ (σ̂ + f max X̄)    for a share `level` of the pixels of a new subject

λ is found by `bounds/conformal.py`; the floor f keeps pixels without any spread from having a bound of 0. A relative
bound has the scan's expected RMS error (`bounds/expected.py`) in the place of max X̄: it widens where more was lost.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bayesmri.errors import ConfigError
from bayesmri.physics.pattern import (
    POINTS,
    MaskKind,
    centre_block,
    centre_run,
    kind_of,
    kind_words,
    n_center_lines,
    n_center_points,
)

Region = Literal["everywhere", "foreground"]
Images = NDArray[np.float32]

RELATIVE_FLOOR = 0.2  # f of the expected RMS error
FLOOR = 0.003  # f: gave the narrowest bounds on held-out training subjects
TOLERANCE = 0.05  # of the number of acquired lines: R = 3.9 is what R = 4 becomes with some numbers of columns
RARE = 1e-3  # probability that a mask of the setting itself is refused for its centre


@dataclass(frozen=True)
class Setting:
    """What σ̂ depends on, besides the model.

    acceleration, mask, center_fraction: of the lines or points, as for `MaskSpec`. arrays: least and most coils of the
    data, as the model was given them. samples, fast: how σ̂ was made (0 samples: predicted by the network itself).
    """

    acceleration: float
    mask: MaskKind = "random"
    center_fraction: float | None = None
    coil_mode: str = "raw"
    Q: int = 1
    arrays: tuple[int, int] = (1, 1)
    samples: int = 32
    fast: bool = False

    def misfit(self, mask: NDArray[np.bool_], *, coils: int, samples: int, fast: bool) -> str | None:
        """Why data of such lines, coils and samples is not of this setting; None where it is."""
        if (samples, fast) != (self.samples, self.fast):
            return f"it is for {_drawn(self.samples, self.fast)}, not {_drawn(samples, fast)}"
        least, most = self.arrays
        if not least <= coils <= most:
            return f"it is for {_span(least, most)}, the data has {coils}"
        return self._other_lines(mask)

    def _other_lines(self, mask: NDArray[np.bool_]) -> str | None:
        kind = kind_of(mask)
        if (mask.ndim == 2) != (self.mask in POINTS):
            return f"it is for {kind_words(self.mask)}, the data has {kind_words(kind or 'random')}"
        if mask.ndim == 2:
            return self._other_points(mask)
        W, lines = len(mask), int(mask.sum())
        if abs(lines - W / self.acceleration) > max(1.0, TOLERANCE * W / self.acceleration):
            return f"it is for R = {self.acceleration:g}, the data has R = {W / lines:.3g}"
        if kind not in (None, self.mask):
            return f"it is for {self.mask} masks, the data's is {kind}"
        want, run = n_center_lines(W, self.acceleration, self.center_fraction), centre_run(mask)
        share = max(0, lines - want) / max(1, W - want)  # of the lines outside the centre
        if not want - 1 <= run <= want + extra_lines(share, self.mask):
            return f"it is for {want} of {W} lines in the centre, the data has {run}"
        return None

    def _other_points(self, mask: NDArray[np.bool_]) -> str | None:
        """The same of points (H, W); a variable density makes the complete block larger than the centre asked for."""
        R, kind = mask.size / int(mask.sum()), kind_of(mask)
        if abs(self.acceleration / R - 1) > TOLERANCE:
            return f"it is for R = {self.acceleration:g}, the data has R = {R:.3g}"
        if kind != self.mask:
            return f"it is for {kind_words(self.mask)}, the data has {kind_words(kind or 'points')}"
        want = n_center_points(mask.shape, self.acceleration, self.center_fraction)
        block = centre_block(mask)
        if not all(n - 1 <= side <= 3 * n + 4 for n, side in zip(want, block, strict=True)):
            return f"it is for {want[0]}x{want[1]} points in the centre, the data has {block[0]}x{block[1]}"
        return None


@dataclass(frozen=True)
class Calibration:
    """One bound: a level in a setting.

    factor, floor: λ and f. region: the pixels that were counted. cap: the largest share of a subject's pixels that
    counts as missed; 1 counts all. subjects, volumes: calibrated with. slices: middle ones of every volume, None: all.
    coverage, worst: mean over these subjects, and the least covered of them. in_foreground: their mean coverage there,
    whatever the region. held_out: the mean when each subject is left out in turn; None where they are too few for that.
    relative: the floor is a share of the scan's expected RMS error, not of its maximum.
    provenance: settings, seed, versions, checksums of the data.
    """

    level: float
    factor: float
    floor: float
    region: Region
    setting: Setting
    cap: float
    subjects: int
    volumes: int
    coverage: float
    worst: float
    in_foreground: float | None = None
    held_out: float | None = None
    slices: int | None = None
    relative: bool = False
    method: str = "conformal risk control over subjects"
    provenance: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_level(self.level)
        if not (0 <= self.factor < float("inf") and 0 < self.floor < float("inf")):
            raise ConfigError(
                f"got a bound of factor {self.factor:g}, floor {self.floor:g}, expected finite numbers, floor > 0"
            )

    def bound(self, mean: Images, std: Images, rmse: float | None = None) -> Images:
        """λ (σ̂ + f max X̄) of a volume (slices, h, w), in its units. rmse: expected, for a relative bound."""
        width = unit_width(mean, std, floor=self.floor, rmse=rmse if self.relative else None)
        found: Images = np.asarray(self.factor * width, dtype=np.float32)
        return found

    @property
    def guarantee(self) -> str:
        """What is promised, in one sentence."""
        where = "" if self.region == "everywhere" else " of the foreground"
        if self.slices is not None:
            where += f" in the middle slice{'s' * (self.slices != 1)}"
        counted = "" if self.cap == 1 else f", no subject counting with more than {100 * self.cap:.3g} %"
        return (
            f"on a new subject exchangeable with the {self.subjects} calibrated, the expected share of pixels{where} "
            f"whose error exceeds the bound is at most {100 * (1 - self.level):.3g} %{counted}"
        )


def unit_width(
    mean: NDArray[np.floating], std: NDArray[np.floating], *, floor: float, rmse: float | None = None
) -> NDArray[np.float64]:
    """σ̂ + f max X̄, or σ̂ + f RMSE where one is expected: what λ scales, the same for calibration and use."""
    width: NDArray[np.float64] = std.astype(np.float64) + floor * (float(mean.max()) if rmse is None else rmse)
    return width


def extra_lines(share: float, kind: MaskKind) -> int:
    """How many more lines than were meant the centre of a mask shows, as those beside it are acquired too.

    Of random ones the number k on both sides is the sum of two geometric ones, and more than the result have a
    probability below RARE: P(k ≥ m) = pᵐ (1 + m (1 − p)), p the share of the lines outside that are acquired. Of
    equispaced ones there are no more than ⌈p / (1 − p)⌉ on either side, 1 where no two neighbours are acquired.
    """
    p = min(max(share, 0.0), 1 - 1e-3)
    if kind == "equispaced":
        return 2 * math.ceil(p / (1 - p))
    m = 1
    while p**m * (1 + m * (1 - p)) >= RARE:
        m += 1
    return m - 1


def check_level(level: float) -> float:
    if not 0 < level < 1:
        raise ConfigError(f"got the level {level:g}, expected a share between 0 and 1, such as 0.9")
    return level


def percent(share: float, form: str = ".4g") -> str:
    """100 × share, with more digits where a share below 1 would read as 100, or one above 0 as 0."""
    digits, kind = int(form[1:-1]), form[-1]
    text = f"{100 * share:.{digits}{kind}}"
    while 0 < share < 1 and float(text) in (0.0, 100.0) and digits < 16:
        digits += 1
        text = f"{100 * share:.{digits}{kind}}"
    return text


def _drawn(samples: int, fast: bool) -> str:
    return f"{samples} samples{' of the fast route' if fast else ''}"


def _span(least: int, most: int) -> str:
    if least == most:
        return "1 coil" if most == 1 else f"{most} coils"
    return f"{least} to {most} coils"
