"""σ̂ from a few exact samples: a small network distilled from fresh draws, shipped with the model.

K samples say where σ is large, but with noise of relative size 1/√(2K), and a good part of it is shared by the whole
image: a few directions of θ move all of it together, and no smoothing helps against that. What such maps look like,
and how large they are, is the same for all slices of a model and can be learned: the network takes the deterministic
image X_μ, the zero-filled X₀ and the moments of the K samples, of their images and of the complex coil images behind
them, which vary together with them and have more degrees of freedom, and corrects a smoothed standard deviation,

    v = (1/K) Σ_i (X_i − X_μ)²,   c = (1/K) Σ_i Σ_q |x_{i,q} − x_{μ,q}|²,   log σ̂ = ½ log(G ∗ v) + a·φ + b + net(φ).

All features φ are ratios, so the estimate follows the scale of the data; among them is that of the samples' deviation
to the image's brightness, by which draws that all went too far, or not far enough, can be told. The mean of all samples
is estimated too, as X̄ ≈ X_μ + w_K ((1/K) Σ_i X_i − X_μ) with w_K = K/(K + κ): X_μ has a bias and K samples have noise,
κ weighs them.
"""

from dataclasses import dataclass
from typing import NamedTuple, final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bayesmri.errors import ConfigError
from bayesmri.posterior.pyramid import pyramid, pyramid_layers

N_FEATURES = 21
FLOOR = 1e-4  # of the typical variance: below, logarithms of a variance say nothing
DIM = 1e-6  # of the brightness squared, likewise
TINY = 1e-18  # whose square single precision still holds
WIDTHS = (1, 4)  # of the Gaussian windows, in pixels
ALIASED = 8  # along a row: where a missing line folds to
FAR = 4.0  # of a feature from its centre, in widths: beyond, nothing was learned


class Few(NamedTuple):
    """What K samples of slices say, (B, H, W) each.

    at_mean, zero_filled: X_μ and X₀ of the same data. mean, variance: of the K images, with 1/K.
    coil_power: c, how far their coil images lie from those at the mean of θ.
    """

    at_mean: Tensor
    zero_filled: Tensor
    mean: Tensor
    variance: Tensor
    coil_power: Tensor
    K: int


@final
@dataclass(frozen=True)
class PredictorConfig:
    """features: on the finest of the three scales. kappa: κ, found with the weights. most: K it learned from."""

    features: int = 16
    kappa: float = 0.0
    most: int = 8

    def __post_init__(self) -> None:
        if self.features < 1 or not 0 <= self.kappa < float("inf") or self.most < 2:
            raise ConfigError(
                f"got {self}, expected features of at least 1, kappa of at least 0 and most of at least 2"
            )


@final
class Predictor(nn.Module):
    """A U-shaped network of eight convolutions on three scales beside a regression, zero at the start: it begins as the
    smoothed map."""

    centre: Tensor
    width: Tensor

    def __init__(self, config: PredictorConfig, rng: torch.Generator) -> None:
        super().__init__()
        self.config = config
        self.layers = pyramid_layers(N_FEATURES, config.features, rng)
        self.out = nn.Parameter(torch.zeros(1, config.features, 1, 1))
        self.linear = nn.Parameter(torch.zeros(1, N_FEATURES, 1, 1))
        self.bias = nn.Parameter(torch.zeros(()))
        self.register_buffer("centre", torch.zeros(1, N_FEATURES, 1, 1))
        self.register_buffer("width", torch.ones(1, N_FEATURES, 1, 1))

    def std(self, few: Few) -> Tensor:
        """σ̂, (B, H, W), in the units of the images."""
        log_std, _, scale = self.log_std(few)
        return (torch.exp(log_std) * scale)[:, 0]

    def log_std(self, few: Few) -> tuple[Tensor, Tensor, Tensor]:
        """log σ̂ over the scale and the same of the smoothed map, (B, 1, H, W); the scale, (B, 1, 1, 1)."""
        inputs, start, scale = features(few)
        return start + self(inputs), start, scale

    def mean(self, few: Few) -> Tensor:
        """X̄, (B, H, W)."""
        return few.at_mean + few.K / (few.K + self.config.kappa) * (few.mean - few.at_mean)

    def forward(self, inputs: Tensor) -> Tensor:
        """The correction of log σ̂, (B, 1, H, W), from the features (B, 21, H, W)."""
        phi = self.centred(inputs)
        return pyramid(self.layers, self.out, phi) + (self.linear * phi).sum(dim=1, keepdim=True) + self.bias

    def centred(self, inputs: Tensor) -> Tensor:
        """φ: the features around what was usual in training."""
        return ((inputs - self.centre) / self.width).clamp(-FAR, FAR)


