"""J(X, Y) = ‖X − Y‖₁ + τ(1 − SSIM(X, Y)) (eq. 5)."""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from bayesmri.errors import ConfigError
from bayesmri.metrics import ssim_batch


@dataclass(frozen=True)
class LossConfig:
    """tau: weight of the SSIM term; the paper does not give it.

    reduction: ‖·‖₁ is a sum over pixels (the paper) or their mean; τ belongs to one of the two.
    ssim_range: the data range of SSIM; images are scaled to a maximum of about 1.
    """

    tau: float = 0.0
    reduction: Literal["sum", "mean"] = "sum"
    ssim_range: float = 1.0

    def __post_init__(self) -> None:
        if not self.tau >= 0 or not self.ssim_range > 0:
            raise ConfigError(f"loss with tau = {self.tau}, ssim_range = {self.ssim_range}: want tau ≥ 0, range > 0")


def loss(X: Tensor, Y: Tensor, config: LossConfig) -> Tensor:
    """J of every image: real (B, H, W) → (B,)."""
    error = (X - Y).abs()
    J = error.sum(dim=(-2, -1)) if config.reduction == "sum" else error.mean(dim=(-2, -1))
    return J + config.tau * (1 - ssim_batch(X, Y, config.ssim_range)) if config.tau > 0 else J
