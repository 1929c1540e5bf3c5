"""Coils in the forward operator: A = M F C, its laws, and the scheme that reconstructs with it."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from bayesmri.coil_refinement import refined
from bayesmri.complexes import inner, rss
from bayesmri.data.simulate import Scanner, acquire
from bayesmri.errors import ShapeError
from bayesmri.metrics import volume_metrics
from bayesmri.model import Coils, Model
from bayesmri.physics.centre import unit_rss
from bayesmri.physics.coil_operator import CoilOperator
from bayesmri.physics.conjugate_gradients import Known, shifted_conjugate_gradients
from bayesmri.physics.data_terms import Channels, Coupled, Separate
from bayesmri.physics.espirit import espirit_sets
from bayesmri.physics.fourier import fft2c, ifft2c
from bayesmri.physics.mask import equispaced_mask, random_mask
from bayesmri.physics.sense import sensitivity_sets
from bayesmri.recon.method import learned
from bayesmri.regularizers.tdv import TDV, TDVConfig
from bayesmri.regularizers.tv import TV, TVConfig
from bayesmri.solver import Scheme, unroll
from laws import assert_adjoint

SIZES = [(12, 16), (9, 15), (8, 13)]
DTYPE = torch.complex128


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = DTYPE) -> Tensor:
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def operator(J: int, Q: int, H: int, W: int, *, B: int = 1, rows: bool = False) -> CoilOperator:
    mask = torch.rand(H if rows else 1, W, generator=torch.Generator().manual_seed(4)) < 0.5
    return CoilOperator(mask if rows else mask[0], normal(B, J, Q, H, W, seed=3))


def phantom(
    Q: int = 6, size: int = 64, R: float = 3.0, seed: int = 0, even: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """(z, mask, Y) of a simulated array around a disc with details: complex64 (1, Q, H, W)."""
    y, x = torch.meshgrid(torch.linspace(-1, 1, size), torch.linspace(-1, 1, size), indexing="ij")
    X = (x**2 + y**2 < 0.7).float() * (1 + 0.3 * torch.sin(9 * x) * torch.cos(7 * y)) + 0.5 * ((x - 0.2).abs() < 0.05)
    rng = torch.Generator().manual_seed(seed)
    u = acquire(X[None] * (x**2 + y**2 < 0.8), Scanner(Q, 40.0), rng=rng)
    draw = equispaced_mask if even else random_mask
    mask = draw(size, R, center_fraction=0.2, rng=rng)
    return u * mask, mask, rss(ifft2c(u))


@pytest.mark.parametrize(("H", "W"), SIZES)
@pytest.mark.parametrize("J", [1, 2])
@pytest.mark.parametrize("rows", [False, True])
def test_forward_and_adjoint_are_adjoint(H: int, W: int, J: int, rows: bool) -> None:
    A = operator(J, 3, H, W, B=2, rows=rows)
    assert_adjoint(A.forward, A.adjoint, normal(2, J, H, W, seed=1), A.mask * normal(2, 3, H, W, seed=2))


@pytest.mark.parametrize(("H", "W"), SIZES)
@pytest.mark.parametrize("rows", [False, True])
def test_normal_is_adjoint_after_forward(H: int, W: int, rows: bool) -> None:
    A = operator(2, 3, H, W, rows=rows)
    m = normal(1, 2, H, W, seed=1)
    torch.testing.assert_close(A.normal(m), A.adjoint(A.forward(m)))


@pytest.mark.parametrize("B", [1, 3])
def test_a_batch_has_masks_of_its_own(B: int) -> None:
    mask = torch.rand(B, 1, 1, 14, generator=torch.Generator().manual_seed(1)) < 0.5
    s, m = normal(B, 2, 3, 8, 14), normal(B, 2, 8, 14, seed=1)
    each = [CoilOperator(mask[i, 0, 0], s[i : i + 1]).normal(m[i : i + 1]) for i in range(B)]
    torch.testing.assert_close(CoilOperator(mask, s).normal(m), torch.cat(each))


def test_sensitivities_of_another_shape_are_refused() -> None:
    with pytest.raises(ShapeError, match="expected \\(B, sets, coils, H, W\\)"):
        CoilOperator(torch.ones(8).bool(), normal(2, 3, 8, 8))
    with pytest.raises(ShapeError, match="does not cover"):
        CoilOperator(torch.ones(9).bool(), normal(1, 1, 3, 8, 8))


def dense(f: Callable[[Tensor], Tensor], shape: tuple[int, ...]) -> Tensor:
    """The matrix of a linear map, column by column."""
    n = int(np.prod(shape))
    columns = [f(e.reshape(shape)).flatten() for e in torch.eye(n, dtype=DTYPE)]
    return torch.stack(columns, dim=1)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.complex64, 1e-5), (torch.complex128, 1e-11)])
@pytest.mark.parametrize("J", [1, 2])
def test_prox_is_the_dense_solve(J: int, dtype: torch.dtype, tolerance: float) -> None:
    """prox_{hD}(v) = (Id + hA*A)⁻¹(v + hA*z), from any start once there are enough steps."""
    H, W, h = 6, 7, 3.0
    A = operator(J, 3, H, W)
    z, v = A.mask * normal(1, 3, H, W, seed=5), normal(1, J, H, W, seed=6)
    N = dense(A.normal, (1, J, H, W))
    expected = torch.linalg.solve(torch.eye(len(N)) + h * N, (v + h * A.adjoint(z)).flatten()).reshape(v.shape)
    D = Coupled(z.to(dtype), A.mask, A.s.to(dtype), steps=2 * H * W * J)
    start = D.start()
    found = D.prox(v.to(dtype), h, start)[0]
    assert float((found - expected).abs().max()) <= tolerance * float(expected.abs().max())


def test_prox_minimizes_its_objective() -> None:
    A, h = operator(2, 3, 8, 9), 2.0
    z, v = A.mask * normal(1, 3, 8, 9, seed=5), normal(1, 2, 8, 9, seed=6)

    def objective(m: Tensor) -> float:
        r = A.forward(m) - z
        return float(h / 2 * inner(r, r) + inner(m - v, m - v) / 2)

    best = Coupled(z, A.mask, A.s, steps=300).prox(v, h, (v, A.normal(v)))[0]
    for seed in range(5):
        assert objective(best + 1e-3 * normal(1, 2, 8, 9, seed=10 + seed)) > objective(best)


def test_the_normal_image_is_kept_along_the_way() -> None:
    """What a warm start takes for A*A m is A*A m."""
    A = operator(2, 3, 8, 9)
    b, zero = normal(1, 2, 8, 9), torch.zeros(1, 2, 8, 9, dtype=DTYPE)
    found = shifted_conjugate_gradients(A.normal, b, Known(zero, zero), h=2.0, steps=7)
    torch.testing.assert_close(found.Nx, A.normal(found.x))


def test_one_coil_is_the_closed_form() -> None:
    """With s = 1 the conjugate gradients end where F⁻¹[(F x + h z)/(1 + h M)] is."""
    mask = torch.rand(13, generator=torch.Generator().manual_seed(0)) < 0.5
    z, v = mask * normal(1, 1, 10, 13), normal(1, 1, 10, 13, seed=1)
    one = Channels(z, mask).prox(v, 3.0, (v,))[0]
    s = torch.ones(1, 1, 1, 10, 13, dtype=DTYPE)
    D = Coupled(z, mask, s, steps=3)  # A*A has two eigenvalues: two steps suffice
    torch.testing.assert_close(D.prox(v, 3.0, (v, D.A.normal(v)))[0], one)


def test_a_scheme_with_sensitivities_takes_one_coil_as_it_was_in_bits() -> None:
    reg = TDV(TDVConfig(features=4, macroblocks=1, scales=2), torch.Generator().manual_seed(0))
    bound = reg.bind({name: w.detach() for name, w in reg.weights().items()})
    z, mask, _ = phantom(1)
    scheme = Scheme(3.0, 2, coils="sensitivities")
    assert torch.equal(scheme.run(scheme.data_term(z, mask), bound), unroll(z, mask, bound, T=3.0, S=2))


REG = TV(TVConfig(weight=0.02, epsilon=1e-2))
BOUND = REG.bind({name: w.detach() for name, w in REG.weights().items()})
SCHEME = Scheme(24.0, 8, rho=0.5, coils="sensitivities")


def image(z: Tensor, mask: Tensor) -> Tensor:
    return rss(SCHEME.run(SCHEME.data_term(z, mask), BOUND))


def close(a: Tensor, b: Tensor, share: float = 1e-4) -> None:
    assert float((a - b).abs().max()) <= share * float(b.abs().max())


def test_a_common_phase_and_the_order_of_coils_do_not_matter() -> None:
    z, mask, _ = phantom()
    X = image(z, mask)
    close(image(z * torch.polar(torch.tensor(1.0), torch.tensor(1.1)), mask), X)
    close(image(z[:, [3, 1, 5, 0, 2, 4]], mask), X)
    close(image(z * torch.polar(torch.ones(6), torch.arange(6.0))[:, None, None], mask), X)


def test_twice_the_coils_give_the_same_image() -> None:
    """Every coil a second time, all divided by √2: the same measurement."""
    z, mask, _ = phantom(4)
    close(image(torch.cat([z, z], dim=1) / 2**0.5, mask), image(z, mask), share=2e-3)


def test_everything_measured_and_no_regularizer_give_the_input() -> None:
    z, mask, Y = phantom(5, R=1.0)
    scheme = Scheme(1e4, 3, rho=0.0, coils="sensitivities")
    X = rss(scheme.run(scheme.data_term(z, mask), BOUND))
    assert volume_metrics(X, Y).psnr > 40


@pytest.mark.parametrize("even", [False, True])
@pytest.mark.parametrize("Q", [2, 5, 12])
def test_sensitivities_beat_zero_filling_and_each_coil_alone(Q: int, even: bool) -> None:
    z, mask, Y = phantom(Q, even=even)
    apart = rss(Scheme(24.0, 8, rho=0.5).run(Separate(z, mask), BOUND))
    found, zero = volume_metrics(image(z, mask), Y).psnr, volume_metrics(rss(ifft2c(z)), Y).psnr
    assert found > zero + 3
    assert found > volume_metrics(apart, Y).psnr + 1


def test_an_object_larger_than_the_field_of_view_needs_two_sets() -> None:
    """Folded over along W: half of the samples of a field of view twice as wide."""
    rng = torch.Generator().manual_seed(2)
    y, x = torch.meshgrid(torch.linspace(-1, 1, 64), torch.linspace(-1, 1, 112), indexing="ij")
    X = ((x / 0.9) ** 2 + (y / 0.9) ** 2 < 1).float() * (1 + 0.3 * torch.sin(11 * x + 5 * y))
    wide = acquire(X[None], Scanner(8, 50.0), rng=rng)
    u = fft2c(ifft2c(wide)[..., :56] + ifft2c(wide)[..., 56:])
    mask = random_mask(56, 2.5, center_fraction=0.3, rng=rng)
    z, Y = u * mask, rss(ifft2c(u))
    s = sensitivity_sets(z, mask)
    assert s is not None
    assert s.shape[1] == 2
    both, one = (rss(SCHEME.run(SCHEME.data_term(z, mask, t), BOUND)) for t in (s, s[:, :1]))
    assert volume_metrics(both, Y).psnr > volume_metrics(one, Y).psnr + 1.5


def test_a_second_set_without_weight_is_left_out() -> None:
    z, mask, _ = phantom(6)
    s = sensitivity_sets(z, mask)
    assert s is not None
    assert s.shape[1] == 1


def test_without_a_central_line_coils_are_reconstructed_one_by_one() -> None:
    z, mask, _ = phantom()
    mask = mask.clone()
    mask[32] = False
    assert sensitivity_sets(z * mask, mask) is None
    D = SCHEME.data_term(z * mask, mask)
    assert isinstance(D, Separate)
    x = SCHEME.run(D, BOUND)
    each = torch.cat([SCHEME.run(SCHEME.data_term(z[:, q : q + 1] * mask, mask), BOUND) for q in range(6)], dim=1)
    torch.testing.assert_close(x, each)


def test_few_central_lines_are_refined() -> None:
    """Four central lines: sensitivities from the filled centre come nearer to those of the full one, and the image."""
    rng = torch.Generator().manual_seed(5)
    z, _, Y = phantom(6, R=1.0, seed=5)
    mask = random_mask(64, 4.0, center_fraction=4 / 64, rng=rng)
    D = SCHEME.data_term(z * mask, mask)
    assert isinstance(D, Coupled)
    better = refined(D, BOUND, SCHEME)
    truth = espirit_sets(z, torch.ones(1, 1, 1, 64).bool(), sets=1)[:, 0]
    inside = 0.3 * Y.max() < Y

    def agreement(s: Tensor) -> float:
        return float((unit_rss(s[:, 0]).conj() * truth).sum(dim=1).abs()[inside].mean())

    assert 1 - agreement(better.s) < 0.6 * (1 - agreement(D.s))
    psnr = [volume_metrics(rss(SCHEME.run(d, BOUND)), Y).psnr for d in (D, better)]
    assert psnr[1] > psnr[0] + 0.5


def test_enough_central_lines_are_left_alone() -> None:
    z, mask, _ = phantom()
    D = SCHEME.data_term(z, mask)
    assert isinstance(D, Coupled)
    assert refined(D, BOUND, SCHEME) is D


def test_gradients_flow_through_the_prox() -> None:
    """∂X/∂T and ∂X/∂ρ by autograd, recomputed or not, against differences."""
    z, mask, _ = phantom(3, size=24)
    z = z.to(DTYPE)
    s = sensitivity_sets(z, mask)
    reg = TV(TVConfig(weight=0.02, epsilon=1e-1)).double()

    def J(T: Tensor, rho: Tensor, checkpoint: bool = False) -> Tensor:
        scheme = Scheme(T, 3, rho, coils="sensitivities")
        return rss(scheme.run(scheme.data_term(z, mask, s), reg, checkpoint=checkpoint)).square().sum()

    T, rho = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (6.0, 0.4))
    plain = torch.autograd.grad(J(T, rho), [T, rho])
    again = torch.autograd.grad(J(T, rho, checkpoint=True), [T, rho])
    for a, b in zip(plain, again, strict=True):
        torch.testing.assert_close(a, b)
    with torch.no_grad():
        steps = [(J(T + 1e-4, rho) - J(T - 1e-4, rho)) / 2e-4, (J(T, rho + 1e-4) - J(T, rho - 1e-4)) / 2e-4]
    torch.testing.assert_close(torch.stack(plain), torch.stack(steps), rtol=1e-4, atol=1e-6)


def test_a_model_takes_any_array() -> None:
    """One coil, several, and more than its most, which are compressed."""
    reg = TDV(TDVConfig(features=4, macroblocks=1, scales=2), torch.Generator().manual_seed(0))
    model = Model(regularizer=reg, T=4.0, S=2, coils=Coils("sensitivities", 4), rho=1.0)
    method = learned(model, "m", torch.device("cpu"))
    assert model.n_parameters == replace(model, rho=None).n_parameters + 1
    for Q, expected in ((1, 1), (3, 3), (9, 4)):
        z, mask, _ = phantom(Q)
        prepared = method.prepare(z)
        assert prepared.shape[1] == expected
        x = method.solve(method.begin(prepared, mask, None))
        assert x.shape == prepared.shape
        assert x.isfinite().all()


def test_recomputed_steps_keep_their_states_alone() -> None:
    """What autograd keeps grows by the states of a step, not by the conjugate gradients within it."""
    z, mask, _ = phantom(4, size=32)
    s = sensitivity_sets(z, mask)
    assert s is not None
    reg = TDV(TDVConfig(features=4, macroblocks=1, scales=2), torch.Generator().manual_seed(0))
    T = torch.tensor(6.0, requires_grad=True)

    def kept(S: int, checkpoint: bool) -> int:
        seen: dict[int, int] = {}

        def keep(t: Tensor) -> Tensor:
            seen[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
            return t

        scheme = Scheme(T, S, 1.0, coils="sensitivities", momentum=0.5)
        D = scheme.data_term(z, mask, s)
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
            x = scheme.run(D, reg, checkpoint=checkpoint)
        assert x.requires_grad
        return sum(seen.values())

    state = 2 * s.shape[1] * 32 * 32 * 8  # m and A*A m, complex64
    assert kept(9, True) - kept(3, True) <= 6 * 2 * state
    assert kept(9, False) - kept(3, False) > 10 * (kept(9, True) - kept(3, True))
