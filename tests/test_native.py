"""The kernels in C say what `conv.py` and `blocks.py` say, on any size, and the same bits by any number of threads."""

import logging
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from bayesmri.machine import kernels
from bayesmri.regularizers import native
from bayesmri.regularizers.blocks import PLAIN, Residual, phi, phi_prime
from bayesmri.regularizers.conv import conv, conv_adjoint, down, up
from bayesmri.regularizers.fused import FUSED
from bayesmri.regularizers.tdv import TDV, TDVConfig

SIZES = [(1, 1), (2, 3), (5, 2), (4, 4), (7, 30), (33, 25), (16, 64)]
FEATURES = [(16, 16), (32, 16), (16, 48), (64, 64), (2, 16)]  # in, out


@pytest.fixture(autouse=True)
def compiler() -> None:
    if native.library() is None:
        pytest.skip("no C compiler on this machine")


@pytest.fixture
def four_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def close(a: Tensor, b: Tensor) -> None:
    assert a.shape == b.shape
    torch.testing.assert_close(a, b, rtol=1e-5, atol=2e-6 * float(b.abs().max().clamp(min=1)))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("n_in", "n_out"), FEATURES)
def test_convolutions_are_those_of_torch(n_in: int, n_out: int, size: tuple[int, int]) -> None:
    x, k = drawn(2, n_in, *size), drawn(n_out, n_in, 3, 3, seed=1)
    close(native.conv(x, k), conv(x, k))
    close(native.conv(x, k, stride=2), down(x, k))
    if n_in % native.BLOCK == 0:
        y = drawn(2, n_out, *size, seed=2)
        close(native.conv(x, k, pre=native.PHI, post=native.ADD, other=y.clone()), y + conv(phi(x), k))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("n_out", "n_in"), FEATURES)
