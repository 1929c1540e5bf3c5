"""How a fully sampled scan is undersampled: drawn by a rule, or a mask of the user's own."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bayesmri.config import check_seed
from bayesmri.errors import ConfigError, MaskError
from bayesmri.io.masks import read_mask
from bayesmri.kspace import KSpace

if TYPE_CHECKING:
    from torch import Tensor


RULES = ("random", "equispaced")


@dataclass(frozen=True)
class Sampling:
    """acceleration: R; None only with a mask file. mask: random, equispaced, or a file with one value per line."""

    acceleration: float | None = None
    center_fraction: float | None = None
    mask: str = "random"
    offset: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        asked = [
            *(["a center fraction"] if self.center_fraction is not None else []),
            *(["an equispaced mask"] if self.mask == "equispaced" else []),
            *(["an offset"] if self.offset is not None else []),
        ]
        if self.acceleration is None and self.mask in RULES and asked:
            raise ConfigError(
                f"{' and '.join(asked)} came without an acceleration: give one, such as 4, if the data is fully "
                "sampled; undersampled data has its own lines, leave that out"
            )
        if self.offset is not None and self.mask != "equispaced":
            raise ConfigError(f"offset {self.offset} came with the mask {self.mask}: it belongs to equispaced")
        if self.acceleration is not None and self.mask not in RULES:
            raise ConfigError(
                f"acceleration {self.acceleration:g} came with the mask {Path(self.mask).name}: "
                "a mask of your own has its own; leave one of the two out"
            )
        if self.center_fraction is not None and self.mask not in RULES:
            raise ConfigError(
                f"center fraction {self.center_fraction:g} came with the mask {self.mask}: "
                f"it belongs to {' and '.join(RULES)}"
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


def undersample(kspace: KSpace, sampling: Sampling, *, otherwise: str = "") -> KSpace:
    """z = M_R u, with the root-sum-of-squares of F⁻¹u as the truth; u must be fully sampled.

    otherwise: what to do with undersampled data.
    """
    check_full(kspace, otherwise=otherwise)
    return keep_lines(kspace, draw_mask(kspace.z.shape[-1], sampling))


def check_full(kspace: KSpace, *, otherwise: str = "") -> None:
    if not kspace.fully_sampled:
        raise MaskError(
            f"the data is already undersampled (R={kspace.acceleration:.3g}): "
            f"{otherwise or 'want fully sampled data; reconstruct this as it is'}"
        )


def keep_lines(kspace: KSpace, mask: NDArray[np.bool_]) -> KSpace:
    """The lines of a mask (W,) of fully sampled data, whose image becomes the truth."""
    return replace(kspace, z=kspace.z * mask, mask=mask, truth=fully_sampled_image(kspace.z))


def single_coil(kspace: KSpace) -> KSpace:
    """One emulated coil instead of many (Tygert and Zbontar), fitted to the root-sum-of-squares of the whole volume."""
    if kspace.z.shape[1] == 1:
        return kspace

    import torch

    from bayesmri.physics.coils import emulate_single_coil, emulated_weights
    from bayesmri.physics.fourier import ifft2c

    z = torch.from_numpy(kspace.z)
    y = torch.empty_like(z)
    for s, part in enumerate(z):
        y[s] = ifft2c(part)
    weights = emulated_weights(y)
    one = np.stack([emulate_single_coil(part, weights).numpy() for part in z])
    return replace(kspace, z=one, truth=None, reference=None, sensitivities=None)


def draw_mask(W: int, sampling: Sampling) -> NDArray[np.bool_]:
    """The mask of a sampling for W lines: bool (W,)."""
    if sampling.mask in RULES:
        return _drawn(W, sampling)
    mask = read_mask(Path(sampling.mask))
    if mask.shape != (W,):
        raise MaskError(f"the mask in {Path(sampling.mask).name} has {mask.size} lines: the k-space has {W}")
    return mask


def fully_sampled_image(u: NDArray[np.complex64]) -> NDArray[np.float32]:
    """Y = RSS(F⁻¹u), float32 (slices, H, W)."""
    import torch

    from bayesmri.complexes import rss
    from bayesmri.physics.fourier import ifft2c

    def image(part: NDArray[np.complex64]) -> "Tensor":
        return rss(ifft2c(torch.from_numpy(part)))

    return np.stack([image(part).numpy() for part in u])


def _drawn(W: int, sampling: Sampling) -> NDArray[np.bool_]:
    import torch

    from bayesmri.physics.mask import MaskSpec

    if sampling.acceleration is None:
        raise ConfigError(f"a {sampling.mask} mask came without an acceleration: give one, such as 4")
    spec = MaskSpec(
        "random" if sampling.mask == "random" else "equispaced",
        sampling.acceleration,
        sampling.center_fraction,
        sampling.offset,
    )
    mask: NDArray[np.bool_] = spec.draw(W, torch.Generator().manual_seed(sampling.seed)).numpy()
    return mask
