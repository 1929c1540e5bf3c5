"""Laws of coils: compression keeps energy, the emulated coil fits, scenes are smooth and keep the magnitude."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from bayesmri.complexes import rss
from bayesmri.data.simulate import Scanner, acquire
from bayesmri.errors import ConfigError
from bayesmri.physics.coils import coil_gram, compress_coils, compression_matrix, emulate_single_coil, emulated_weights
from bayesmri.physics.fourier import ifft2c
from bayesmri.physics.scaling import Scaling
from bayesmri.physics.scene import add_noise, loop_sensitivities, smooth_phase


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def disk(shape: tuple[int, int]) -> Tensor:
    y, x = torch.meshgrid(*(torch.linspace(-1, 1, n) for n in shape), indexing="ij")
    return ((x**2 + y**2) < 0.6).float() * (1 + 0.3 * torch.sin(9 * x) * torch.cos(7 * y))


def test_compression_is_unitary_and_ordered_by_energy() -> None:
    z = acquire(disk((24, 21))[None], Scanner(coils=7, snr_db=30), rng=rng()).to(torch.complex128)
    U = compression_matrix(coil_gram(z))
    torch.testing.assert_close(U @ U.mH, torch.eye(7, dtype=U.dtype))
    energy = compress_coils(z, 7).abs().square().sum(dim=(0, 2, 3))
    assert (energy.diff() <= 1e-12).all()
    torch.testing.assert_close(energy.sum(), z.abs().square().sum())


def test_compression_to_all_coils_keeps_the_root_sum_of_squares() -> None:
    z = acquire(disk((24, 21))[None], Scanner(coils=5), rng=rng())
    torch.testing.assert_close(rss(ifft2c(compress_coils(z, 5))), rss(ifft2c(z)), atol=1e-5, rtol=1e-4)


def test_few_virtual_coils_hold_most_of_a_smooth_array() -> None:
    z = acquire(disk((48, 48))[None], Scanner(coils=15), rng=rng())
    kept = compress_coils(z, 8).abs().square().sum() / z.abs().square().sum()
    assert kept > 0.99


@pytest.mark.parametrize("coils", [1, 3])
def test_missing_virtual_coils_are_zero(coils: int) -> None:
    z = acquire(disk((16, 17))[None], Scanner(coils=coils), rng=rng())
    virtual = compress_coils(z, 8)
    assert virtual.shape == (1, 8, 16, 17)
    assert (virtual[:, coils:] == 0).all()
    assert virtual[:, :coils].abs().amax(dim=(0, 2, 3)).gt(0).all()


def test_the_emulated_coil_fits_the_root_sum_of_squares_better_than_any_single_coil() -> None:
    y = ifft2c(acquire(disk((40, 36))[None], Scanner(coils=6), rng=rng())).to(torch.complex128)
    Y = rss(y)
    fit = (emulate_single_coil(y)[:, 0].abs() - Y).square().sum()
    for q in range(6):
        magnitude = y[:, q].abs()
        best = (magnitude * Y).sum() / magnitude.square().sum()
        assert fit < (best * magnitude - Y).square().sum()


def test_the_emulated_weights_are_stationary() -> None:
    y = ifft2c(acquire(disk((20, 20))[None], Scanner(coils=4), rng=rng())).to(torch.complex128)
    w = emulated_weights(y, iterations=3000).requires_grad_()
    loss = (torch.einsum("q,sqhw->shw", w, y).abs() - rss(y)).square().sum()
    loss.backward()  # type: ignore[no-untyped-call]
    assert w.grad is not None
    assert w.grad.abs().max() < 1e-3 * rss(y).square().sum()


def test_sums_over_a_volume_are_those_of_all_its_pixels() -> None:
    """Slice by slice or with all slices side by side: one Gram matrix, one emulated coil, one scale."""
    X = torch.stack((disk((20, 18)), 0.5 * disk((20, 18)).flip(0), torch.zeros(20, 18)))
    u = acquire(X, Scanner(coils=4, snr_db=40), rng=rng()).to(torch.complex128)
    y = ifft2c(u)
    wide = y.movedim(0, -2).flatten(-2)  # (Q, H, slices · W)
    torch.testing.assert_close(coil_gram(y), coil_gram(wide))
    torch.testing.assert_close(
        emulate_single_coil(y).abs(), emulate_single_coil(y, emulated_weights(wide)).abs(), rtol=1e-6, atol=1e-8
    )
    assert Scaling().factor(u) == float(rss(y).max())


def test_no_transform_or_sum_holds_a_whole_volume(monkeypatch: pytest.MonkeyPatch) -> None:
    """40 slices of 15 coils are 1 GB: their coil images must not be there several times over."""
    largest = 0

    def watch(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        def watched(x: Tensor) -> Tensor:
            nonlocal largest
            largest = max(largest, x.numel())
            return function(x)

        return watched

    monkeypatch.setattr("bayesmri.physics.scaling.ifft2c", watch(ifft2c))
    monkeypatch.setattr("bayesmri.physics.coils.rss", watch(rss))
    u = acquire(disk((16, 18)).expand(5, -1, -1), Scanner(coils=3), rng=rng())
    Scaling().factor(u)
    emulated_weights(ifft2c(u), iterations=1)
    assert largest == 3 * 16 * 18


def test_one_coil_is_its_own_emulation() -> None:
    y = ifft2c(acquire(disk((20, 21))[None], Scanner(coils=1), rng=rng()))
    torch.testing.assert_close(emulate_single_coil(y).abs(), y.abs(), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("Q", [1, 4, 15])
@pytest.mark.parametrize("shape", [(32, 32), (33, 20)])
def test_sensitivities_are_normalised_smooth_and_distinct(Q: int, shape: tuple[int, int]) -> None:
    s = loop_sensitivities(Q, shape, rng=rng())
    assert s.shape == (Q, *shape)
    torch.testing.assert_close(rss(s), torch.ones(shape))
    assert s.diff(dim=-1).abs().max() < 12 / max(shape)
    assert torch.linalg.matrix_rank(s.flatten(1), rtol=1e-4) >= min(Q, 4)


@pytest.mark.parametrize("Q", [1, 6])
def test_without_noise_the_magnitude_comes_back(Q: int) -> None:
    X = torch.stack((disk((31, 28)), 0.5 * disk((31, 28))))
    u = acquire(X, Scanner(coils=Q), rng=rng())
    assert u.shape == (2, Q, 31, 28)
    torch.testing.assert_close(rss(ifft2c(u)), X, atol=1e-5, rtol=1e-4)


def test_noise_has_the_asked_power() -> None:
    u = acquire(disk((64, 64))[None], Scanner(coils=4), rng=rng())
    for snr in (0.0, 20.0):
        ratio = u.abs().square().sum() / (add_noise(u, snr, rng=rng(1)) - u).abs().square().sum()
        assert abs(float(10 * torch.log10(ratio)) - snr) < 0.2


def test_phase_is_smooth_and_seeded() -> None:
    phase = smooth_phase((40, 33), rng=rng(2))
    assert phase.shape == (40, 33)
    assert phase.diff(dim=0).abs().max() < 1
    assert torch.equal(phase, smooth_phase((40, 33), rng=rng(2)))
    assert not torch.equal(phase, smooth_phase((40, 33), rng=rng(3)))


def test_no_coils_are_refused() -> None:
    with pytest.raises(ConfigError, match="at least 1"):
        loop_sensitivities(0, (8, 8), rng=rng())
    with pytest.raises(ConfigError, match="at least 1"):
        compress_coils(torch.ones(1, 2, 8, 8, dtype=torch.complex64), 0)
