"""Structures in k-space: the magnitude of the coils' image changes by a, every coil's phase stays."""

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from bayesmri.analysis.structures import Structure, change_of, draw_structures
from bayesmri.complexes import rss
from bayesmri.evaluation.table import derived_seed
from bayesmri.kspace import KSpace
from bayesmri.physics.fourier import fft2c, ifft2c
from bayesmri.recon.undersample import fully_sampled_image

COUNT = 10  # structures of a slice: two of each kind


def plant(u: NDArray[np.complex64], change: NDArray[np.floating]) -> NDArray[np.complex64]:
    """u + F(a x/X) of one slice (Q, H, W), with x = F⁻¹u and X = RSS(x): every x_q grows by 1 + a/X, so that X becomes
    X + a. Where X is 0 there is no phase to keep, and nothing is changed.

    change: a, (H, W), with X + a ≥ 0.
    """
    x = ifft2c(torch.from_numpy(u).to(torch.complex128))
    X, a = rss(x), torch.from_numpy(np.asarray(change, dtype=np.float64))
    growth = torch.where(X > 0, a / torch.where(X > 0, X, 1), 0)
    added: NDArray[np.complex64] = (torch.from_numpy(u) + fft2c(x * growth)).to(torch.complex64).numpy()
    return added


def plant_volume(full: KSpace, *, seed: int, name: str) -> tuple[KSpace, list[list[Structure]]]:
    """A fully sampled volume with structures in every slice, and which they are; they follow the seed and the name."""
    Y = fully_sampled_image(full.z)
    peak = float(Y.max())
    structures = [
        draw_structures(image, peak, rng=np.random.default_rng(derived_seed(seed, name, "structures", s)), count=COUNT)
        for s, image in enumerate(Y)
    ]
    shape = (Y.shape[1], Y.shape[2])
    z = [plant(u, change_of(part, shape)) for u, part in zip(full.z, structures, strict=True)]
    return replace(full, z=np.stack(z), truth=None), structures
