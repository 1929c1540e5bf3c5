"""How wide the posterior is, layer by layer: the mean over kernels of the covariances llᵀ of one layer."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from bayesmri.errors import ModelError
from bayesmri.posterior.triangular import dense

RESIDUAL = re.compile(r"mb(\d+)_res(\d+)_(K\d+)")


@dataclass(frozen=True, eq=False)
class LayerCovariance:
    """Of one layer.

    macroblock, residual: counted from 1, as in the paper; None for networks that have none. kernel: K1, K2 or K.
    matrix: the mean of llᵀ over all (out, in), float64 (o², o²). n: how many kernels.
    """

    name: str
    macroblock: int | None
    residual: int | None
    kernel: str
    matrix: NDArray[np.float64]
    n: int

    def row(self) -> dict[str, Any]:
        """JSON values. std: (mean variance of a weight)^{1/2}. correlation: mean |c_ab| / (c_aa c_bb)^{1/2}, a ≠ b."""
        d = len(self.matrix)
        diagonal = np.diag(self.matrix)
        scale = np.sqrt(np.outer(diagonal, diagonal))
        off = ~np.eye(d, dtype=bool)
        return {
            "name": self.name,
            "macroblock": self.macroblock,
            "residual": self.residual,
            "kernel": self.kernel,
            "kernels": self.n,
            "std": float(np.sqrt(diagonal.mean())),
            "variance_low": float(diagonal.min()),
            "variance_high": float(diagonal.max()),
            "covariance": float(np.abs(self.matrix[off]).mean()) if d > 1 else 0.0,
            "correlation": float((np.abs(self.matrix) / scale)[off].mean()) if d > 1 else 0.0,
            "matrix": self.matrix.tolist(),
        }


def layer_covariances(L: Mapping[str, Tensor]) -> list[LayerCovariance]:
    """(1/n) Σ llᵀ of every layer, in the order of the network: macroblock, residual block, K1 before K2."""
    if not L:
        raise ModelError("got a posterior without stochastic kernels, which has no covariance to show")
    layers = [_layer(name, l) for name, l in L.items()]
    return sorted(layers, key=lambda layer: (layer.macroblock or 0, layer.residual or 0, layer.kernel, layer.name))


def _layer(name: str, l: Tensor) -> LayerCovariance:
    blocks = dense(l.detach().cpu().double()).flatten(0, -3)
    matrix: NDArray[np.float64] = (blocks @ blocks.mT).mean(dim=0).numpy()
    found = RESIDUAL.fullmatch(name)
    if found is None:
        return LayerCovariance(name, None, None, name, matrix, len(blocks))
    macroblock, residual = int(found[1]) + 1, int(found[2]) + 1
    return LayerCovariance(name, macroblock, residual, found[3], matrix, len(blocks))
