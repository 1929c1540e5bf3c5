"""L1-wavelet: min_m ½‖A S m − z‖² + λ‖W m‖₁ (Lustig, Donoho, Pauly 2007), solved by SigPy."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bayesmri.errors import ConfigError, MissingExtraError
from bayesmri.physics.espirit import espirit
from bayesmri.physics.operator import batched, check_mask


@dataclass(frozen=True)
class L1Wavelet:
    """W: Daubechies wavelets of four vanishing moments. S: sensitivities by ESPIRiT; one for a single coil.

    weight: λ, for z scaled so that the zero-filled image has maximum 1.
    iterations: of the accelerated proximal gradient method; with few central lines more of them fit errors of S.
    Runs on the CPU.
    """

    weight: float = 3e-3
    iterations: int = 30

    def __post_init__(self) -> None:
        if not (self.weight >= 0 and math.isfinite(self.weight)):
            raise ConfigError(
                f"got the L1-wavelet weight {self.weight:g}, expected a number of at least 0, such as 0.003"
            )
        if self.iterations < 1:
            raise ConfigError(f"got {self.iterations} L1-wavelet iterations, expected at least 1")
        _sigpy()

    def __call__(self, z: Tensor, mask: Tensor) -> Tensor:
        """z: complex (B, Q, H, W), mask: bool (W,) or (H, W) → coil images S m, complex (B, Q, H, W)."""
        check_mask(z, mask)
        solver = _sigpy()
        lines = batched(mask)
        s = espirit(z * lines, lines)
        parts = zip(z * lines, s, lines.expand(len(z), -1, -1, -1), strict=True)
        return s * torch.stack([self._image(solver, *part) for part in parts])[:, None].to(z)

    def _image(self, solver: Any, z: Tensor, s: Tensor, mask: Tensor) -> Tensor:
        """m of one slice; ‖A S‖ ≤ 1, so steps of 1 are short enough and nothing has to be estimated."""
        y, maps, lines = (t.cpu().numpy() for t in (z, s, mask[0].to(z.real.dtype)))
        app = solver.L1WaveletRecon(
            y, maps, self.weight, weights=lines, alpha=1, max_iter=self.iterations, show_pbar=False
        )
        return torch.from_numpy(app.run())


def _sigpy() -> Any:
    try:
        from sigpy.mri import app
    except ImportError as error:
        raise MissingExtraError(
            "the method l1-wavelet needs SigPy, which is not installed: pip install 'bayesmri[baselines]'"
        ) from error
    return app
