"""fastMRI's two tracks on any data: every volume as one coil, or every volume as an array of coils."""

from dataclasses import replace

import numpy as np
import torch

from bayesmri.kspace import KSpace
from bayesmri.physics.fourier import fft2c, ifft2c
from bayesmri.physics.scene import loop_sensitivities


def with_array(kspace: KSpace, *, coils: int, seed: int) -> KSpace:
    """u_q = F(s_q · F⁻¹u): measured k-space of one coil as a simulated array would have received it, Σ_q |s_q|² = 1.

    Nothing else is added: phase and noise are the measured ones, and the root-sum-of-squares image stays as it was.
    Arrays that were measured stay as they are.
    """
    if kspace.z.shape[1] > 1:
        return kspace

    rng = torch.Generator().manual_seed(seed)
    H, W = kspace.z.shape[2:]
    s = loop_sensitivities(coils, (H, W), rng=rng)
    z = np.stack([fft2c(s * ifft2c(torch.from_numpy(part))).numpy() for part in kspace.z])
    return replace(kspace, z=z, reference=None, sensitivities=None)
