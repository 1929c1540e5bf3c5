"""Total variation solves its own problem, and SigPy's."""

import numpy as np
import pytest
import torch
from torch import Tensor

from bayesmri.baselines.tv import TotalVariation
from bayesmri.complexes import inner, rss
from bayesmri.data.simulate import Scanner, acquire
from bayesmri.errors import ConfigError
from bayesmri.physics.fidelity import fidelity
from bayesmri.physics.fourier import ifft2c
from bayesmri.physics.mask import random_mask
from bayesmri.regularizers.tv import differences, differences_adjoint


def problem(shape: tuple[int, int], Q: int, R: int = 3) -> tuple[Tensor, Tensor]:
    y, x = torch.meshgrid(*(torch.linspace(-1, 1, n) for n in shape), indexing="ij")
    image = (x**2 + y**2 < 0.7).float() - 0.4 * ((x - 0.2).abs() + y.abs() < 0.4).float()
    rng = torch.Generator().manual_seed(0)
    u = acquire(image[None], Scanner(coils=Q, snr_db=25), rng=rng).to(torch.complex128)
    mask = random_mask(shape[1], R, rng=rng)
    return u * mask / rss(ifft2c(u * mask)).max(), mask


def objective(x: Tensor, z: Tensor, mask: Tensor, weight: float) -> float:
    return float(fidelity(x, z, mask) + weight * rss(differences(x)).sum())


@pytest.mark.parametrize(("shape", "Q"), [((32, 32), 1), ((27, 31), 1), ((24, 25), 5)])
def test_no_neighbour_is_better(shape: tuple[int, int], Q: int) -> None:
    z, mask = problem(shape, Q)
    x = TotalVariation(weight=5e-3, iterations=3000, tolerance=0)(z, mask)
    best = objective(x, z, mask, 5e-3)
    assert best < objective(ifft2c(z), z, mask, 5e-3)
    for seed in range(10):
        rng = torch.Generator().manual_seed(seed)
        step = torch.randn(x.shape, dtype=x.dtype, generator=rng)
        for size in (1e-2, 1e-3):
            assert objective(x + size * step, z, mask, 5e-3) > best
    assert objective(0.999 * x, z, mask, 5e-3) > best * (1 - 1e-9)


def test_optimality_condition() -> None:
    """A*(z − Ax) = λ∇*p with |p| ≤ 1 and p = ∇x/|∇x| where ∇x ≠ 0; here the part of it that needs no p: testing with x.

    ⟨A*(z − Ax), x⟩ = λ TV(x).
    """
    z, mask = problem((32, 30), 2)
    x = TotalVariation(weight=5e-3, iterations=5000, tolerance=0)(z, mask)
    residual = ifft2c(
        z - mask * torch.fft.fftshift(torch.fft.fft2(torch.fft.ifftshift(x, (-2, -1)), norm="ortho"), (-2, -1))
    )
    torch.testing.assert_close(inner(residual, x), 5e-3 * rss(differences(x)).sum(), rtol=1e-4, atol=0)


def test_agrees_with_sigpy() -> None:
    app = pytest.importorskip("sigpy.mri.app", reason="SigPy is the extra `baselines`")
    z, mask = problem((48, 45), 1)
    maps = np.ones((1, 48, 45))
    theirs = app.TotalVariationRecon(z[0].numpy(), maps, 5e-3, max_iter=4000, show_pbar=False).run()
    theirs = torch.from_numpy(theirs)[None, None]
    ours = TotalVariation(weight=5e-3, iterations=4000, tolerance=0)(z, mask)
    assert objective(ours, z, mask, 5e-3) <= objective(theirs, z, mask, 5e-3) * (1 + 1e-6)
    assert float((ours - theirs).norm() / theirs.norm()) < 5e-3


def test_the_defaults_have_converged() -> None:
    z, mask = problem((64, 64), 4)
    quick, long = TotalVariation()(z, mask), TotalVariation(iterations=3000, tolerance=0)(z, mask)
    assert float((rss(quick) - rss(long)).norm() / rss(long).norm()) < 5e-3


def test_differences_and_their_adjoint() -> None:
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(2, 3, 7, 8, dtype=torch.complex128, generator=rng)
    p = torch.randn(2, 2, 3, 7, 8, dtype=torch.complex128, generator=rng)
    assert differences(x).shape == p.shape
    torch.testing.assert_close(inner(differences(x), p), inner(x, differences_adjoint(p)))


def test_no_weight_is_zero_filling() -> None:
    z, mask = problem((16, 17), 2)
    torch.testing.assert_close(TotalVariation(weight=0)(z, mask), ifft2c(z))


def test_a_missing_centre_is_no_division_by_zero() -> None:
    z, mask = problem((16, 17), 1)
    mask = mask.clone()
    mask[8] = False
    assert TotalVariation()(z * mask, mask).isfinite().all()


@pytest.mark.parametrize("weight", [-1.0, float("nan"), float("inf")])
def test_impossible_weights_are_refused(weight: float) -> None:
    with pytest.raises(ConfigError, match="TV weight"):
        TotalVariation(weight=weight)
