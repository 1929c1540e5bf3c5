"""σ_total: how far the image is from the truth, learned from errors that were seen on subjects kept out of training.

σ̂ is what the weights leave open; where all draws make the same mistake it is small and the mistake remains. A small
network on features of one reconstruction, and of a few draws where there are any, says how large the rest is:

    σ_total² = σ̂² + s²,   log(s / t) = a · φ + b + net(φ)

φ are features of the slice, centred and scaled as they were in training, and t is its typical brightness. All features
are ratios, so σ_total follows the scale of the data. Without draws σ̂ is 0 here and s stands for all.
"""

import math
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn

from bayesmri.errors import ConfigError
from bayesmri.posterior.evidence import Evidence
from bayesmri.posterior.predictor import FAR, blur, blur_along, slopes, typical
from bayesmri.posterior.pyramid import pyramid, pyramid_layers

N_MAPS, N_NUMBERS = 18, 7
MOST_WEIGHTS = 20_000
FLOOR = 1e-6  # of t²: an error of a thousandth of the brightness is as good as none
TINY = 1e-18
MOST_DRAWS = 6  # that heads learn from: of more, σ̂ is no better known to them
RANGE = 9.0  # of log s/t: an error of a ten-thousandth of the brightness


@final
@dataclass(frozen=True)
class ErrorHeadConfig:
    """features: on the finest of three scales. scale: found after training, so that errors have the size it says."""

    features: int = 9
    scale: float = 1.0

    def __post_init__(self) -> None:
        if self.features < 1 or not 0 < self.scale < float("inf"):
            raise ConfigError(f"got {self}, expected features of at least 1 and a scale above 0")


@final
class ErrorHead(nn.Module):
    """The network, its last layer zero at the start: it begins as the regression a · φ + b, which is fitted first."""

    centre: Tensor
    width: Tensor

    def __init__(self, config: ErrorHeadConfig, rng: torch.Generator) -> None:
        super().__init__()
        self.config = config
        self.layers = pyramid_layers(N_MAPS + N_NUMBERS, config.features, rng)
        self.out = nn.Parameter(torch.zeros(1, config.features, 1, 1))
        self.linear = nn.Parameter(torch.zeros(1, N_MAPS + N_NUMBERS, 1, 1))
        self.bias = nn.Parameter(torch.full((), math.log(0.1)))
        self.register_buffer("centre", torch.zeros(1, N_MAPS + N_NUMBERS, 1, 1))
        self.register_buffer("width", torch.ones(1, N_MAPS + N_NUMBERS, 1, 1))
        n = sum(w.numel() for w in self.parameters())
        if n > MOST_WEIGHTS:
            raise ConfigError(f"got {n} weights of {config}, expected at most {MOST_WEIGHTS}; take fewer features")

    def forward(self, seen: Evidence, variance: Tensor | None = None, K: int = 0) -> Tensor:
        """σ_total, (B, H, W), in the units of the images.

        variance: of K draws' images, (B, H, W); None without draws.
        """
        inputs, t = features(seen, variance, K)
        phi = ((inputs - self.centre) / self.width).clamp(-FAR, FAR)
        said = pyramid(self.layers, self.out, phi) + (self.linear * phi).sum(dim=1, keepdim=True) + self.bias
        s2 = (t * torch.exp(said.clamp(-RANGE, 1.0)))[:, 0].square()
        total = s2 if variance is None else s2 + variance
        return self.config.scale * total.sqrt()


def features(seen: Evidence, variance: Tensor | None, K: int) -> tuple[Tensor, Tensor]:
    """φ before it is centred, (B, 25, H, W), and t, (B, 1, 1, 1)."""
    X, _, d, f, r = (part[:, None] for part in seen[:5])
    t = typical(X).clamp_min(TINY)
    X, d, f, r = X / t, d / t, f / t, r / t
    v = torch.zeros_like(X) if variance is None else variance[:, None] / t.square()
    gw, gh = slopes(X)
    smooth = blur(X, 2)
    local = (blur(X.square(), 2) - smooth.square()).clamp_min(0)
    powers = (d.square(), f.square())
    maps = [_log(X.square(), 1e-3)]
    maps += [_log(u) for w in powers for u in (w, blur(w, 1), blur(w, 4))]
    maps += [_log(blur(r.square(), 1)), _log(blur(r.square(), 4)), _log(blur(gw, 1)), _log(blur(gh, 1)), _log(local)]
    maps += [_log(u, 1e-8) for u in (v, blur(v, 1), blur(v, 4))]
    # a missing line folds along its row: what lies far to the left or right counts, what lies above does not
    maps += [_log(blur_along(blur(u, 1), 8, -1)) for u in (f.square(), gw)] + [_log(blur_along(v, 8, -1), 1e-8)]
    whole = X.square().mean(dim=(1, 2, 3)).clamp_min(TINY)
    numbers = [
        torch.full_like(whole, min(K, MOST_DRAWS) ** -0.5 if K else 0.0),
        torch.log(seen.noise / t[:, 0, 0, 0] + 1e-4),
        4 * seen.missing,
        torch.log(seen.coils),
        *(_log(w.mean(dim=(1, 2, 3)) / whole, 1e-8) for w in (*powers, r.square())),
    ]
    constant = torch.stack(numbers, dim=1)[:, :, None, None].expand(-1, -1, *X.shape[-2:])
    return torch.cat([*maps, constant], dim=1), t


def _log(power: Tensor, floor: float = FLOOR) -> Tensor:
    return 0.5 * torch.log(power + floor)
