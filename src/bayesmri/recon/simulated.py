"""Phantoms and magnitude images as a scanner would measure them."""

from collections.abc import Callable
from contextlib import nullcontext

import numpy as np
import torch
from numpy.typing import NDArray

from bayesmri.config import check_seed
from bayesmri.data.phantom import PhantomSpec, phantom
from bayesmri.data.simulate import Scanner, acquire
from bayesmri.kspace import Header, Images, KSpace
from bayesmri.recon.files import PhantomRequest, Progress
from bayesmri.recon.undersample import fully_sampled_image


def measured(images: Images, scanner: Scanner, *, seed: int, on_slice: Callable[[], None] | None = None) -> KSpace:
    """Fully sampled k-space of the images, divided by their maximum; `truth` is the image of what was measured."""
    rng = torch.Generator().manual_seed(check_seed(seed))
    u = acquire(torch.from_numpy(_unit_maximum(images.magnitude)), scanner, rng=rng, on_slice=on_slice).numpy()
    return KSpace(u, np.ones(u.shape[-1], dtype=bool), images.header, truth=fully_sampled_image(u))


def phantom_images(request: PhantomRequest, *, seed: int, progress: Progress | None = None) -> Images:
    """The magnitude of a phantom; anatomy follows the seed, apart from the scanner's draws."""
    spec = PhantomSpec(anatomy=request.anatomy, contrast=request.contrast, shape=request.shape, slices=request.slices)
    rng = torch.Generator().manual_seed(check_seed(seed))
    with progress(request.slices) if progress else nullcontext() as advance:
        magnitude = phantom(spec, rng=rng, on_slice=advance).numpy()
    header = Header(
        source="phantom", acquisition=f"phantom {request.anatomy} {request.contrast}", patient_id=f"phantom {seed}"
    )
    return Images(magnitude=magnitude, header=header)


def _unit_maximum(magnitude: NDArray[np.float32]) -> NDArray[np.float32]:
    """Divided by the volume's maximum: scanners' units are arbitrary, and files of one scale are easier to compare."""
    peak = float(magnitude.max())
    return magnitude / np.float32(peak) if peak > 0 else magnitude
