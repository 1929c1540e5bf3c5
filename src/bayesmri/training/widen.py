"""A TDV of m features as one of m' > m that does the same: R(x, θ') = R(x, θ) for every x, with room to learn.

Old features keep their kernels and hear nothing of the new ones: what leads from new to old is zero, and so is w of the
new; w of the old is times m'/m, for the 1/m' of R. New features keep their start values, and hear the old.
"""

from dataclasses import replace

import torch
from torch import Tensor

from bayesmri.model import Learned, Model, build
from bayesmri.posterior.block_gaussian import BlockGaussian, initial_L
from bayesmri.regularizers.base import Weights
from bayesmri.regularizers.tdv import TDV, TDVConfig
from bayesmri.regularizers.tv import LAMBDA


def widen(origin: Model, reg: Learned, *, L0: float) -> Model:
    """The model with as many features as `reg`, whose weights are the start of the new ones; blocks of L there L0 · Id.

    A model that is not a narrower TDV of the same kind is returned as it is.
    """
    narrow = origin.regularizer
    if not (isinstance(narrow, TDV) and isinstance(reg, TDV) and _widens(narrow.config, reg.config)):
        return origin
    wide = build(reg.config, torch.Generator().manual_seed(0))
    theta = widen_theta(narrow.weights(), reg.weights())
    with torch.no_grad():
        for name, weight in wide.weights().items():
            weight.copy_(theta[name])
    posterior = None
    if origin.posterior is not None:
        start = initial_L(theta, wide.kernels(), L0)
        posterior = BlockGaussian(theta, {name: _corner(origin.posterior.blocks[name], l) for name, l in start.items()})
    return replace(origin, regularizer=wide, posterior=posterior)


def widen_theta(theta: Weights, start: Weights) -> dict[str, Tensor]:
    """θ' from θ of m features and start values of m': names as in TDVConfig.shapes."""
    m, wide = theta["w"].shape[1], start["w"].shape[1]
    new = {name: weight.detach().clone() for name, weight in start.items()}
    for name, weight in new.items():
        if name == LAMBDA:
            weight.copy_(theta.get(LAMBDA, torch.zeros(())))
        elif name == "w":
            weight.zero_()
            weight[:, :m] = theta[name].detach() * (wide / m)
        elif name == "K0":
            weight[:m] = theta[name].detach()
        else:
            _fill(weight, theta[name].detach(), m, transposed="_up" in name)
    return new


def _fill(weight: Tensor, old: Tensor, m: int, *, transposed: bool) -> None:
    """The old kernel in its corner, zeros from new to old. A transposed convolution goes from out to in."""
    weight[:m, :m] = old
    if transposed:
        weight[m:, :m] = 0
    else:
        weight[:m, m:] = 0


def _corner(old: Tensor, start: Tensor) -> Tensor:
    """The blocks of the old kernels, those of `start` elsewhere."""
    wide = start.clone()
    wide[: old.shape[0], : old.shape[1]] = old.detach()
    return wide


def _widens(narrow: TDVConfig, wide: TDVConfig) -> bool:
    """Whether they differ in features only, beside how weights start."""
    starts = {"init": wide.init, "init_scale": wide.init_scale, "tv": wide.tv, "tv_epsilon": wide.tv_epsilon}
    grown = replace(narrow, features=wide.features, **starts)  # type: ignore[arg-type]
    return narrow.features < wide.features and grown == wide
