from dataclasses import replace

import pytest
import torch
from torch import Tensor

from bayesmri.errors import ConfigError, ModelError, ShapeError
from bayesmri.regularizers.blocks import Residual, finish, phi, phi_prime, residual_adjoint
from bayesmri.regularizers.conv import (
    _fold_copying,
    _fold_pointwise,
    blurred,
    conv,
    conv_adjoint,
    conv_adjoint_uniform,
    down,
    pad,
    pad_adjoint,
    up,
)
from bayesmri.regularizers.tdv import TDV, TDVConfig, TDVCore
from laws import assert_adjoint, assert_gradient_is_autograd, assert_gradient_is_difference, normal

R64 = torch.float64
SIZES = [(8, 6), (13, 18), (1, 5), (2, 3)]


SMALL = TDVConfig(features=4, macroblocks=2, scales=3, init_scale=4.0)


def small(seed: int = 0, **changes: object) -> TDV:
    config = replace(SMALL, **changes)  # type: ignore[arg-type]
    return TDV(config, torch.Generator().manual_seed(seed)).double()


# convolutions


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("p", [0, 1, 2, 3])
def test_padding_has_its_adjoint(p: int, size: tuple[int, int]) -> None:
    H, W = size
    x, v = normal(2, 3, H, W, dtype=R64), normal(2, 3, H + 2 * p, W + 2 * p, seed=1, dtype=R64)
    assert_adjoint(lambda x: pad(x, p), lambda v: pad_adjoint(v, p), x, v)


@pytest.mark.parametrize("size", SIZES)
def test_both_forms_of_folding_are_one(size: tuple[int, int]) -> None:
    v = normal(2, 3, size[0] + 2, size[1] + 2, dtype=R64)
    torch.testing.assert_close(_fold_pointwise(v), _fold_copying(v))


def test_padding_repeats_the_edge_pixel_first() -> None:
    x = torch.arange(3.0).reshape(1, 1, 1, 3)
    assert pad(x, 1)[0, 0, 0].tolist() == [0, 0, 1, 2, 2]
    assert pad(x, 3)[0, 0, 0].tolist() == [2, 1, 0, 0, 1, 2, 2, 1, 0]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("o", [3, 5, 7])
