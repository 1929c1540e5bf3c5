"""The laws every regularizer obeys, and those of fields of experts and of smoothed total variation alone."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from bayesmri.errors import ConfigError, ModelError, ShapeError
from bayesmri.regularizers.base import ParametricRegularizer
from bayesmri.regularizers.foe import FoE, FoEConfig
from bayesmri.regularizers.tdv import TDV, TDVConfig
from bayesmri.regularizers.tv import TV, TVConfig, differences, differences_adjoint
from laws import assert_adjoint, assert_gradient_is_autograd, assert_gradient_is_difference, normal

Build = Callable[[int, int], ParametricRegularizer]  # of Q and a seed


def foe(Q: int, seed: int) -> FoE:
    return FoE(FoEConfig(Q=Q, features=5, kernel_size=5, init_scale=0.5), torch.Generator().manual_seed(seed)).double()


def foe7(Q: int, seed: int) -> FoE:
    return FoE(FoEConfig(Q=Q, features=3, kernel_size=7), torch.Generator().manual_seed(seed)).double()


def tdv(Q: int, seed: int) -> TDV:
    config = TDVConfig(Q=Q, features=4, macroblocks=1, scales=2, init_scale=4.0)
    return TDV(config, torch.Generator().manual_seed(seed)).double()


def tv(Q: int, seed: int) -> TV:
    return TV(TVConfig(weight=0.3 + 0.1 * seed, epsilon=0.1)).double()


every_regularizer = pytest.mark.parametrize("build", [tdv, foe, foe7, tv])


@every_regularizer
@pytest.mark.parametrize(("Q", "size"), [(1, (13, 18)), (3, (8, 7)), (1, (2, 3))])
def test_gradient_is_the_derivative_of_the_energy(build: Build, Q: int, size: tuple[int, int]) -> None:
    reg, x = build(Q, 0), normal(2, Q, *size)
    assert_gradient_is_autograd(reg.energy, reg.grad, x)
    assert_gradient_is_difference(reg.energy, reg.grad, x)


@every_regularizer
def test_gradient_is_differentiable_in_image_and_weights(build: Build) -> None:
    reg = build(1, 0)
    names = tuple(reg.weights())

    def grad(x: Tensor, *weights: Tensor) -> Tensor:
        return reg.bind(dict(zip(names, weights, strict=True))).grad(x)

    x = normal(1, 1, 5, 4).requires_grad_()
    assert torch.autograd.gradcheck(grad, (x, *reg.weights().values()), fast_mode=True)


@every_regularizer
def test_a_constant_changes_nothing(build: Build) -> None:
    reg, x = build(2, 0), normal(1, 2, 9, 10)
    reg.project_()
    torch.testing.assert_close(reg.energy(x + (2 + 2j)), reg.energy(x))
    torch.testing.assert_close(reg.grad(x + (2 + 2j)), reg.grad(x), rtol=1e-9, atol=1e-12)


@every_regularizer
def test_images_of_a_batch_are_strangers(build: Build) -> None:
    reg, x = build(1, 0), normal(2, 3, 1, 9, 7)
    assert reg.energy(x).shape == (2, 3)
    assert reg.grad(x).shape == x.shape
    torch.testing.assert_close(reg.energy(x)[1, 2], reg.energy(x[1, 2]))
    torch.testing.assert_close(reg.grad(x)[1, 2], reg.grad(x[1, 2]))


@every_regularizer
def test_bound_weights_are_the_only_ones_used(build: Build) -> None:
    reg, other, x = build(1, 0), build(1, 1), normal(1, 1, 9, 7)
    before = {name: w.detach().clone() for name, w in reg.weights().items()}
    torch.testing.assert_close(reg.bind(other.weights()).grad(x), other.grad(x))
    assert not torch.allclose(reg.grad(x), other.grad(x))
    assert all(torch.equal(w, before[name]) for name, w in reg.weights().items())


@every_regularizer
def test_weights_are_the_parameters(build: Build) -> None:
    reg = build(1, 0)
    assert {id(w) for w in reg.weights().values()} == {id(p) for p in reg.parameters()}
    assert set(reg.kernels()) <= reg.weights().keys()


@every_regularizer
def test_projection_is_idempotent(build: Build) -> None:
    reg = build(2, 0)
    with torch.no_grad():
        for p in reg.parameters():
            p.copy_(normal(*p.shape, dtype=p.dtype))
    reg.project_()
    once = {name: w.detach().clone() for name, w in reg.weights().items()}
    reg.project_()
    torch.testing.assert_close({name: w.detach() for name, w in reg.weights().items()}, once)


@every_regularizer
def test_wrong_weights_are_refused(build: Build) -> None:
    with pytest.raises(ModelError, match="unknown"):
        build(1, 0).bind({"nothing": torch.zeros(1)})


def test_experts_refuse_other_coils() -> None:
    with pytest.raises(ShapeError, match="got images of 2 coils"):
        foe(1, 0).energy(normal(1, 2, 8, 8))


def test_experts_are_never_negative_after_projection() -> None:
    reg = foe(1, 0)
    with torch.no_grad():
        reg.w.copy_(normal(*reg.w.shape, dtype=torch.float64))
    reg.project_()
    assert (reg.energy(normal(3, 1, 8, 8)) >= 0).all()


# total variation


@pytest.mark.parametrize("shape", [(1, 8, 6), (3, 13, 18), (2, 1, 1, 5)])
def test_differences_have_their_adjoint(shape: tuple[int, ...]) -> None:
    x, d = normal(*shape), normal(*shape[:-3], 2, *shape[-3:], seed=1)
    assert_adjoint(differences, differences_adjoint, x, d)


def test_differences_are_forward_and_periodic() -> None:
    x = torch.tensor([[[1.0, 2.0, 4.0], [0.0, 0.0, 0.0]]])
    along_h, along_w = differences(x)[:, 0]
    assert along_h.tolist() == [[-1, -2, -4], [1, 2, 4]]
    assert along_w.tolist() == [[1, 2, -3], [0, 0, 0]]


def test_total_variation_of_a_step_is_its_height_times_its_length() -> None:
    columns = torch.arange(8)
    x = (3j * ((columns >= 2) & (columns < 5))).to(torch.complex128).expand(1, 1, 6, 8)  # two edges of 6 pixels
    reg = TV(TVConfig(weight=0.5, epsilon=1e-9)).double()
    torch.testing.assert_close(reg.energy(x), torch.tensor([0.5 * 2 * 6 * 3.0]).double(), rtol=1e-6, atol=0)


def test_total_variation_of_any_number_of_coils() -> None:
    assert tv(1, 0).energy(normal(2, 5, 6, 7)).shape == (2,)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (lambda: TVConfig(weight=-1), "weight = -1"),
        (lambda: TVConfig(epsilon=0), "epsilon = 0"),
        (lambda: FoEConfig(Q=0), "Q = 0"),
        (lambda: FoEConfig(kernel_size=4), "kernel_size = 4"),
        (lambda: FoEConfig(init_scale=0), "init_scale = 0"),
    ],
)
def test_impossible_configurations_are_refused(config: Callable[[], object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config()
