"""The same network as most would write it first: plain operations, ∇R by autograd through the energy."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import torch
import torch.nn.functional as F
from torch import Tensor

from bayesmri.complexes import to_complex, to_real
from bayesmri.regularizers.base import Regularizer
from bayesmri.regularizers.tdv import TDVConfig


@final
@dataclass(frozen=True, eq=False)
class ByAutograd(Regularizer):
    """∇R as the derivative of the energy by autograd, kept differentiable (create_graph=True)."""

    config: TDVConfig
    theta: Mapping[str, Tensor]

    def energy(self, x: Tensor) -> Tensor:
        return self._density(to_real(x)).sum(dim=(-3, -2, -1))

    def grad(self, x: Tensor) -> Tensor:
        v = to_real(x)
        v = v if v.requires_grad else v.requires_grad_()
        return to_complex(torch.autograd.grad(self._density(v).sum(), v, create_graph=True)[0])

    def _density(self, v: Tensor) -> Tensor:
        """(1/m) w ψ(K0 v)."""
        theta, a = self.theta, self.config.scales
        x: list[Tensor | None] = [_conv(v, theta["K0"]), *[None] * (a - 1)]
        for i in range(self.config.macroblocks):
            for s in range(a):
                below = x[s - 1]
                if s > 0 and below is not None:
                    coarse = _conv(below, theta[f"mb{i}_down{s - 1}"], stride=2)
                    here = x[s]
                    x[s] = coarse if here is None else here + coarse
                x[s] = self._residual(x[s], f"mb{i}_res{s}")
            for s in reversed(range(a - 1)):
                fine, coarser = x[s], x[s + 1]
                assert fine is not None
                assert coarser is not None
                raised = fine + _up(coarser, theta[f"mb{i}_up{s}"], fine)
                x[s] = self._residual(raised, f"mb{i}_res{2 * (a - 1) - s}")
        assert x[0] is not None
        return F.conv2d(x[0], theta["w"]) / self.config.features

    def _residual(self, x: Tensor | None, name: str) -> Tensor:
        assert x is not None
        return x + _conv(0.5 * torch.log1p(_conv(x, self.theta[f"{name}_K1"]) ** 2), self.theta[f"{name}_K2"])


def _conv(x: Tensor, k: Tensor, stride: int = 1) -> Tensor:
    return F.conv2d(F.pad(x, (1, 1, 1, 1), mode="replicate"), k, stride=stride)


def _up(g: Tensor, k: Tensor, like: Tensor) -> Tensor:
    """The transposed strided convolution, its padding folded back onto the edges."""
    H, W = like.shape[-2:]
    y = F.conv_transpose2d(g, k, stride=2, output_padding=((H + 1) % 2, (W + 1) % 2))
    rows = y[..., 1:-1, :] + F.pad(y[..., :1, :], (0, 0, 0, H - 1)) + F.pad(y[..., -1:, :], (0, 0, H - 1, 0))
    return rows[..., 1:-1] + F.pad(rows[..., :1], (0, W - 1)) + F.pad(rows[..., -1:], (W - 1, 0))
