"""The same network as most would write it first: plain operations, ∇R by autograd through the energy."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from subprocess import PIPE
from typing import final

import torch
import torch.nn.functional as F
from torch import Tensor

from bayesmri.complexes import to_complex, to_real
from bayesmri.config import as_dict
from bayesmri.regularizers.base import Regularizer
from bayesmri.regularizers.tdv import TDV, TDVConfig


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

    def plain(self, v: Tensor) -> Tensor:
        """∇R of real features (B, 2Q, H, W) that nothing will be differentiated through again."""
        v = v.detach().requires_grad_()
        return torch.autograd.grad(self._density(v).sum(), v)[0]

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


@contextmanager
def plain_gradient(config: TDVConfig, image: tuple[int, int], threads: int) -> Iterator[Callable[[], None]]:
    """∇R of one image as most would write it first, in a process of its own: each call computes it once.

    A process of its own, because how this one treats freed memory would speed it up too.
    """
    code = "from bayesmri.benchmarks.rival import serve; serve()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=PIPE, stdout=PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        sent, answers = child.stdin, child.stdout

        def ask(line: str) -> None:
            print(line, file=sent, flush=True)
            if answers.readline().strip() != "done":
                raise RuntimeError("the rival of the benchmark ended early")

        ask(json.dumps({"config": as_dict(config), "image": image, "threads": threads}))
        try:
            yield lambda: ask("go")
        finally:
            sent.close()


def serve() -> None:
    """Runs in the child: the first line says what to compute, each further one asks for it once."""
    asked = json.loads(sys.stdin.readline())
    config = TDVConfig(**asked["config"])
    torch.set_num_threads(asked["threads"])
    theta = {name: w.detach() for name, w in TDV(config, torch.Generator().manual_seed(0)).weights().items()}
    rival, v = ByAutograd(config, theta), torch.randn(1, 2 * config.Q, *asked["image"])
    for _ in chain(["ready"], sys.stdin):
        rival.plain(v)
        print("done", flush=True)
