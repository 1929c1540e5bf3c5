"""Laws of the phantom: seeded, any size, one subject per volume, fat that can be suppressed, real spectra."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import ndimage

from bayesmri.data.phantom import Anatomy, Contrast, PhantomSpec, phantom, phantom_with_labels
from bayesmri.errors import BayesMRIError, ConfigError, ShapeError

IMAGES = Path(__file__).resolve().parents[2] / "shared" / "data" / "train" / "images"
ANATOMIES: tuple[Anatomy, ...] = ("knee", "head")
CONTRASTS: tuple[Contrast, ...] = ("PD", "PD-FS")
SIZES = [(8, 8), (9, 8), (8, 31), (33, 20), (97, 65), (256, 257)]


def draw(
    anatomy: Anatomy, shape: tuple[int, int] = (64, 64), seed: int = 0, contrast: Contrast = "PD", slices: int = 1
) -> torch.Tensor:
    spec = PhantomSpec(anatomy=anatomy, contrast=contrast, shape=shape, slices=slices)
    return phantom(spec, rng=torch.Generator().manual_seed(seed))


def likeness(a: torch.Tensor, b: torch.Tensor) -> float:
    return float(torch.corrcoef(torch.stack((a.flatten(), b.flatten())))[0, 1])


@pytest.mark.parametrize("anatomy", ANATOMIES)
def test_a_seed_is_a_subject(anatomy: Anatomy) -> None:
    first = draw(anatomy, seed=3, slices=2)
    assert torch.equal(first, draw(anatomy, seed=3, slices=2))
    assert likeness(first[0], draw(anatomy, seed=4)[0]) < 0.97


def test_a_generator_moves_on_from_subject_to_subject() -> None:
    rng = torch.Generator().manual_seed(0)
    spec = PhantomSpec(anatomy="knee", shape=(32, 32))
    assert not torch.equal(phantom(spec, rng=rng), phantom(spec, rng=rng))


@pytest.mark.parametrize("anatomy", ANATOMIES)
@pytest.mark.parametrize("contrast", CONTRASTS)
@pytest.mark.parametrize("shape", SIZES)
def test_any_size_gives_finite_magnitudes_up_to_one(
    anatomy: Anatomy, contrast: Contrast, shape: tuple[int, int]
) -> None:
    x = draw(anatomy, shape, contrast=contrast)
    assert x.shape == (1, *shape)
    assert x.dtype == torch.float32
    assert torch.isfinite(x).all()
    assert x.min() >= 0
    assert 0.95 <= x.max() <= 1


@pytest.mark.parametrize("anatomy", ANATOMIES)
def test_a_subject_is_the_same_at_every_resolution(anatomy: Anatomy) -> None:
    coarse, fine = draw(anatomy, (64, 80), seed=5), draw(anatomy, (256, 320), seed=5)
    assert likeness(coarse, torch.nn.functional.avg_pool2d(fine, 4)) > 0.97


@pytest.mark.parametrize("anatomy", ANATOMIES)
def test_anatomy_is_not_stretched_on_long_grids(anatomy: Anatomy) -> None:
    square, wide = draw(anatomy, (64, 64), seed=6), draw(anatomy, (64, 128), seed=6)
    assert likeness(square, wide[..., 32:96]) > 0.99


@pytest.mark.parametrize("anatomy", ANATOMIES)
def test_slices_of_a_subject_are_more_alike_the_nearer_they_are(anatomy: Anatomy) -> None:
    volume = draw(anatomy, (96, 96), seed=1, slices=7)
    near = np.mean([likeness(volume[i], volume[i + 1]) for i in range(6)])
    far = np.mean([likeness(volume[i], volume[i + 4]) for i in range(3)])
    others = np.mean([likeness(volume[3], draw(anatomy, (96, 96), seed=s)[0]) for s in range(2, 6)])
    assert others < far < near < 0.999


@pytest.mark.parametrize("anatomy", ANATOMIES)
@pytest.mark.parametrize("seed", range(3))
def test_fat_suppression_darkens_the_rim_of_the_body(anatomy: Anatomy, seed: int) -> None:
    full, suppressed = (draw(anatomy, (160, 160), seed, contrast)[0].numpy() for contrast in CONTRASTS)
    inside = ndimage.distance_transform_edt(ndimage.binary_fill_holes(full > 0.05))
    rim = (inside > 2) & (inside < 6)
    assert suppressed[rim].mean() < 0.6 * full[rim].mean()


@pytest.mark.parametrize("anatomy", ANATOMIES)
def test_lesions_exist_are_small_and_lie_in_the_body(anatomy: Anatomy) -> None:
    spec = PhantomSpec(anatomy=anatomy, shape=(63, 64))
    for seed in range(10):
        x, lesions = phantom_with_labels(spec, rng=torch.Generator().manual_seed(seed))
        assert lesions.dtype == torch.bool
        assert lesions.shape == x.shape
        assert 0 < lesions.float().mean() < 0.05
        assert lesions.numpy()[0][~ndimage.binary_fill_holes(x[0].numpy() > 0.05)].sum() == 0


def test_contrasts_of_a_seed_share_their_lesions() -> None:
    masks = [
        phantom_with_labels(
            PhantomSpec(anatomy="head", contrast=c, shape=(48, 48)), rng=torch.Generator().manual_seed(9)
        )[1]
        for c in CONTRASTS
    ]
    assert torch.equal(*masks)


def spectral_slope(image: NDArray[Any]) -> float:
    """b of log P(f) ≈ a + b log f, the radially averaged power between 0.03 and 0.4 cycles per pixel."""
    H, W = image.shape
    power = np.abs(np.fft.fft2(image * np.hanning(H)[:, None] * np.hanning(W))) ** 2
    f = np.hypot(np.fft.fftfreq(H)[:, None], np.fft.fftfreq(W))
    edges = np.geomspace(0.03, 0.4, 13)
    mean = [power[(f >= lo) & (f < hi)].mean() for lo, hi in pairwise(edges)]
    return float(np.polyfit(np.log(edges[:-1]), np.log(mean), 1)[0])


@pytest.mark.parametrize("anatomy", ANATOMIES)
@pytest.mark.parametrize("contrast", CONTRASTS)
def test_spectrum_falls_like_that_of_anatomy(anatomy: Anatomy, contrast: Contrast) -> None:
    """Piecewise constant pictures fall as f⁻³, noise as f⁰; magnitude images of heads and knees lie at −2.2 to −3.5."""
    slopes = [spectral_slope(draw(anatomy, (320, 320), seed, contrast)[0].numpy()) for seed in range(3)]
    assert -3.6 < np.mean(slopes) < -2.1


@pytest.mark.skipif(not IMAGES.is_dir(), reason="the shared example images are not here")
@pytest.mark.parametrize("anatomy", ANATOMIES)
def test_spectrum_is_near_that_of_real_images(anatomy: Anatomy) -> None:
    real = []
    for path in sorted(IMAGES.glob(f"{anatomy}*.h5")):
        with h5py.File(path) as file:
            images = file["image"]
            real += [spectral_slope(np.asarray(images[i], float)) for i in range(len(images) // 3, len(images), 12)]
    drawn = [spectral_slope(draw(anatomy, (256, 256), seed)[0].numpy()) for seed in range(4)]
    assert abs(np.mean(real) - np.mean(drawn)) < 0.7


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"anatomy": "elbow"}, ConfigError),
        ({"contrast": "T1"}, ConfigError),
        ({"shape": (7, 64)}, ShapeError),
        ({"shape": (64,)}, ShapeError),
        ({"slices": 0}, ShapeError),
    ],
)
def test_impossible_phantoms_are_refused_by_name(changes: dict[str, Any], error: type[BayesMRIError]) -> None:
    (wrong,) = changes.values()
    with pytest.raises(error) as caught:
        PhantomSpec(**{"anatomy": "knee", "shape": (64, 64), **changes})
    assert str(wrong) in str(caught.value)
    assert "expected" in str(caught.value)
