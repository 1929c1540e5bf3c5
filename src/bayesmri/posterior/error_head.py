"""σ_total: how far the image is from the truth, learned from errors that were seen on subjects kept out of training.

σ̂ is what the weights leave open; where all draws make the same mistake it is small and the mistake remains. A small
network on features of the reconstruction says how large the rest is:

    σ_total² = σ̂² + s²,   log(s / t) = a · φ + b + net(φ)

φ are features of the slice, centred and scaled as they were in training, and t is its typical brightness. All features
are ratios, so σ_total follows the scale of the data. There are two such networks: one for an image of which nothing
else was made (σ̂ is 0 then), and one that also sees what the reconstruction makes of its own image (`Rescans`).
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
from bayesmri.posterior.rescans import Rescans

N_MAPS, N_AGAIN, N_NUMBERS = 14, 8, 6
MOST_WEIGHTS = 20_000
FLOOR = 1e-6  # of t²: an error of a thousandth of the brightness is as good as none
FAINT = 1e-8  # the same of what an image scanned once more errs by, which is less
TINY = 1e-18
RANGE = 9.0  # of log s/t: an error of a ten-thousandth of the brightness


@final
@dataclass(frozen=True)
class ErrorHeadConfig:
    """features: on the finest of three scales, of both networks. scale, scale_again: found after training, so that
    errors have the size that each of them says.
    """

    features: int = 6
    scale: float = 1.0
    scale_again: float = 1.0

    def __post_init__(self) -> None:
        if self.features < 1 or not all(0 < scale < float("inf") for scale in (self.scale, self.scale_again)):
            raise ConfigError(f"got {self}, expected features of at least 1 and scales above 0")


@final
class Voice(nn.Module):
    """One of the two. Its last layer is zero at the start: it begins as the regression a · φ + b, fitted first."""

    centre: Tensor
    width: Tensor

    def __init__(self, n_in: int, features: int, rng: torch.Generator) -> None:
        super().__init__()
        self.layers = pyramid_layers(n_in, features, rng)
        self.out = nn.Parameter(torch.zeros(1, features, 1, 1))
        self.linear = nn.Parameter(torch.zeros(1, n_in, 1, 1))
        self.bias = nn.Parameter(torch.full((), math.log(0.1)))
        self.register_buffer("centre", torch.zeros(1, n_in, 1, 1))
        self.register_buffer("width", torch.ones(1, n_in, 1, 1))

    def forward(self, inputs: Tensor) -> Tensor:
        """log(s / t), (B, 1, H, W)."""
        phi = ((inputs - self.centre) / self.width).clamp(-FAR, FAR)
        said: Tensor = pyramid(self.layers, self.out, phi) + (self.linear * phi).sum(dim=1, keepdim=True) + self.bias
        return said


@final
class ErrorHead(nn.Module):
    """Both networks. alone: of a reconstruction. again: of one that was scanned once more."""

    def __init__(self, config: ErrorHeadConfig, rng: torch.Generator) -> None:
        super().__init__()
        self.config = config
        self.alone = Voice(N_MAPS + N_NUMBERS, config.features, rng)
        self.again = Voice(N_MAPS + N_AGAIN + N_NUMBERS, config.features, rng)
        n = sum(w.numel() for w in self.parameters())
        if n > MOST_WEIGHTS:
            raise ConfigError(f"got {n} weights of {config}, expected at most {MOST_WEIGHTS}; take fewer features")

    def voice(self, rescans: Rescans | None) -> Voice:
        """Which of the two speaks."""
        return self.alone if rescans is None else self.again

    def forward(self, seen: Evidence, variance: Tensor | None = None, rescans: Rescans | None = None) -> Tensor:
        """σ_total, (B, H, W), in the units of the images.

        variance: of the draws' images, (B, H, W); None without draws.
        """
        return self.total(self.rest(seen, rescans), variance, again=rescans is not None)

    def rest(self, seen: Evidence, rescans: Rescans | None = None) -> Tensor:
        """s, (B, H, W), before it is scaled."""
        inputs, t = features(seen, rescans)
        said = self.voice(rescans)(inputs)
        return (t * torch.exp(said.clamp(-RANGE, 1.0)))[:, 0]

    def total(self, s: Tensor, variance: Tensor | None, *, again: bool) -> Tensor:
        """σ_total of that, whoever found it. again: with rescans."""
        total = s.square() if variance is None else s.square() + variance
        return (self.config.scale_again if again else self.config.scale) * total.sqrt()


def features(seen: Evidence, rescans: Rescans | None = None) -> tuple[Tensor, Tensor]:
    """φ before it is centred, (B, 20 or 28, H, W), and t, (B, 1, 1, 1)."""
    X, _, d, f, r = (part[:, None] for part in seen[:5])
    t = typical(X).clamp_min(TINY)
    X, d, f, r = X / t, d / t, f / t, r / t
    gw, gh = slopes(X)
    smooth = blur(X, 2)
    local = (blur(X.square(), 2) - smooth.square()).clamp_min(0)
    powers = (d.square(), f.square())
    maps = [_log(X.square(), 1e-3)]
    maps += [_log(u) for w in powers for u in (w, blur(w, 1), blur(w, 4))]
    maps += [_log(blur(r.square(), 1)), _log(blur(r.square(), 4)), _log(blur(gw, 1)), _log(blur(gh, 1)), _log(local)]
    # a missing line folds along its row: what lies far to the left or right counts, what lies above does not
    maps += [_log(blur_along(blur(u, 1), 8, -1)) for u in (f.square(), gw)]
    for part in () if rescans is None else rescans:
        w = (part[:, None] / t).square()
        maps += [_log(u, FAINT) for u in (blur(w, 1), blur(w, 2), blur(w, 4), blur_along(blur(w, 1), 6, -1))]
    whole = X.square().mean(dim=(1, 2, 3)).clamp_min(TINY)
    numbers = [
        torch.log(seen.noise / t[:, 0, 0, 0] + 1e-4),
        4 * seen.missing,
        torch.log(seen.coils),
        *(_log(w.mean(dim=(1, 2, 3)) / whole, 1e-8) for w in (*powers, r.square())),
    ]
    constant = torch.stack(numbers, dim=1)[:, :, None, None].expand(-1, -1, *X.shape[-2:])
    return torch.cat([*maps, constant], dim=1), t


def _log(power: Tensor, floor: float = FLOOR) -> Tensor:
    return 0.5 * torch.log(power + floor)
