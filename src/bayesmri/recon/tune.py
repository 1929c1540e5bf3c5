"""ρ and the number of steps, chosen for one scan by the lines that are left out of it.

Of the middle slice two of the four folds are left out in turn. The unrolled scheme is run with ρ times each of a short
list and for twice its steps; one run passes all numbers of steps. What is nearest to the left-out lines is taken for
all slices.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bayesmri.bounds.left_out import LEAST, folds
from bayesmri.errors import ConfigError
from bayesmri.physics.fourier import fft2c
from bayesmri.recon.check import Scan
from bayesmri.recon.method import Method

FACTORS = (0.35, 0.6, 1.0, 1.5)  # of ρ
FOLDS = (0, 2)
LONGER = 2  # times the model's own steps


@dataclass(frozen=True)
class Tuned:
    """rho_factor: times the model's own ρ. steps: S. residual: of left-out lines, over that of the model as it is."""

    rho_factor: float
    steps: int
    residual: float


def tuned(scan: Scan, method: Method) -> tuple[Method, Tuned | None, str]:
    """The method with the numbers that suit this scan, which they are, and a note where they cannot be found.

    Error bounds and the predictor of the model are for its own numbers, and left behind.
    """
    if method.variant is None or method.steps is None:
        raise ConfigError(
            f"got {method.name} to be tuned, which has neither steps nor ρ, expected a model of the unrolled scheme, "
            "such as tdv-r4"
        )
    fold = folds(scan.mask.cpu().numpy())
    if int((fold >= 0).sum()) < LEAST:
        return method, None, f"nothing was tuned: fewer than {LEAST} lines lie outside the centre"
    steps = LONGER * method.steps
    found = np.array([_residuals(scan, method.variant(factor, steps), fold, steps) for factor in FACTORS])
    own = float(found[FACTORS.index(1.0), method.steps - 1])
    best, last = (int(i) for i in np.unravel_index(np.argmin(found), found.shape))
    choice = Tuned(FACTORS[best], last + 1, float(found[best, last]) / max(own, 1e-30))
    return method.variant(choice.rho_factor, choice.steps), choice, ""


def _residuals(scan: Scan, method: Method, fold: np.ndarray, steps: int) -> list[float]:
    """Σ |F x_s − z|² over the left-out lines of the middle slice, after every step s; ∞ where it diverged."""
    assert method.along is not None
    s = len(scan.z) // 2
    z = scan.z[s].to(method.device) / scan.factor
    sums = [0.0] * steps
    for j in FOLDS:
        gone = torch.from_numpy(fold == j).to(method.device)
        method.along(scan.begin(s, scan.mask.to(method.device) & ~gone), _adding(sums, z, gone))
    return [value if math.isfinite(value) else math.inf for value in sums]


def _adding(sums: list[float], z: Tensor, gone: Tensor) -> Callable[[int, Tensor], None]:
    def add(step: int, x: Tensor) -> None:
        sums[step - 1] += float(((fft2c(x)[0] - z) * gone).abs().double().square().sum())

    return add
