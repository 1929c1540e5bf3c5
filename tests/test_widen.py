"""A wider TDV made of a narrower one does the same before it learns more."""

from dataclasses import replace

import pytest
import torch

from bayesmri.errors import ModelError
from bayesmri.model import Model
from bayesmri.posterior.block_gaussian import BlockGaussian, initial_L
from bayesmri.regularizers.tdv import TDV, TDVConfig
from bayesmri.training.state import start
from bayesmri.training.widen import widen
from training_runs import tiny


def tdv(model: Model) -> TDV:
    assert isinstance(model.regularizer, TDV)
    return model.regularizer


def grow(origin: Model, features: int) -> Model:
    return widen(origin, TDV(replace(tdv(origin).config, features=features, init="identity"), rng(2)), L0=0.01)


def rng(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def narrow(**settings: object) -> Model:
    config = TDVConfig(**({"Q": 2, "features": 3, "macroblocks": 2, "scales": 3} | settings))  # type: ignore[arg-type]
    reg = TDV(config, rng(1))
    L = {name: 0.5 * l for name, l in initial_L(reg.weights(), reg.kernels(), 0.1).items()}
    return Model(reg, T=2.0, S=2, posterior=BlockGaussian({n: w.detach() for n, w in reg.weights().items()}, L))


@pytest.mark.parametrize("blur", [False, True])
@pytest.mark.parametrize("size", [(16, 16), (13, 11)])
def test_energy_and_gradient_stay(size: tuple[int, int], blur: bool) -> None:
    origin = narrow(blur=blur)
    grown = grow(origin, 7)
    x = torch.randn(2, 2, *size, dtype=torch.complex64, generator=rng(3))
    torch.testing.assert_close(tdv(grown).energy(x), tdv(origin).energy(x))
    torch.testing.assert_close(tdv(grown).grad(x), tdv(origin).grad(x))


def test_new_features_can_learn() -> None:
    """∂/∂θ of ‖∇R(x)‖² in what leads from new features to old ones, and in their w, is not zero."""
    grown = tdv(grow(narrow(), 5))
    theta = grown.weights()
    x = torch.randn(1, 2, 12, 12, dtype=torch.complex64, generator=rng(3))
    loss = grown.bind(theta).grad(x).abs().square().sum()
    g = dict(zip(theta, torch.autograd.grad(loss, list(theta.values())), strict=True))
    assert g["w"][:, 3:].abs().min() > 0
    assert g["mb0_res0_K1"][:3, 3:].abs().max() > 0
    assert g["mb1_up0"][3:, :3].abs().max() > 0


def test_old_blocks_of_L_stay_and_new_ones_start_at_L0() -> None:
    origin = narrow()
    grown = grow(origin, 5)
    assert isinstance(origin.posterior, BlockGaussian)
    assert isinstance(grown.posterior, BlockGaussian)
    expected = initial_L(grown.regularizer.weights(), grown.regularizer.kernels(), 0.01)
    for name, l in grown.posterior.L.items():
        assert torch.equal(l[:3, :3], origin.posterior.L[name])
        assert torch.equal(l[3:], expected[name][3:])
        assert torch.equal(l[:, 3:], expected[name][:, 3:])


def test_training_starts_from_the_widened_model() -> None:
    origin = narrow(Q=1, macroblocks=1, scales=2)
    model = {"kind": "tdv", "Q": 1, "features": 6, "macroblocks": 1, "scales": 2}
    state = start(tiny(model=model, posterior={"kind": "gaussian", "L0": 0.02}), origin)
    x = torch.randn(1, 1, 12, 12, dtype=torch.complex64, generator=rng(3))
    assert isinstance(state.reg, TDV)
    torch.testing.assert_close(state.reg.bind(state.theta()).grad(x), tdv(origin).grad(x))
    assert state.spread is not None
    assert state.spread.L["mb0_res0_K1"].shape[:2] == (6, 6)


@pytest.mark.parametrize("other", [{"features": 2}, {"scales": 2, "features": 6}, {"Q": 1, "features": 6}])
def test_what_is_no_wider_version_of_it_is_refused(other: dict[str, int]) -> None:
    origin = narrow()
    model = {"kind": "tdv", "Q": 2, "features": 3, "macroblocks": 2, "scales": 3} | other
    with pytest.raises(ModelError, match=r"another configuration|lack"):
        start(tiny(model=model), origin)
