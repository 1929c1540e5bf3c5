"""Small networks of every kind, and data for them, shared by the tests of the baselines."""

import torch
from torch import Tensor

from bayesmri.baselines.irim import IRIMConfig
from bayesmri.baselines.network import Network
from bayesmri.baselines.sigmanet import SigmaNetConfig
from bayesmri.baselines.unet import UNetConfig
from bayesmri.baselines.varnet import VarNetConfig
from bayesmri.model import LearnedConfig, build
from bayesmri.physics.fourier import fft2c
from bayesmri.physics.mask import random_mask
from laws import normal

KINDS = ("unet", "varnet", "irim", "sigmanet")


def small_config(kind: str, Q: int = 1) -> LearnedConfig:
    configs: dict[str, LearnedConfig] = {
        "unet": UNetConfig(Q=Q, features=4, pools=2),
        "varnet": VarNetConfig(Q=Q, cascades=2, features=4, pools=2, sens_features=3, sens_pools=2),
        "irim": IRIMConfig(Q=Q, steps=2, channels=4 * Q + 2, hidden=(6, 8, 6), strides=(1, 4, 2)),
        "sigmanet": SigmaNetConfig(Q=Q, iterations=2, features=3, blocks=2),
    }
    return configs[kind]


def small_network(kind: str, Q: int = 1, seed: int = 0) -> Network:
    network = build(small_config(kind, Q), torch.Generator().manual_seed(seed))
    assert isinstance(network, Network)
    return network


def measured(Q: int, H: int, W: int, *, B: int = 2, seed: int = 0) -> tuple[Tensor, Tensor]:
    """(z, mask) of B images with a mask each: complex64 (B, Q, H, W), bool (B, 1, 1, W)."""
    rng = torch.Generator().manual_seed(seed)
    mask = torch.stack([random_mask(W, 3, rng=rng) for _ in range(B)])[:, None, None]
    return mask * fft2c(normal(B, Q, H, W, seed=seed, dtype=torch.complex64)), mask
