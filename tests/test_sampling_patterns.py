"""One mask of whole lines serves a file: whatever contradicts that is refused, and nothing else."""

from pathlib import Path

import numpy as np
import pytest

import bayesmri
from bayesmri.errors import DataError, MaskError
from bayesmri.io.formats import read_kspace
from bayesmri.io.masks import read_mask
from reader_files import random_kspace, write_h5

W = 40
RNG = np.random.default_rng(7)
CENTRE = abs(np.arange(W) - W // 2) < 3
FIRST, SECOND = (CENTRE | (np.arange(W) % 4 == offset) for offset in (0, 2))


def kspace(slices: int = 2, coils: int = 3) -> np.ndarray:
    return random_kspace(slices, coils, 24, W)


@pytest.mark.parametrize("axis", ["slices", "coils"])
@pytest.mark.parametrize(
    "other",
    [SECOND, np.ones(W, bool), np.arange(W) > 12],
    ids=["mask", "full", "partial"],
)
@pytest.mark.parametrize("given", [False, True], ids=["found", "given"])
def test_masks_that_differ_between_slices_or_coils_are_refused(
    tmp_path: Path, axis: str, other: np.ndarray, given: bool
) -> None:
    """Also where the file's own mask is the union of them, which no slice holds."""
    z = kspace()
    masks = np.broadcast_to(FIRST, z.shape).copy()
    masks[(1,) if axis == "slices" else (slice(None), 1)] = other
    datasets = {"kspace": z * masks} | ({"mask": FIRST | other} if given else {})
    with pytest.raises(MaskError, match="one mask for all slices and coils") as caught:
        read_kspace(write_h5(tmp_path / "a.h5", datasets))
    assert "\n" not in str(caught.value)


def test_a_line_at_the_edge_is_part_of_a_mask_that_was_found(tmp_path: Path) -> None:
    z = kspace() * FIRST
    z[1, ..., 0] = 0
    with pytest.raises(MaskError, match=r"slice 1, coil 0 holds 13 of 40 lines and slice 0, coil 0 others \(1\)"):
        read_kspace(write_h5(tmp_path / "a.h5", {"kspace": z}))


def test_silent_slices_and_dead_coils_are_no_other_mask(tmp_path: Path) -> None:
    z = kspace() * FIRST
    z[1, 0], z[0] = 0, 0
    data = read_kspace(write_h5(tmp_path / "a.h5", {"kspace": z}))
    np.testing.assert_array_equal(data.mask, FIRST)


@pytest.mark.parametrize("given", [False, True], ids=["found", "given"])
def test_zero_padding_may_differ_from_slice_to_slice(tmp_path: Path, given: bool) -> None:
    z = kspace()
    z[..., :3], z[..., -3:] = 0, 0
    z[1, ..., :5], z[1, ..., -4:] = 0, 0
    datasets = {"kspace": z} | ({"mask": np.ones(W)} if given else {})
    assert read_kspace(write_h5(tmp_path / "a.h5", datasets)).fully_sampled


@pytest.mark.parametrize("rule", ["random", "equispaced"])
def test_what_undersample_writes_of_a_padded_scan_can_be_read(tmp_path: Path, rule: str) -> None:
    """Its mask asks for lines in the padding, more of them at one edge than at the other."""
    z = kspace(2, 1)
    z[..., :9], z[..., -10:] = 0, 0
    z[1, ..., :11], z[1, ..., -12:] = 0, 0
    for seed in range(40):
        sampled = bayesmri.undersample(z, 4, mask=rule, seed=seed)
        data = read_kspace(write_h5(tmp_path / "a.h5", {"kspace": sampled.z, "mask": sampled.mask}))
        np.testing.assert_array_equal(data.mask, sampled.mask)


@pytest.mark.parametrize("empty", [np.arange(W) % 4 != 0, np.arange(W) == 11, np.arange(W) < 12])
def test_a_mask_that_calls_empty_columns_acquired_is_refused(tmp_path: Path, empty: np.ndarray) -> None:
    path = write_h5(tmp_path / "a.h5", {"kspace": kspace() * ~empty, "mask": np.ones(W)})
    with pytest.raises(MaskError, match=f"40 lines acquired, of which {empty.sum()} hold nothing but zeros"):
        read_kspace(path)
    with pytest.raises(MaskError, match="correct the mask or leave it out"):
        bayesmri.as_kspace(kspace() * ~empty, mask=np.ones(W))


@pytest.mark.parametrize("share", [0.3, 0.5, 0.9])
def test_undersampling_along_two_axes_is_found(tmp_path: Path, share: float) -> None:
    """Points drawn at random, or as a chequerboard; drawn anew for each slice there is no one mask."""
    z = kspace()
    chequers = np.indices((24, W)).sum(axis=0) % 2 == 0
    for points in (RNG.random((24, W)) > share, chequers):
        data = read_kspace(write_h5(tmp_path / "a.h5", {"kspace": z * points}))
        np.testing.assert_array_equal(data.mask, points)
        assert data.acceleration == points.size / points.sum()
        assert any("undersampled along two axes" in note for note in data.header.notes)
    with pytest.raises(MaskError, match="one mask for all slices"):
        read_kspace(write_h5(tmp_path / "a.h5", {"kspace": z * (RNG.random((2, 1, 24, W)) > share)}))


def test_zeros_that_are_no_undersampling_stay(tmp_path: Path) -> None:
    """Empty rows at the edges (asymmetric echo), corners that were cut, a few values that were rounded to zero."""
    z = kspace()
    rows, columns = np.indices((24, W))
    disc = ((rows - 12) / 12) ** 2 + ((columns - W // 2) / 20) ** 2 <= 1
    rounded = RNG.random(z.shape) > 0.05
    for points in (rows > 6, disc, rounded):
        data = read_kspace(write_h5(tmp_path / "a.h5", {"kspace": z * points}))
        assert data.fully_sampled
        np.testing.assert_array_equal(data.z, z * points)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.full(W, 0.5), r"the value 0\.5"),
        (np.r_[-1, np.ones(W - 1)], "the value -1"),
        (np.full(W, 255, np.uint8), "the value 255"),
        (np.full(W, np.nan), "the value nan"),
        (np.array(["1"] * W), "holds text"),
        (np.array([b"1"] * W), "holds text"),
        (np.full(W, 1j), "complex"),
    ],
)
def test_a_mask_file_holds_0_and_1_alone(tmp_path: Path, values: np.ndarray, words: str) -> None:
    np.save(tmp_path / "mask.npy", values)
    with pytest.raises(MaskError, match=rf"{words}.*, expected .*1 for an acquired line and 0 for a missing one"):
        read_mask(tmp_path / "mask.npy")


@pytest.mark.parametrize("kind", [bool, np.uint8, np.int64, np.float32])
def test_0_and_1_are_a_mask_in_any_type(tmp_path: Path, kind: type) -> None:
    np.save(tmp_path / "mask.npy", FIRST.astype(kind)[None, :, None])
    np.testing.assert_array_equal(read_mask(tmp_path / "mask.npy"), FIRST)


def test_the_user_overrules_what_seems_an_image_or_shifted() -> None:
    """A point source fills k-space evenly, and a test pattern may lie anywhere."""
    point = np.ones((1, 1, 24, W), np.complex64)
    with pytest.raises(DataError, match="--no-images"):
        bayesmri.as_kspace(point)
    taken = bayesmri.as_kspace(point, images=False)
    np.testing.assert_array_equal(taken.z, point)
    assert any("--no-images" in note for note in taken.header.notes)
    corner = np.fft.ifftshift(kspace(1, 1), axes=(-2, -1))
    with pytest.raises(DataError, match="--no-shifted"):
        bayesmri.as_kspace(corner)
    np.testing.assert_array_equal(bayesmri.as_kspace(corner, shifted=False).z, corner)
