"""The proximal maps by one-dimensional transforms are those of torch, for any size, coils and mask of columns."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from bayesmri.physics import columns
from bayesmri.physics.data_terms import Channels, Coupled, Separate

# factors 4, 2, 3, 5, 7 and larger primes; rows below, at and beyond 16; one pixel
SIZES = [(1, 1), (5, 7), (16, 8), (17, 30), (33, 35), (40, 46), (20, 61), (32, 320)]


@pytest.fixture(autouse=True)
def compiler() -> None:
    if columns.library() is None:
        pytest.skip("no C compiler on this machine")


def drawn(*shape: int, seed: int = 0, dtype: torch.dtype = torch.complex64) -> Tensor:
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def lines(W: int, seed: int = 0) -> Tensor:
    return (torch.rand(W, generator=torch.Generator().manual_seed(seed)) < 0.4).index_fill(
        0, torch.tensor(W // 2), True
    )


def close(a: Tensor, b: Tensor) -> None:
    assert a.shape == b.shape
    assert float((a - b).norm() / b.norm()) < 1e-5


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("term", [Channels, Separate])
def test_the_closed_form_is_that_of_torch(term: type[Channels | Separate], size: tuple[int, int]) -> None:
    mask = lines(size[1])
    D = term(mask * drawn(2, 3, *size), mask)
    v = drawn(2, 3, *size, seed=1)
    assert D._plans is not None
    (fast,), (slow,) = D.prox(v, 0.7, (v,)), replace(D, plain=True).prox(v, 0.7, (v,))
    close(fast, slow)
    assert not torch.equal(fast, slow) or size == (1, 1), "the kernels were not used"


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("sets", "coils"), [(1, 1), (1, 5), (2, 4)])
def test_conjugate_gradients_are_those_of_torch(sets: int, coils: int, size: tuple[int, int]) -> None:
    """With a mask for each of the two images, and the start that all samples of a slice share."""
    mask = torch.stack([lines(size[1], seed=i) for i in (0, 1)])[:, None, None]
    s = drawn(2, sets, coils, *size, seed=2) / (sets * coils) ** 0.5
    D = Coupled(mask * drawn(2, coils, *size), mask, s)
    plain = replace(D, plain=True)
    state, v = D.start(), drawn(2, sets, *size, seed=3)
    kept = [t.clone() for t in (*state, v)]
    for fast, slow in zip(D.prox(v, 3.0, state), plain.prox(v, 3.0, state), strict=True):
        close(fast, slow)
    close(state[0], plain.start()[0])
    assert all(torch.equal(a, b) for a, b in zip((*state, v), kept, strict=True))


def test_what_diverged_stays_so() -> None:
    """A NaN must not pass for an image."""
    mask = lines(24)
    D = Coupled(mask * drawn(1, 2, 20, 24), mask, drawn(1, 1, 2, 20, 24, seed=1))
    v = drawn(1, 1, 20, 24, seed=2)
    v[0, 0, 3, 4] = float("nan")
    assert D.prox(v, 3.0, D.start())[0].isnan().all()
    assert Channels(D.z, mask).prox(v, 3.0, (v,))[0].isnan().any()


def test_nothing_to_do_changes_nothing() -> None:
    mask = lines(24)
    D = Coupled(torch.zeros(1, 2, 20, 24, dtype=torch.complex64), mask, drawn(1, 1, 2, 20, 24))
    zero = torch.zeros(1, 1, 20, 24, dtype=torch.complex64)
    assert all(torch.equal(t, zero) for t in D.prox(zero, 3.0, (zero, zero)))


@pytest.mark.parametrize(
    ("mask", "dtype"),
    [(torch.rand(20, 24) < 0.5, torch.complex64), (lines(24), torch.complex128), (lines(67), torch.complex64)],
)
def test_points_double_precision_and_large_primes_take_the_plain_path(mask: Tensor, dtype: torch.dtype) -> None:
    z = mask * drawn(1, 1, 20, mask.shape[-1], dtype=dtype)
    assert columns.plans(z, mask) is None


@pytest.mark.parametrize("coupled", [False, True])
def test_learning_goes_back_as_through_torch(coupled: bool) -> None:
    mask = lines(24)
    z, s = mask * drawn(2, 3, 20, 24), drawn(2, 1, 3, 20, 24, seed=4) / 3**0.5
    D: Channels | Coupled = Coupled(z, mask, s) if coupled else Channels(z, mask)
    h, v = torch.tensor(0.7, requires_grad=True), drawn(2, 1 if coupled else 3, 20, 24, seed=1).requires_grad_()
    before = tuple(drawn(*v.shape, seed=i).requires_grad_() for i in (5, 6)) if coupled else (v,)
    weights = drawn(*v.shape, seed=7)

    def gradients(by: Channels | Coupled) -> tuple[Tensor, ...]:
        x = by.prox(v, h, before)[0]
        return torch.autograd.grad((x * weights).real.sum() + x.abs().square().sum(), [v, h, *before])

    for fast, slow in zip(gradients(D), gradients(replace(D, plain=True)), strict=True):
        close(fast, slow)


def test_learned_sensitivities_take_the_plain_path() -> None:
    mask = lines(24)
    s = drawn(1, 1, 3, 20, 24, seed=4).requires_grad_()
    D = Coupled(mask * drawn(1, 3, 20, 24), mask, s)
    v = drawn(1, 1, 20, 24, seed=1)
    (through,) = torch.autograd.grad(D.prox(v, 0.7, (v, v))[0].abs().sum(), [s])
    assert float(through.abs().sum()) > 0