def test_convolutions_have_their_adjoints(o: int, size: tuple[int, int]) -> None:
    H, W = size
    k = normal(3, 2, o, o, dtype=R64)
    x = normal(2, 2, H, W, seed=1, dtype=R64)
    assert_adjoint(lambda x: conv(x, k), lambda g: conv_adjoint(g, k), x, normal(2, 3, H, W, seed=2, dtype=R64))
    coarse = normal(2, 3, (H + 1) // 2, (W + 1) // 2, seed=3, dtype=R64)
    assert_adjoint(lambda x: down(x, k), lambda g: up(g, k, size), x, coarse)


@pytest.mark.parametrize("size", [(1, 1), (3, 8), (4, 4), (5, 9)])
def test_a_constant_image_has_the_same_adjoint_by_its_shortcut(size: tuple[int, int]) -> None:
    rng = torch.Generator().manual_seed(0)
    c, k = torch.randn(2, 5, 1, 1, dtype=R64, generator=rng), torch.randn(5, 3, 3, 3, dtype=R64, generator=rng)
    torch.testing.assert_close(conv_adjoint_uniform(c, k, size), conv_adjoint(c.expand(2, 5, *size), k))


@pytest.mark.parametrize("size", [(2, 3), (9, 12)])
def test_products_of_matrices_are_the_gradient_of_a_convolution(size: tuple[int, int]) -> None:
    """Wide kernels take a path of their own: values, first and second derivatives are those of the library."""
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(2, 16, *size, dtype=R64, generator=rng, requires_grad=True)
    k = torch.randn(17, 16, 3, 3, dtype=R64, generator=rng, requires_grad=True)

    def by_library(x: Tensor, k: Tensor) -> Tensor:
        return torch.nn.functional.conv2d(torch.nn.functional.pad(x, (1, 1, 1, 1), mode="replicate"), k)

    values = []
    for f in (conv, by_library):
        y = f(x, k)
        dx, dk = torch.autograd.grad((y**3).sum(), (x, k), create_graph=True)
        values.append((y, dx, dk, *torch.autograd.grad((dx**2).sum() + (dk**2).sum(), (x, k))))
    for a, b in zip(*values, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-8)
    g = torch.randn(2, 17, *size, dtype=R64, generator=rng, requires_grad=True)
    adjoint = torch.autograd.grad((conv(x, k) * g).sum(), x, create_graph=True)[0]
    ours_k = torch.autograd.grad((conv_adjoint(g, k) ** 3).sum(), (g, k))
    theirs_k = torch.autograd.grad((adjoint**3).sum(), (g, k))
    for a, b in zip(ours_k, theirs_k, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-8)


def test_blur_composes_the_kernel_with_the_binomial() -> None:
    """Away from the border, blurring the image and then convolving is convolving with the blurred kernel."""
    k, x = normal(3, 2, 3, 3, dtype=R64), normal(1, 2, 16, 17, seed=1, dtype=R64)
    b = torch.outer(*2 * (torch.tensor([1, 4, 6, 4, 1], dtype=R64) / 16,)).expand(2, 1, 5, 5)
    two_steps = torch.nn.functional.conv2d(torch.nn.functional.conv2d(x, b, groups=2), k)
    torch.testing.assert_close(torch.nn.functional.conv2d(x, blurred(k)), two_steps)


# blocks


def test_phi_prime_is_the_derivative_of_phi() -> None:
    assert_gradient_is_autograd(phi, phi_prime, normal(50, dtype=R64))


def test_residual_block_has_its_transposed_jacobian() -> None:
    k = Residual(normal(3, 3, 3, 3, dtype=R64), normal(3, 3, 3, 3, seed=1, dtype=R64))
    x, g = normal(1, 3, 6, 5, seed=2, dtype=R64), normal(1, 3, 6, 5, seed=3, dtype=R64)
    u = conv(x, k.K1)
    x.requires_grad_()
    (jacobian_g,) = torch.autograd.grad(finish(x, conv(x, k.K1), k.K2), x, g)
    torch.testing.assert_close(residual_adjoint(g, k, u), jacobian_g)


# the regularizer


@pytest.mark.parametrize("Q", [1, 15])
def test_the_papers_network_has_the_papers_parameters(Q: int) -> None:
    n = sum(torch.Size(shape).numel() for shape in TDVConfig(Q=Q).shapes().values())
    assert n == {1: 2_213_056, 15: 2_229_184}[Q]


def test_the_papers_network_has_the_papers_stochastic_kernels() -> None:
    reg = small(features=2, macroblocks=3, scales=4)
    theta = reg.weights()
    assert sum(theta[name].shape[0] * theta[name].shape[1] for name in reg.kernels()) == 42 * 2**2
    assert all(theta[name].shape[-2:] == (3, 3) for name in reg.kernels())


@pytest.mark.parametrize("blur", [False, True])
@pytest.mark.parametrize("scales", [1, 2, 3, 4])
@pytest.mark.parametrize(("Q", "size"), [(1, (13, 18)), (3, (8, 16)), (1, (5, 3))])
def test_gradient_is_the_derivative_of_the_energy(Q: int, size: tuple[int, int], scales: int, blur: bool) -> None:
    reg, x = small(Q=Q, scales=scales, blur=blur), normal(2, Q, *size)
    assert_gradient_is_autograd(reg.energy, reg.grad, x)
    assert_gradient_is_difference(reg.energy, reg.grad, x)


@pytest.mark.parametrize("blur", [False, True])
def test_gradient_is_differentiable_in_image_and_weights(blur: bool) -> None:
    """The double-gradient law: autograd through ∇R agrees with finite differences of ∇R."""
    reg = small(features=2, macroblocks=2, scales=2, blur=blur)
    names = tuple(reg.weights())

    def grad(x: Tensor, *weights: Tensor) -> Tensor:
        return reg.bind(dict(zip(names, weights, strict=True))).grad(x)

    x = normal(1, 1, 5, 4).requires_grad_()
    assert torch.autograd.gradcheck(grad, (x, *reg.weights().values()), fast_mode=True)


def test_double_gradient_is_that_of_autograd() -> None:
    """d/dθ ⟨∇R, d⟩ through the hand-written sweeps equals the same through `create_graph=True` on the energy."""
    reg, x, d = small(Q=2), normal(1, 2, 9, 12), normal(1, 2, 9, 12, seed=1)
    weights = list(reg.weights().values())
    by_hand = torch.autograd.grad((reg.grad(x).conj() * d).real.sum(), weights)
    x = x.requires_grad_()
    (g,) = torch.autograd.grad(reg.energy(x).sum(), x, create_graph=True)
    by_autograd = torch.autograd.grad((g.conj() * d).real.sum(), weights)
    torch.testing.assert_close(by_hand, by_autograd)


@pytest.mark.parametrize("blur", [False, True])
@pytest.mark.parametrize(("zero_mean", "shift"), [("filter", [3 + 3j, 3 + 3j]), ("channel", [3 - 2j, 1j])])
def test_a_constant_changes_nothing(zero_mean: str, shift: list[complex], blur: bool) -> None:
    """K0 has zero mean and the padding repeats pixels, so R(x + c) = R(x) up to the border."""
    reg, x = small(Q=2, blur=blur, zero_mean=zero_mean), normal(1, 2, 13, 10)
    reg.project_()  # to float64 accuracy
    shifted = x + torch.tensor(shift)[:, None, None]
    torch.testing.assert_close(reg.energy(shifted), reg.energy(x))
    torch.testing.assert_close(reg.grad(shifted), reg.grad(x), rtol=1e-9, atol=1e-12)


def test_zero_mean_is_a_choice() -> None:
    reg, x = small(zero_mean="off"), normal(1, 1, 8, 8)
    assert not torch.allclose(reg.energy(x + 1), reg.energy(x))


def test_images_of_a_batch_are_strangers() -> None:
    reg, x = small(), normal(2, 3, 1, 9, 7)
    assert reg.energy(x).shape == (2, 3)
    assert reg.grad(x).shape == x.shape
    torch.testing.assert_close(reg.energy(x)[1, 2], reg.energy(x[1, 2]))
    torch.testing.assert_close(reg.grad(x)[1, 2], reg.grad(x[1, 2]))


def test_the_start_scale_scales_the_energy() -> None:
    x = normal(1, 1, 9, 7)
    torch.testing.assert_close(small(init_scale=8.0).energy(x), 2 * small(init_scale=4.0).energy(x))


def test_a_positive_start_averages() -> None:
    theta = small(init="positive", init_scale=3.0).weights()
    for name in (name for name in theta if name.endswith("K2")):
        assert (theta[name] >= 0).all()
        torch.testing.assert_close(theta[name].sum(dim=(1, 2, 3)), torch.ones(4, dtype=R64), rtol=1e-6, atol=0)
    assert (theta["w"] == 3).all()


def test_an_identity_start_passes_features_on() -> None:
    theta = small(init="identity", init_scale=0.5).weights()
    for name in (name for name in theta if name.endswith("K2")):
        rest = theta[name].clone()
        rest[:, :, 1, 1] -= torch.eye(4, dtype=R64)
        assert 0 < rest.std() < 0.2 / (9 * 4) ** 0.5
    assert (theta["w"] == 0.5).all()


def test_equal_seeds_give_equal_weights() -> None:
    a, b, c = small(seed=1).weights(), small(seed=1).weights(), small(seed=2).weights()
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert not torch.equal(a["K0"], c["K0"])


# weights


@pytest.mark.parametrize(("zero_mean", "axes"), [("filter", (1, 2, 3)), ("channel", (2, 3))])
def test_projection_is_feasible_and_idempotent(zero_mean: str, axes: tuple[int, ...]) -> None:
    reg = small(Q=3, features=8, zero_mean=zero_mean)
    K0 = reg.weights()["K0"]
    with torch.no_grad():
        K0.copy_(normal(*K0.shape, dtype=R64))
        K0[0] *= 1e-3
    reg.project_()
    norms = K0.flatten(1).norm(dim=1)
    assert K0.mean(dim=axes).abs().max() < 1e-15
    assert norms.max() < 1 + 1e-12
    assert norms[0] < 1e-1  # inside the ball nothing is scaled up
    once = K0.clone()
    reg.project_()
    torch.testing.assert_close(K0, once)


def test_bound_weights_are_the_only_ones_used() -> None:
    reg, x = small(seed=0), normal(1, 1, 9, 7)
    before = {name: w.clone() for name, w in reg.weights().items()}
    other = {name: w.detach().clone() for name, w in small(seed=1).weights().items()}
    bound = reg.bind(other)
    expected = small(seed=1).grad(x)
    torch.testing.assert_close(bound.grad(x), expected)
    assert all(torch.equal(w, before[name]) for name, w in reg.weights().items())
    other.clear()  # the binding keeps its own mapping
    torch.testing.assert_close(bound.grad(x), expected)


def test_wrong_weights_are_refused() -> None:
    reg = small()
    theta = reg.weights()
    with pytest.raises(ModelError, match=r"lack.*K0"):
        reg.bind({name: w for name, w in theta.items() if name != "K0"})
    with pytest.raises(ModelError, match="w has shape"):
        reg.bind(theta | {"w": theta["K0"]})


def test_wrong_images_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"got images of 3 coils, expected 1, .*made for.*virtual coils"):
        small().grad(normal(1, 3, 8, 8))
    with pytest.raises(ShapeError, match="expected complex"):
        small().grad(normal(1, 1, 8, 8, dtype=R64))


def test_unknown_constraints_are_refused() -> None:
    with pytest.raises(ConfigError, match="zero_mean = 'none'"):
        small(zero_mean="none")


@pytest.mark.parametrize("field", ["Q", "features", "macroblocks", "scales", "init_scale"])
def test_impossible_networks_are_refused(field: str) -> None:
    with pytest.raises(ConfigError, match=f"{field} = 0"):
        small(**{field: 0})


def test_memory_format_does_not_matter() -> None:
    reg, x = small(features=8), normal(2, 1, 12, 10)
    core, v = TDVCore(2, 3), torch.cat((x.real, x.imag), 1)
    by_channels_last = core.grad(v.contiguous(memory_format=torch.channels_last), reg.weights())
    torch.testing.assert_close(core.grad(v, reg.weights()), by_channels_last)