def features(few: Few) -> tuple[Tensor, Tensor, Tensor]:
    """Ratios (B, 21, H, W); ½ log of the smoothed variance (B, 1, H, W); the scale that both lack, (B, 1, 1, 1)."""
    X, X0, mean, variance, c = (part[:, None] for part in few[:5])
    v = variance + (mean - X).square()
    scale, bright = typical(v).sqrt().clamp_min(TINY), typical(X).clamp_min(TINY)
    v, c, away = v / scale.square(), c / scale.square(), (mean - X).abs() / scale
    logs = [_log(u) for w in (c, v) for u in (w, *(blur(w, width) for width in WIDTHS))]
    X, D = X / bright, ((X - X0) / bright).square()
    gw, gh = slopes(X)
    local = (blur(X.square(), 2) - blur(X, 2).square()).clamp_min(0)
    maps = [
        *logs,
        _log(blur_along(v, ALIASED, -1)),
        torch.log(away + 0.01),
        _log(X.square(), 1e-3),
        *(_log(u, DIM) for u in (D, *(blur(D, width) for width in WIDTHS), blur(gw, 1), blur(gh, 1), local)),
        *(_log(blur_along(blur(u, 1), ALIASED, -1), DIM) for u in (D, gw)),
    ]
    numbers = [
        torch.full_like(scale, few.K**-0.5),
        torch.log((scale / bright).clamp(1e-6, 1e3)),
        _log(typical(c)),
        _log(typical(D), DIM),
    ]
    return torch.cat([*maps, *(number.expand_as(X) for number in numbers)], dim=1), logs[-1], scale


def _log(power: Tensor, floor: float = FLOOR) -> Tensor:
    return 0.5 * torch.log(power + floor)


def slopes(X: Tensor) -> tuple[Tensor, Tensor]:
    """Squared differences of neighbours along the columns' axis and along the rows', 0 at the far edge."""
    gw, gh = torch.zeros_like(X), torch.zeros_like(X)
    gw[..., :-1] = X.diff(dim=-1).square()
    gh[..., :-1, :] = X.diff(dim=-2).square()
    return gw, gh


def typical(v: Tensor) -> Tensor:
    """Σ v² / Σ v of every slice, (B, 1, 1, 1): a mean that the share of empty background does not move."""
    size = v.amax(dim=(1, 2, 3), keepdim=True).clamp_min(TINY**2)  # so that squares stay within single precision
    u = v / size
    return size * u.square().sum(dim=(1, 2, 3), keepdim=True) / u.sum(dim=(1, 2, 3), keepdim=True).clamp_min(TINY)


def blur(v: Tensor, width: int) -> Tensor:
    """G ∗ v with a Gaussian window of that standard deviation, edges repeated: (B, 1, H, W)."""
    return blur_along(blur_along(v, width, -2), width, -1)


def blur_along(v: Tensor, width: int, axis: int) -> Tensor:
    """The same along one of the axes −2 and −1 alone."""
    reach = 3 * width
    g = torch.exp(-0.5 * (torch.arange(-reach, reach + 1, dtype=v.dtype, device=v.device) / width) ** 2)
    g = g / g.sum()
    rows = axis == -2
    padded = F.pad(v, (0, 0, reach, reach) if rows else (reach, reach, 0, 0), mode="replicate")
    return F.conv2d(padded, g[None, None, :, None] if rows else g[None, None, None, :])


def fit_kappa(bias: float, noise: float) -> float:
    """κ of the weight w_K with the least error: the variance of one sample over the squared bias of X_μ.

    bias, noise: mean over pixels of (X_μ − X̄)² and of the samples' variance.
    """
    return noise / max(bias, 1e-12 * noise, torch.finfo(torch.float64).tiny)
