"""Masks of two axes: how they are drawn, and the laws of A = M F (C) with them."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from torch import Tensor

from bayesmri.baselines.bart import read_cfl
from bayesmri.baselines.tv import TotalVariation
from bayesmri.baselines.zero_filled import ZeroFilled
from bayesmri.complexes import rss
from bayesmri.data.simulate import Scanner, acquire
from bayesmri.errors import MaskError, ShapeError
from bayesmri.kspace import Header, KSpace
from bayesmri.metrics import volume_metrics
from bayesmri.physics.centre import central_block, central_lines, n_central_lines, sensitivities
from bayesmri.physics.coil_operator import CoilOperator
from bayesmri.physics.data_terms import Coupled
from bayesmri.physics.espirit import espirit_sets
from bayesmri.physics.fidelity import fidelity_grad, prox_data
from bayesmri.physics.fourier import fft2c, ifft2c
from bayesmri.physics.mask import MaskSpec, equispaced_mask, random_mask
from bayesmri.physics.operator import Operator, batched
from bayesmri.physics.pattern import (
    centre_block,
    centre_run,
    empty_corners,
    inside_ellipse,
    kind_of,
    n_center_lines,
    n_center_points,
)
from bayesmri.physics.points import JITTER, point_distances, poisson_mask
from bayesmri.physics.sense import sense, sensitivity_sets
from laws import assert_adjoint

DTYPE = torch.complex128
SHAPES = [(16, 12), (15, 17), (9, 20)]


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, dtype=DTYPE, generator=rng(seed))


def points(H: int, W: int, seed: int = 0, share: float = 0.4) -> Tensor:
    return torch.rand(H, W, generator=rng(seed)) < share


# how they are drawn


@pytest.mark.parametrize("ellipse", [False, True])
@pytest.mark.parametrize(("shape", "R"), [((64, 64), 4), ((65, 48), 8), ((40, 57), 3.3), ((33, 96), 2)])
def test_a_poisson_disc_has_exactly_the_points_of_R(shape: tuple[int, int], R: float, ellipse: bool) -> None:
    for seed in range(3):
        mask = poisson_mask(shape, R, ellipse=ellipse, rng=rng(seed))
        assert tuple(mask.shape) == shape
        assert int(mask.sum()) == round(shape[0] * shape[1] / R)
        n = n_center_points(shape, R, None)
        rows, columns = (slice((size - m + 1) // 2, (size - m + 1) // 2 + m) for size, m in zip(shape, n, strict=True))
        assert bool(mask[rows, columns].all())
        assert bool(mask[shape[0] // 2, shape[1] // 2])
        if ellipse:
            assert not mask.numpy()[~inside_ellipse(shape)].any()


def test_a_poisson_disc_follows_its_generator_alone() -> None:
    torch.manual_seed(5)
    one = poisson_mask((48, 40), 4, rng=rng(1))
    torch.manual_seed(6)
    assert torch.equal(one, poisson_mask((48, 40), 4, rng=rng(1)))
    assert not torch.equal(one, poisson_mask((48, 40), 4, rng=rng(2)))


def nearest(mask: NDArray[np.bool_], within: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The distance of every point of a region to its nearest neighbour."""
    place = np.argwhere(mask)
    distance = cKDTree(place).query(place, k=2)[0][:, 1]
    return np.asarray(distance[within[mask]])


@pytest.mark.parametrize("R", [4, 8])
def test_points_keep_their_distance(R: float) -> None:
    """|p − q| ≥ s (1 − JITTER) min(w_p, w_q), with the s of an even spread; they are denser towards the centre."""
    shape = (160, 160)
    mask, w = poisson_mask(shape, R, center_fraction=0.06, rng=rng(3)).numpy(), point_distances(shape)
    place = np.argwhere(mask)
    p, q = cKDTree(place).query_pairs(6, output_type="ndarray").T
    in_block = np.abs(place - 80).max(axis=1) <= 6
    distance = np.linalg.norm(place[p] - place[q], axis=1) / np.minimum(w[mask][p], w[mask][q])
    even = (R * np.mean(1 / w**2)) ** 0.5  # Σ 1/(s w)² points are as many as there are
    assert distance[~(in_block[p] & in_block[q])].min() >= 0.7 * (1 - JITTER) * even
    density = [mask[(low < w) & (w <= low + 0.4)].mean() for low in (1.4, 2.0, 2.6)]
    assert density[0] > density[1] > density[2]


