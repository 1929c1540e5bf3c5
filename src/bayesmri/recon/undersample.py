"""Fully sampled k-space undersampled, combined into one coil, and its image: what acquisitions do to data."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from bayesmri.complexes import rss
from bayesmri.errors import ConfigError, MaskError
from bayesmri.io.masks import read_mask
from bayesmri.kspace import KSpace
from bayesmri.messages import NOTHING, Messages, noted
from bayesmri.physics.coils import emulate_single_coil, emulated_weights
from bayesmri.physics.fourier import ifft2c
from bayesmri.physics.mask import MaskSpec
from bayesmri.physics.pattern import mask_kind
from bayesmri.recon.acquisition import RULES, Sampling


def undersample(kspace: KSpace, sampling: Sampling, *, otherwise: str = "") -> KSpace:
    """z = M_R u, with the root-sum-of-squares of F⁻¹u as the truth; u must be fully sampled.

    otherwise: what to do with undersampled data.
    """
    check_full(kspace, otherwise=otherwise)
    H, W = kspace.z.shape[-2:]
    top, bottom, left, right = kspace.header.encoded or (0, H, 0, W)
    if sampling.files or kspace.header.encoded is None:
        return keep_lines(kspace, draw_mask((H, W), sampling))
    mask = draw_mask((bottom - top, right - left), sampling)  # padding cannot be acquired
    return keep_lines(kspace, np.pad(mask, ((top, H - bottom), (left, W - right))[-mask.ndim :]))


def as_sampled(kspace: KSpace, sampling: Sampling) -> KSpace:
    """As `undersample`; of undersampled data a mask of the user's own says which lines were acquired."""
    if sampling.files and not kspace.fully_sampled:
        return acquired_lines(kspace, read_mask(sampling.files[0]))
    return undersample(kspace, sampling, otherwise=f"leave {sampling.given} out to reconstruct it as it is")


def acquired_lines(kspace: KSpace, mask: NDArray[np.bool_]) -> KSpace:
    """Undersampled data of which a mask says what was acquired; its reader may have been told before.

    The mask names lines (W,) or points (H, W), whatever the data's own does; some of what the data has.
    """
    H, W = kspace.z.shape[-2:]
    _, _, first, last = kspace.header.encoded or (0, 0, 0, W)
    if mask.shape == (last - first,):
        mask = np.pad(mask, (first, W - last))
    what = "lines" if mask.ndim == 1 else "points"
    if mask.shape not in ((W,), (H, W)):
        raise MaskError(
            f"the mask has {' x '.join(map(str, mask.shape))} values, expected one for each of the {W} lines of "
            f"k-space, or for each of its {H} x {W} points; correct the mask or leave it out"
        )
    own = kspace.mask
    there = own.any(axis=0) if own.ndim > mask.ndim else np.broadcast_to(own, mask.shape)
    if (mask & ~there).any():
        raise MaskError(
            f"the mask names {int((mask & ~there).sum())} {what} of which the data has nothing, expected some of those "
            f"that were acquired ({int(there.sum())} of {there.size} {what}); correct the mask or leave it out"
        )
    kept = mask & own if own.ndim > mask.ndim else mask
    return replace(kspace, z=np.where(kept, kspace.z, np.complex64(0)), mask=kept)


def left_out(before: KSpace, after: KSpace) -> Messages:
    """A note where a mask leaves out measured lines or points of undersampled data."""
    H, W = before.z.shape[-2:]
    n, m = (int(np.broadcast_to(kspace.mask, (H, W)).sum()) for kspace in (before, after))
    if before.fully_sampled or n == m:
        return NOTHING
    share = f"{100 * (n - m) / n:.3g} % of what was measured"
    return noted(f"the mask that was given says what was acquired: {share} was left out")


def check_full(kspace: KSpace, *, otherwise: str = "") -> None:
    if not kspace.fully_sampled:
        raise MaskError(
            f"the data is already undersampled (R={kspace.acceleration:.3g})"
            f"{f'; {otherwise}' if otherwise else ', expected fully sampled data; reconstruct this as it is'}"
        )


def keep_lines(kspace: KSpace, mask: NDArray[np.bool_]) -> KSpace:
    """The lines of a mask (W,), or the points of one (H, W), of fully sampled data, whose image becomes the truth."""
    return replace(kspace, z=kspace.z * mask, mask=mask, truth=fully_sampled_image(kspace.z))


def single_coil(kspace: KSpace) -> KSpace:
    """One emulated coil instead of many (Tygert and Zbontar), fitted to the root-sum-of-squares of the whole volume."""
    if kspace.z.shape[1] == 1:
        return kspace

    z = torch.from_numpy(kspace.z)
    y = torch.empty_like(z)
    for s, part in enumerate(z):
        y[s] = ifft2c(part)
    weights = emulated_weights(y)
    one = np.stack([emulate_single_coil(part, weights).numpy() for part in z])
    return replace(kspace, z=one, truth=None, reference=None, sensitivities=None, measured=kspace.z)


def draw_mask(shape: int | tuple[int, int], sampling: Sampling) -> NDArray[np.bool_]:
    """The mask of a sampling for k-space of W lines, or (H, W): bool (W,), or (H, W) where it is of points."""
    if sampling.mask in RULES:
        return _drawn(shape, sampling)
    mask, name = read_mask(Path(sampling.mask)), Path(sampling.mask).name
    W = shape if isinstance(shape, int) else shape[1]
    if mask.ndim == 2 and mask.shape != shape:
        grid = f"{W} lines" if isinstance(shape, int) else f"{shape[0]}x{W}"
        raise MaskError(f"the mask in {name} has {mask.shape[0]}x{mask.shape[1]} points: the k-space has {grid}")
    if mask.ndim == 1 and mask.shape != (W,):
        raise MaskError(f"the mask in {name} has {mask.size} lines: the k-space has {W}")
    return mask


def fully_sampled_image(u: NDArray[np.complex64]) -> NDArray[np.float32]:
    """Y = RSS(F⁻¹u), float32 (slices, H, W)."""

    def image(part: NDArray[np.complex64]) -> torch.Tensor:
        return rss(ifft2c(torch.from_numpy(part)))

    images = np.empty((len(u), *u.shape[2:]), np.float32)  # first: between the coils' it would tear holes into memory
    for s, part in enumerate(u):
        images[s] = image(part).numpy()
    return images


def _drawn(shape: int | tuple[int, int], sampling: Sampling) -> NDArray[np.bool_]:
    if sampling.acceleration is None:
        raise ConfigError(f"got the {sampling.mask} mask without an acceleration; give one, such as 4")
    spec = MaskSpec(
        mask_kind(sampling.mask),
        sampling.acceleration,
        sampling.center_fraction,
        sampling.offset,
    )
    mask: NDArray[np.bool_] = spec.draw(shape, torch.Generator().manual_seed(sampling.seed)).numpy()
    return mask
