"""∇R as one compiled graph, forward and adjoint sweep fused: for many steps on few image sizes."""

import logging
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import final

import torch
from torch import Tensor

from bayesmri.regularizers.base import Bound, Core, Weights

_log = logging.getLogger(__name__)


def compiled(reg: Bound) -> Bound:
    """The same R(·, θ) with ∇R compiled; where that cannot be, `reg` itself, and one line in the log says why.

    The graph belongs to the core and the image size, not to θ: it is built at the first call (tens of seconds) and
    every θ bound later reuses it. Each further size, and training after inference, builds its own; past torch's limit
    (8) the rest runs eagerly. torch keeps what it built on disk, so the next process starts sooner.
    """
    if isinstance(reg.core, CompiledCore) or not can_compile(_home(reg)):
        return reg
    return replace(reg, core=CompiledCore(reg.core))


def _home(reg: Bound) -> str:
    """The device of θ."""
    return str(next((w.device for w in reg.theta.values()), "cpu"))


@cache
def can_compile(device: str = "cpu") -> bool:
    """A first small graph is built and run on that device; asked once for each, answered in the log if not.

    The CPU needs a C++ compiler, CUDA a device that Triton knows and a C compiler, which it looks for by itself.
    """
    cxx = os.environ.get("CXX", "clang++" if sys.platform == "darwin" else "g++")
    if device.startswith("cpu") and shutil.which(cxx) is None:
        _log.warning("no C++ compiler %s found: the regularizer runs uncompiled, slower but equal", cxx)
        return False
    try:
        torch.compile(torch.log1p, dynamic=False)(torch.ones(8, device=device))
    except Exception as error:  # a broken toolchain fails in ways of its own, and none of them should stop the work
        reason = str(error).partition("\n")[0]
        _log.warning("compiling failed on %s (%s): the regularizer runs uncompiled, slower but equal", device, reason)
        return False
    return True


@final
@dataclass(frozen=True)
class CompiledCore(Core):
    """Another core, its `grad` compiled."""

    inner: Core

    def density(self, v: Tensor, theta: Weights) -> Tensor:
        return self.inner.density(v, theta)

    def grad(self, v: Tensor, theta: Weights) -> Tensor:
        return _graph(self.inner)(v, theta)


@cache
def _graph(core: Core) -> Callable[[Tensor, Weights], Tensor]:
    return torch.compile(core.grad, dynamic=False)