def low_frequencies(mask: NDArray[np.bool_]) -> float:
    """The power of an outer piece of a mask at low frequencies over that of independent points."""
    piece = mask[: len(mask) // 4].astype(float)
    power = np.abs(np.fft.fft2(piece - piece.mean())) ** 2 / piece.size
    y, x = np.meshgrid(*(np.fft.fftfreq(n) for n in piece.shape), indexing="ij")
    ring = (np.hypot(y, x) < 0.12) & (np.hypot(y, x) > 0.03)
    p = float(piece.mean())
    return float(power[ring].mean() / (p * (1 - p)))


def test_its_spectrum_is_that_of_others_poisson_discs() -> None:
    """Less power at low frequencies than independent points have, as of SigPy's masks; distances are no shorter."""
    mr = pytest.importorskip("sigpy.mri", reason="SigPy is not installed")
    shape = (160, 160)
    ours = poisson_mask(shape, 4, center_fraction=0.1, rng=rng(0)).numpy()
    theirs = np.abs(mr.poisson(shape, 4, calib=(16, 16), crop_corner=False, seed=1)) > 0
    alone = points(*shape, share=float(ours[:40].mean())).numpy()
    assert low_frequencies(ours) < 0.5
    assert low_frequencies(ours) < low_frequencies(theirs) + 0.1
    assert low_frequencies(alone) > 0.8
    outside = point_distances(shape) > 2.4
    assert nearest(ours, outside).mean() >= nearest(theirs, outside).mean()
    assert kind_of(ours) == kind_of(theirs) == "poisson"


@pytest.mark.skipif(shutil.which("bart") is None, reason="BART is not installed")
def test_bart_draws_what_is_called_a_poisson_disc(tmp_path: Path) -> None:
    words = ["bart", "poisson", "-Y", "128", "-Z", "120", "-y", "2", "-z", "2", "-C", "20", "-v", "-V", "3", "m"]
    subprocess.run(words, cwd=tmp_path, check=True, capture_output=True)
    theirs = np.abs(read_bart(tmp_path / "m")) > 0
    assert theirs.shape == (128, 120)
    assert kind_of(theirs) == "poisson"
    ours = poisson_mask((128, 120), theirs.size / theirs.sum(), center_fraction=20 / 128, rng=rng()).numpy()
    outside = point_distances((128, 120)) > 2.4
    assert nearest(ours, outside).mean() > 0.9 * nearest(theirs, outside).mean()
    assert max(low_frequencies(ours), low_frequencies(theirs)) < 0.5


def read_bart(base: Path) -> NDArray[np.complex64]:
    """(PE1, PE2) of a pattern, whose first dimension is 1."""
    return np.asarray(read_cfl(base)[0])


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(MaskError, match="lower the center fraction"):
        poisson_mask((32, 32), 8, center_fraction=0.6, rng=rng())
    with pytest.raises(MaskError, match="keeps none"):
        poisson_mask((16, 16), 1000, rng=rng())
    with pytest.raises(MaskError, match="has no corners"):
        poisson_mask((32, 32), 1.1, ellipse=True, rng=rng())
    with pytest.raises(MaskError, match="expected rows and columns"):
        MaskSpec("poisson").draw(32, rng())
    with pytest.raises(MaskError, match="partial Fourier covers 20 of 32"):
        MaskSpec("partial-fourier", 1.2).draw(32, rng())
    with pytest.raises(MaskError, match="poisson_share"):
        MaskSpec(equispaced_share=0.7, poisson_share=0.7)


@pytest.mark.parametrize("W", [64, 65, 160])
def test_partial_fourier_leaves_one_side_out(W: int) -> None:
    sides = set()
    for seed in range(12):
        mask = MaskSpec("partial-fourier", 4).draw((32, W), rng(seed)).numpy()
        assert mask.shape == (W,)
        assert mask.sum() == round(W / 4)
        assert centre_run(mask) >= n_center_lines(W, 4, None)
        missing = W - round(5 * W / 8)
        left, right = not mask[:missing].any(), not mask[W - missing :].any()
        assert left or right
        sides.add(left)
    assert sides == {True, False}
    assert kind_of(MaskSpec("partial-fourier", 4).draw(160, rng()).numpy()) == "partial-fourier"


def test_training_draws_points_at_their_share() -> None:
    spec, generator = MaskSpec(equispaced_share=0.3, poisson_share=0.3), rng(1)
    assert spec.points
    drawn = [spec.draw((24, 28), generator) for _ in range(200)]
    assert 40 <= sum(mask.ndim == 2 for mask in drawn) <= 80
    assert not spec.plain().points
    before, after = MaskSpec(equispaced_share=0.3), MaskSpec(equispaced_share=0.3, poisson_share=0.0)
    assert torch.equal(before.draw(64, rng(2)), after.draw((9, 64), rng(2)))  # models of before see the same masks


# what they look like


def test_kinds_are_told_apart() -> None:
    for seed in range(3):
        assert kind_of(poisson_mask((96, 80), 4, rng=rng(seed)).numpy()) == "poisson"
        assert kind_of(poisson_mask((96, 80), 4, ellipse=True, rng=rng(seed)).numpy()) == "elliptical"
        scattered = points(96, 80, seed, 0.25)
        scattered[40:56, 32:48] = True
        assert kind_of(scattered.numpy()) == "points"
        assert kind_of(random_mask(256, 4, rng=rng(seed)).numpy()) == "random"
        assert kind_of(equispaced_mask(256, 4, rng=rng(seed)).numpy()) == "equispaced"
    lattice = np.zeros((96, 80), dtype=bool)
    lattice[::2, ::2] = lattice[40:56, 32:48] = True
    assert kind_of(lattice) == "points"
    caipirinha = np.zeros((96, 80), dtype=bool)
    caipirinha[::2, ::4] = caipirinha[1::2, 2::4] = caipirinha[40:56, 32:48] = True
    assert kind_of(caipirinha) == "points"
    one_side = np.arange(96) < 72
    assert kind_of(one_side) == "partial-fourier"
    assert kind_of(one_side[::-1]) == "partial-fourier"


def test_an_ellipse_is_seen_where_its_corners_are_empty() -> None:
    assert empty_corners(inside_ellipse((64, 48)))
    assert not empty_corners(np.ones((64, 48), dtype=bool))
    block = np.zeros((64, 48), dtype=bool)
    block[24:40, 16:32] = True
    assert not empty_corners(block)


@pytest.mark.parametrize(("H", "W"), [(16, 20), (17, 15)])
def test_the_central_block_is_complete_and_the_same_in_both_notations(H: int, W: int) -> None:
    for seed in range(20):
        mask = points(H, W, seed, 0.7)
        mask[H // 2 - 3 : H // 2 + 3, W // 2 - 2 : W // 2 + 4] = True
        found = central_lines(mask[None, None])
        assert not (found & ~mask).any()
        rows, columns = (int(n) for n in central_block(mask[None, None], H))
        assert int(found.sum()) == rows * columns
        assert min(rows, columns) >= 4
        assert int(n_central_lines(mask[None, None])) == min(rows, columns)
        assert min(centre_block(mask.numpy())) >= min(rows, columns)
    empty = torch.zeros(1, 1, H, W, dtype=torch.bool)
    assert int(n_central_lines(empty)) == 1
    assert centre_block(empty[0, 0].numpy()) == (0, 0)


# the laws of A


@pytest.mark.parametrize(("H", "W"), SHAPES)
@pytest.mark.parametrize("Q", [1, 3])
def test_forward_and_adjoint_are_adjoint(H: int, W: int, Q: int) -> None:
    A = Operator(points(H, W))
    assert_adjoint(A.forward, A.adjoint, normal(2, Q, H, W, seed=1), A.mask * normal(2, Q, H, W, seed=2))
    C = CoilOperator(points(H, W), normal(2, 2, Q, H, W, seed=3))
    assert_adjoint(C.forward, C.adjoint, normal(2, 2, H, W, seed=1), C.mask * normal(2, Q, H, W, seed=2))
    m = normal(2, 2, H, W, seed=4)
    torch.testing.assert_close(C.normal(m), C.adjoint(C.forward(m)))


@pytest.mark.parametrize(("H", "W"), SHAPES)
@pytest.mark.parametrize("Q", [1, 3])
def test_prox_is_optimal(H: int, W: int, Q: int) -> None:
    """x = prox_{hD}(v) ⟺ x − v + h∇D(x) = 0; with coils after enough conjugate gradients."""
    mask, h = points(H, W), 0.7
    v, z = normal(1, Q, H, W, seed=1), mask * normal(1, Q, H, W, seed=2)
    x = prox_data(v, z, mask, h)
    torch.testing.assert_close(x, v - h * fidelity_grad(x, z, mask))
    D = Coupled(z, mask, normal(1, 1, Q, H, W, seed=3), steps=200)
    m0 = normal(1, 1, H, W, seed=4)
    m = D.prox(m0, h, (torch.zeros_like(m0), torch.zeros_like(m0)))[0]
    torch.testing.assert_close(m, m0 - h * (D.A.normal(m) - D.b), rtol=1e-6, atol=1e-6)


def test_a_mask_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ShapeError, match="per row and column"):
        Operator(torch.ones(9, 12, dtype=torch.bool)).forward(normal(2, 8, 12))


def phantom(Q: int, H: int = 48, W: int = 44) -> Tensor:
    """Fully sampled k-space of a simulated array, complex64 (1, Q, H, W)."""
    y, x = torch.meshgrid(torch.linspace(-1, 1, H), torch.linspace(-1, 1, W), indexing="ij")
    X = (x**2 + y**2 < 0.7).float() * (1 + 0.3 * torch.sin(9 * x) * torch.cos(7 * y))
    return acquire(X[None], Scanner(Q, 40.0), rng=rng(5))


@pytest.mark.parametrize("Q", [1, 4])
def test_points_of_whole_columns_are_columns(Q: int) -> None:
    u, lines = phantom(Q), random_mask(44, 3, center_fraction=0.3, rng=rng(1))
    whole = lines.expand(48, 44)
    assert batched(whole).shape == (1, 1, 1, 44)
    for method in (ZeroFilled(), TotalVariation(iterations=20), sense):
        torch.testing.assert_close(method(u * lines, whole), method(u * lines, lines))
    header = Header("test")
    kspace = KSpace((u * lines).numpy(), whole.numpy(), header)
    assert kspace.mask.shape == (44,)
    assert kspace.contents() == KSpace((u * lines).numpy(), lines.numpy(), header).contents()


def test_sensitivities_are_learned_from_the_block() -> None:
    """Of a block as large as the columns ESPIRiT sees there are the same sensitivities; nothing else is looked at."""
    u = phantom(5)
    lines = torch.zeros(44, dtype=torch.bool)
    lines[10:34] = True
    block = torch.zeros(48, 44, dtype=torch.bool)
    block[12:36, 10:34] = True
    of_lines, of_block = (espirit_sets(u * mask, batched(mask), sets=1) for mask in (lines, block))
    overlap = (of_lines.conj() * of_block).sum(dim=2).abs()
    inside = rss(ifft2c(u)) > 0.3 * rss(ifft2c(u)).max()
    assert overlap[:, 0][inside].min() > 0.999
    more = u.clone()
    more[..., :5, :5] = 7
    torch.testing.assert_close(espirit_sets(more * block, batched(block)), espirit_sets(u * block, batched(block)))
    assert sensitivity_sets(u * ~block, ~block) is None
    unit = rss(sensitivities(u * block, batched(block)))
    torch.testing.assert_close(unit, torch.ones_like(unit))


def test_sense_gains_from_points_as_from_lines() -> None:
    u, Y = phantom(6, 64, 64), rss(ifft2c(phantom(6, 64, 64))).numpy()
    mask = poisson_mask((64, 64), 3, center_fraction=0.2, rng=rng())
    z = u * mask
    start, found = (volume_metrics(rss(x).numpy(), Y).psnr for x in (ifft2c(z), sense(z, mask)))
    assert found > start + 6


def test_everything_acquired_is_reproduced() -> None:
    u = phantom(3)
    full = torch.ones(48, 44, dtype=torch.bool)
    for method in (ZeroFilled(), TotalVariation(weight=0)):
        torch.testing.assert_close(method(u, full), ifft2c(u))
    torch.testing.assert_close(fft2c(prox_data(ifft2c(u), u, full, 2.0)), u, rtol=1e-4, atol=1e-5)