def test_adjoints_are_those_of_torch(n_in: int, n_out: int, size: tuple[int, int]) -> None:
    """n_in features go in, which are the kernel's outputs."""
    k = drawn(n_in, n_out, 3, 3)
    g, coarse = drawn(2, n_in, *size, seed=1), drawn(2, n_in, *(-(-n // 2) for n in size), seed=2)
    close(native.spread(g, k), conv_adjoint(g, k))
    if n_out % native.BLOCK == 0:
        u = drawn(2, n_out, *size, seed=3)
        close(native.spread(g, k, post=native.TIMES_PHI_PRIME, other=u.clone()), phi_prime(u) * conv_adjoint(g, k))
        close(native.spread(coarse, k, size, stride=2, post=native.ADD, other=u.clone()), u + up(coarse, k, size))


@pytest.mark.parametrize("size", SIZES)
def test_residual_blocks_go_back_alike(size: tuple[int, int]) -> None:
    k = Residual(drawn(16, 16, 3, 3) / 9, drawn(16, 16, 3, 3, seed=1) / 9)
    u = drawn(2, 16, *size, seed=2)
    for g in (drawn(2, 16, *size, seed=3), drawn(1, 16, 1, 1, seed=3)):
        close(FUSED.residual_adjoint(g.clone(), k, u.clone()), PLAIN.residual_adjoint(g, k, u))


@pytest.mark.parametrize("value", [0.0, 1e-30, 1e-4, 0.3, 1.0, 30.0, 1e9, 1e18])
def test_phi_is_right_from_nothing_to_much(value: float) -> None:
    x = torch.full((1, 16, 4, 4), value)
    centre = torch.zeros(16, 16, 3, 3)
    centre[:, :, 1, 1] = torch.eye(16)
    exact = phi(x.double()).float()
    torch.testing.assert_close(native.conv(x, centre, pre=native.PHI), exact, rtol=1e-6, atol=3e-8)


@pytest.mark.parametrize(
    "config", [TDVConfig(features=16, macroblocks=2, scales=3, tv=0.1), TDVConfig(Q=3, features=32)]
)
def test_the_gradient_is_as_exact_as_that_of_the_plain_path(config: TDVConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    reg = TDV(config, torch.Generator().manual_seed(0))
    theta = {name: w.detach() for name, w in reg.weights().items()}
    x = torch.complex(drawn(2, config.Q, 37, 50), drawn(2, config.Q, 37, 50, seed=1))
    kept = x.clone()
    with torch.no_grad():
        exact = reg.bind({name: w.double() for name, w in theta.items()}).grad(x.to(torch.complex128))
        fast = reg.bind(theta).grad(x)
        monkeypatch.setattr(native, "usable", lambda *tensors: False)
        plain = reg.bind(theta).grad(x)
    assert torch.equal(x, kept)
    errors = [float((found - exact).norm() / exact.norm()) for found in (fast, plain)]
    assert errors[0] < 1e-5
    assert errors[0] < 2 * errors[1]
    assert not torch.equal(fast, plain), "the kernels were not used"


def test_threads_do_not_change_a_bit(four_threads: None) -> None:
    x, k, u = drawn(1, 16, 200, 24), drawn(16, 16, 3, 3, seed=1), drawn(1, 16, 200, 24, seed=2)
    many = native.conv(x, k), native.spread(x, k, post=native.ADD, other=u.clone()), native.conv(x, k, stride=2)
    torch.set_num_threads(1)
    one = native.conv(x, k), native.spread(x, k, post=native.ADD, other=u.clone()), native.conv(x, k, stride=2)
    assert all(torch.equal(a, b) for a, b in zip(many, one, strict=True))


@pytest.mark.parametrize("size", [(37, 50), (5, 3), (130, 20)])
def test_training_goes_back_as_the_plain_path_does(size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """∂⟨h, ∇R(x, θ)⟩ in x and in every weight; 130 rows are several bands."""
    reg = TDV(TDVConfig(features=16, macroblocks=2, scales=3, tv=0.1), torch.Generator().manual_seed(0))
    x = torch.complex(drawn(2, 1, *size), drawn(2, 1, *size, seed=1)).requires_grad_()
    h = torch.complex(drawn(2, 1, *size, seed=2), drawn(2, 1, *size, seed=3))

    def gradients() -> dict[str, Tensor]:
        weights = reg.weights()
        g = reg.grad(x)
        found = torch.autograd.grad((g.real * h.real + g.imag * h.imag).sum(), [x, *weights.values()])
        return dict(zip(["x", *weights], found, strict=True))

    fast = gradients()
    monkeypatch.setattr(native, "usable", lambda *tensors: False)
    plain = gradients()
    assert fast.keys() == plain.keys()
    for name, wanted in plain.items():
        assert float((fast[name] - wanted).norm() / wanted.norm()) < 2e-5, name
    assert not torch.equal(fast["x"], plain["x"]), "the kernels were not used"


def test_the_gradient_in_the_kernel_has_the_same_bits_by_any_number_of_threads(four_threads: None) -> None:
    x, g = drawn(2, 16, 200, 24), drawn(2, 32, 200, 24, seed=1)
    many = native.kernel_gradient(x, g)
    torch.set_num_threads(1)
    assert torch.equal(many, native.kernel_gradient(x, g))


def test_double_precision_takes_the_plain_path() -> None:
    x = drawn(1, 16, 8, 8)
    assert native.usable(x)
    assert not native.usable(x.double())


def test_without_a_compiler_the_plain_path_runs_and_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(kernels, "_compiler", kernels._compiler.__wrapped__)
    monkeypatch.setenv("CC", "no-such-compiler-here")
    monkeypatch.setenv("XDG_CACHE_HOME", "/nonexistent/cache")
    with caplog.at_level(logging.WARNING):
        assert kernels.compiled.__wrapped__(*native.SOURCES) is None
    assert "slower but equal" in caplog.text
    monkeypatch.setenv(kernels.SWITCH, "off")
    assert kernels.compiled.__wrapped__(*native.SOURCES) is None
