"""Metrics are fastMRI's own numbers, SSIM is one function for evaluation and loss, and no truth gives a NaN."""

import json
import math
from dataclasses import asdict
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from skimage.metrics import peak_signal_noise_ratio, structural_similarity

from bayesmri.errors import DataError, ShapeError
from bayesmri.metrics import (
    PSNR_CAP,
    center_crop,
    nmse,
    psnr,
    slice_metrics,
    ssim,
    ssim_batch,
    ssim_map,
    volume_metrics,
)

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
SHAPES = [(1, 7, 7), (3, 24, 31), (2, 33, 16)]


def pair(shape: tuple[int, ...], scale: float = 1.0) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A smooth truth and a noisy estimate of it."""
    rng = np.random.default_rng(sum(shape))
    Y = np.cumsum(rng.random(shape), axis=-1) * scale
    return Y + 0.1 * Y.max() * rng.standard_normal(shape), Y


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e5])
def test_metrics_are_fastmris(shape: tuple[int, int, int], scale: float) -> None:
    evaluate = pytest.importorskip("fastmri.evaluate", reason="fastMRI is not installed")
    X, Y = pair(shape, scale)
    assert nmse(X, Y) == pytest.approx(float(evaluate.nmse(Y, X)), rel=1e-10)
    assert psnr(X, Y) == pytest.approx(float(evaluate.psnr(Y, X)), rel=1e-10)
    assert ssim(X, Y) == pytest.approx(float(evaluate.ssim(Y, X)[0]), rel=1e-9)


@pytest.mark.parametrize("shape", SHAPES)
def test_metrics_are_those_of_scikit_image(shape: tuple[int, int, int]) -> None:
    X, Y = pair(shape)
    of_slices = [structural_similarity(y, x, data_range=Y.max()) for x, y in zip(X, Y, strict=True)]
    assert ssim(X, Y) == pytest.approx(float(np.mean(of_slices)), rel=1e-9)
    assert psnr(X, Y) == pytest.approx(float(peak_signal_noise_ratio(Y, X, data_range=Y.max())), rel=1e-10)


@pytest.mark.parametrize("name", ["lowfield_6a_128x126", "lowfield_7a_128x196", "labmidas_7ch", "larson_sag_t1"])
def test_metrics_are_fastmris_on_measured_volumes(name: str) -> None:
    evaluate = pytest.importorskip("fastmri.evaluate", reason="fastMRI is not installed")
    path = DATA / "val" / "raw" / f"{name}.h5"
    if not path.exists():
        pytest.skip("the measured volumes of shared/data are not here")
    with h5py.File(path) as file:
        Y = file["reconstruction_esc" if "reconstruction_esc" in file else "reconstruction_rss"][()]
    X = (Y + np.roll(Y, 1, axis=-1)) / 2
    ours = volume_metrics(X, Y)
    assert ours.nmse == pytest.approx(float(evaluate.nmse(Y, X)), rel=1e-4)  # fastMRI stays in float32
    assert ours.psnr == pytest.approx(float(evaluate.psnr(Y, X)), rel=1e-5)
    assert ours.ssim == pytest.approx(float(evaluate.ssim(Y, X)[0]), abs=1e-5)


@pytest.mark.parametrize("shape", [(330, 321), (341, 300), (100, 401), (320, 320)])
def test_volumes_are_compared_on_their_central_320_pixels(shape: tuple[int, int]) -> None:
    X, Y = pair((1, *shape))
    h, w = (max(0, (n - 320) // 2) for n in shape)
    inside = (slice(None), slice(h, h + 320), slice(w, w + 320))
    expected = volume_metrics(X[inside], Y[inside])
    outside = np.ones(Y.shape, dtype=bool)
    outside[inside] = False
    X[outside], Y[outside] = -1e6, 1e6  # neither the error nor the range there may count
    assert volume_metrics(X, Y) == expected


@pytest.mark.parametrize("full", [(9, 12), (10, 11)])
@pytest.mark.parametrize("crop", [(5, 6), (6, 5), (9, 11)])
def test_center_crop_is_fastmris(full: tuple[int, int], crop: tuple[int, int]) -> None:
    transforms = pytest.importorskip("fastmri.data.transforms", reason="fastMRI is not installed")
    X = torch.arange(2 * full[0] * full[1]).reshape(2, *full)
    assert torch.equal(center_crop(X, crop), transforms.center_crop(X, crop))


def test_center_crop_leaves_a_smaller_axis_alone() -> None:
    assert center_crop(torch.zeros(2, 5, 9), (7, 4)).shape == (2, 5, 4)


def test_ssim_loss_and_metric_are_one() -> None:
    X, Y = (torch.from_numpy(V).float() for V in pair((4, 20, 23)))
    peak = Y.amax()
    assert float(ssim_batch(X, Y, peak).mean()) == pytest.approx(ssim(X, Y), abs=1e-5)
    per_slice = Y.amax(dim=(-2, -1), keepdim=True)
    expected = torch.stack([ssim_batch(x, y, float(y.max())) for x, y in zip(X, Y, strict=True)])
    torch.testing.assert_close(ssim_batch(X, Y, per_slice), expected)


def test_ssim_map_keeps_leading_axes_and_only_whole_windows() -> None:
    X = torch.rand(2, 3, 11, 14, generator=torch.Generator().manual_seed(0))
    assert ssim_map(X, X, 1.0).shape == (2, 3, 5, 8)
    torch.testing.assert_close(ssim_map(X, X, 1.0), torch.ones(2, 3, 5, 8))


def test_ssim_gradient_is_exact_and_finite() -> None:
    rng = torch.Generator().manual_seed(1)
    X = torch.rand(2, 9, 8, generator=rng, dtype=torch.float64, requires_grad=True)
    Y = torch.rand(2, 9, 8, generator=rng, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda V: ssim_batch(V, Y, 1.0), (X,))
    dark = torch.zeros(1, 9, 8, requires_grad=True)  # no structure at all, and a range as small as raw scanner units
    (slope,) = torch.autograd.grad(ssim_batch(dark, 1e-9 * Y[:1].float(), 1e-9).sum(), dark)
    assert slope.isfinite().all()


def test_identical_volumes_have_finite_metrics() -> None:
    _, Y = pair((2, 12, 9))
    metrics = volume_metrics(Y, Y)
    assert (metrics.nmse, metrics.psnr) == (0.0, PSNR_CAP)
    assert metrics.ssim == pytest.approx(1.0)
    assert "Infinity" not in json.dumps(asdict(metrics))


def test_any_real_array_will_do() -> None:
    Y = np.arange(2 * 9 * 8, dtype=">u2").reshape(2, 9, 8)
    Y.setflags(write=False)
    metrics = volume_metrics((Y + 1).tolist(), Y)
    assert metrics.psnr == pytest.approx(20 * math.log10(Y.max()))


@pytest.mark.parametrize(
    ("X", "Y", "kind", "words"),
    [
        (np.ones((1, 8, 8)), np.zeros((1, 8, 8)), DataError, "no positive pixel"),
        (np.full((1, 8, 8), np.nan), np.ones((1, 8, 8)), DataError, "NaN or Inf"),
        (np.ones((1, 8, 8)), np.full((1, 8, 8), np.inf), DataError, "NaN or Inf"),
        (np.ones((1, 8, 8), dtype=complex), np.ones((1, 8, 8)), DataError, "root-sum-of-squares"),
        (np.ones((1, 8, 8)), np.ones((1, 8, 9)), ShapeError, r"\(1, 8, 9\)"),
        (np.ones((8, 8)), np.ones((8, 8)), ShapeError, "slices, H, W"),
        (np.ones((1, 6, 8)), np.ones((1, 6, 8)), ShapeError, "7x7"),
        (np.ones((0, 8, 8)), np.ones((0, 8, 8)), ShapeError, "7x7"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    X: NDArray[np.generic], Y: NDArray[np.generic], kind: type[Exception], words: str
) -> None:
    for metric in (nmse, psnr, ssim, volume_metrics):
        with pytest.raises(kind, match=words):
            metric(X, Y)


@pytest.mark.parametrize("shape", SHAPES)
def test_slices_by_themselves_add_up_to_the_volume(shape: tuple[int, int, int]) -> None:
    """SSIM as a mean, the errors of PSNR as a mean, those of NMSE weighted by the power of their truth."""
    X, Y = pair(shape)
    whole, parts = volume_metrics(X, Y), slice_metrics(X, Y)
    assert np.mean([row.ssim for row in parts]) == pytest.approx(whole.ssim)
    assert -10 * np.log10(np.mean([10 ** (-row.psnr / 10) for row in parts])) == pytest.approx(whole.psnr)
    power = (Y**2).sum(axis=(1, 2))
    assert np.dot([row.nmse for row in parts], power) / power.sum() == pytest.approx(whole.nmse)


def test_a_slice_without_signal_has_no_nmse() -> None:
    X, Y = pair((2, 9, 8))
    Y[0] = 0
    empty, other = slice_metrics(X, Y)
    assert math.isnan(empty.nmse)
    assert other.nmse > 0
