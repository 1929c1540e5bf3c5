"""J(X, Y) = ‖X − Y‖₁ + τ(1 − SSIM(X, Y)) (eq. 5); the negative log likelihood for networks that predict σ², too."""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from bayesmri.errors import ConfigError
from bayesmri.metrics import ssim_batch

LEAST = 1e-12  # variance, of images of maximum about 1: an empty image has none, and no logarithm


@dataclass(frozen=True)
class LossConfig:
    """kind: l1, the paper's J; nll, the Gaussian negative log likelihood in place of ‖·‖₁, for a model with `variance`.

    tau: weight of the SSIM term; the paper does not give it.
    reduction: ‖·‖₁ is a sum over pixels (the paper) or their mean; τ belongs to one of the two.
    ssim_range: the data range of SSIM; images are scaled to a maximum of about 1.
    """

    kind: Literal["l1", "nll"] = "l1"
    tau: float = 0.0
    reduction: Literal["sum", "mean"] = "sum"
    ssim_range: float = 1.0

    def __post_init__(self) -> None:
        if not self.tau >= 0 or not self.ssim_range > 0:
            raise ConfigError(
                f"got a loss with tau = {self.tau}, ssim_range = {self.ssim_range}, expected tau ≥ 0, range > 0"
            )


def loss(X: Tensor, Y: Tensor, config: LossConfig) -> Tensor:
    """J of every image: real (B, H, W) → (B,)."""
    return _total((X - Y).abs(), X, Y, config)


def likelihood_loss(X: Tensor, variance: Tensor, Y: Tensor, config: LossConfig) -> Tensor:
    """−log N(Y; X, σ²) = ½ ((X − Y)²/σ² + ln σ²) + const in place of |X − Y|: real (B, H, W) → (B,)."""
    variance = variance.clamp(min=LEAST)
    return _total(0.5 * ((X - Y).square() / variance + variance.log()), X, Y, config)


def _total(cost: Tensor, X: Tensor, Y: Tensor, config: LossConfig) -> Tensor:
    J = cost.sum(dim=(-2, -1)) if config.reduction == "sum" else cost.mean(dim=(-2, -1))
    return J + config.tau * (1 - ssim_batch(X, Y, config.ssim_range)) if config.tau > 0 else J
