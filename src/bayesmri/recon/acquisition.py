"""How a fully sampled scan is undersampled: drawn by a rule, or a mask of the user's own."""

from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from bayesmri.config import check_seed
from bayesmri.errors import ConfigError
from bayesmri.physics.pattern import MaskKind

RULES: tuple[str, ...] = get_args(MaskKind)


@dataclass(frozen=True)
class Sampling:
    """acceleration: R; None only with a mask file.

    mask: random or equispaced lines, lines of one side (partial-fourier), points of a Poisson disc (poisson), without
        the corners (elliptical); or a file with one value per line, or per row and column.
    """

    acceleration: float | None = None
    center_fraction: float | None = None
    mask: str = "random"
    offset: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        asked = [
            *(["a center fraction"] if self.center_fraction is not None else []),
            *([f"{'an' if self.mask[0] == 'e' else 'a'} {self.mask} mask"] if self.mask != "random" else []),
            *(["an offset"] if self.offset is not None else []),
        ]
        if self.acceleration is None and self.mask in RULES and asked:
            raise ConfigError(
                f"got {' and '.join(asked)} without an acceleration; give one, such as 4, if the data is fully "
                "sampled; undersampled data has its own lines, leave that out"
            )
        if self.offset is not None and self.mask != "equispaced":
            raise ConfigError(
                f"got the offset {self.offset} with the mask {self.mask}, expected it with equispaced only; "
                "leave one of them out"
            )
        if self.acceleration is not None and self.mask not in RULES:
            raise ConfigError(
                f"got the acceleration {self.acceleration:g} with the mask {Path(self.mask).name}, "
                "but a mask of your own has its own; leave one of the two out"
            )
        if self.center_fraction is not None and self.mask not in RULES:
            raise ConfigError(
                f"got the center fraction {self.center_fraction:g} with the mask {self.mask}, "
                f"expected it with {' and '.join(RULES)} only; leave one of them out"
            )
        check_seed(self.seed)

    @property
    def files(self) -> list[Path]:
        """The mask's own file, where it is one."""
        return [] if self.mask in RULES else [Path(self.mask)]

    @property
    def given(self) -> str:
        """What asks for undersampling, in words."""
        return "the mask" if self.acceleration is None else "the acceleration"

    @property
    def needs_full_data(self) -> bool:
        """Whether anything is to be undersampled at all."""
        return self.acceleration is not None or self.mask not in RULES
