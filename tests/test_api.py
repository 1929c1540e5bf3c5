"""The Python door: arrays and numbers of any kind, and one clear line where they cannot be meant."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import bayesmri
from bayesmri.checkpoint import save_model
from bayesmri.cli import main
from bayesmri.errors import BayesMRIError
from bayesmri.io.formats import read_kspace
from bayesmri.kspace import KSpace
from bayesmri.recon.files import PhantomRequest, simulate_file
from reader_files import random_kspace, write_h5
from study_runs import tiny

W = 40
LINES = np.arange(W) % 4 == 0


def kspace() -> np.ndarray:
    return random_kspace(1, 2, 24, W)


def test_the_default_acceleration_gives_way_to_a_mask_of_ones_own(tmp_path: Path) -> None:
    np.save(tmp_path / "m.npy", LINES)
    (tmp_path / "m.txt").write_text("".join(str(int(line)) for line in LINES))
    for mask in (tmp_path / "m.npy", str(tmp_path / "m.npy"), str(tmp_path / "m.txt"), LINES, LINES.astype(int)):
        sampled = bayesmri.undersample(kspace(), mask=mask)
        np.testing.assert_array_equal(sampled.mask, LINES)
        np.testing.assert_array_equal(sampled.z, kspace() * LINES)
        assert sampled.truth is not None
    np.testing.assert_array_equal(bayesmri.undersample(kspace(), mask=LINES.tolist()).mask, LINES)


def test_R_is_4_unless_given() -> None:
    assert bayesmri.undersample(kspace()).acceleration == 4
    assert bayesmri.undersample(kspace(), 2).acceleration == 2
    np.testing.assert_array_equal(bayesmri.undersample(kspace()).mask, bayesmri.undersample(kspace(), 4.0).mask)


def test_integers_of_numpy_are_integers() -> None:
    for seed in (np.int64(3), np.uint8(3), np.array(3)):
        np.testing.assert_array_equal(
            bayesmri.undersample(kspace(), seed=seed).mask, bayesmri.undersample(kspace(), seed=3).mask
        )
    one = bayesmri.undersample(kspace(), mask="equispaced", offset=np.int32(1))
    np.testing.assert_array_equal(one.mask, bayesmri.undersample(kspace(), mask="equispaced", offset=1).mask)
    assert bayesmri.reconstruct(kspace(), "zero-filled", samples=np.int64(0), seed=np.int64(2)).mean.shape == (1, 24, W)


RAGGED = [[1j, 2j], [3j]]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"seed": -1}, "got seed -1, expected"),
        ({"seed": 2**63}, "got seed 9223372036854775808, expected"),
        ({"seed": 1.5}, r"got seed 1\.5, expected a whole number"),
        ({"seed": None}, "got seed None, expected a whole number"),
        ({"acceleration": "4"}, "got acceleration '4', expected a number"),
        ({"acceleration": 4, "mask": LINES}, "leave one of the two out"),
        ({"acceleration": 4, "mask": "m.npy"}, "leave one of the two out"),
        ({"center_fraction": 0.1, "mask": LINES}, "center fraction"),
        ({"center_fraction": [0.1, 0.2]}, r"got center fraction \[0\.1, 0\.2\], expected a number"),
        ({"mask": "equispaced", "offset": 1.5}, r"got offset 1\.5, expected a whole number"),
        ({"mask": "equispaced", "offset": 99}, "got the offset 99 for"),
        ({"mask": LINES * 0.5}, "0 and 1"),
        ({"mask": LINES[:-1]}, "40 columns"),
        ({"mask": np.zeros(W)}, "keeps no line"),
        ({"mask": [[1, 0], [1]]}, "the mask is no array"),
    ],
)
def test_what_undersample_cannot_use_is_one_line(options: dict[str, Any], words: str) -> None:
    with pytest.raises(BayesMRIError, match=words) as caught:
        bayesmri.undersample(kspace(), **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"samples": "3"}, "got samples '3', expected a whole number"),
        ({"samples": 1.5}, r"got samples 1\.5, expected a whole number"),
        ({"seed": 2.0}, r"got seed 2\.0, expected a whole number"),
        ({"seed": -1}, "got seed -1, expected"),
        ({"tv_weight": "much"}, "got TV weight 'much', expected a number"),
        ({"level": "high"}, "got level 'high', expected a number"),
        ({"coils": 1.5}, r"got coils 1\.5, expected a whole number"),
        ({"coils": 0}, "got a request for 0 virtual coils"),
        ({"coils": 2, "single_coil": True}, "leave one out"),
        ({"coils": 2, "model": tiny()}, "got 2 virtual coils with a model, which has its own 1; leave them out"),
        ({"kspace": RAGGED}, "k-space is no array"),
        ({"kspace": "scan.h5"}, r"got the name .*scan\.h5, expected k-space; bayesmri\.read"),
        ({"kspace": np.ones((16, 16))}, "got an array of float64, expected complex k-space"),
    ],
)
def test_what_reconstruct_cannot_use_is_one_line(options: dict[str, Any], words: str) -> None:
    with pytest.raises(BayesMRIError, match=words) as caught:
        bayesmri.reconstruct(**({"kspace": kspace()} | options))
    assert "\n" not in str(caught.value)


def test_images_are_sent_to_simulate(tmp_path: Path) -> None:
    images: Any = bayesmri.read(write_h5(tmp_path / "i.h5", {"image": np.arange(512.0).reshape(2, 16, 16)}))
    for use in (bayesmri.reconstruct, bayesmri.undersample, bayesmri.as_kspace):
        with pytest.raises(
            BayesMRIError, match=r"got magnitude images .*expected k-space; .*simulate` makes k-space of them"
        ):
            use(images)


def test_undersampled_arrays_are_not_undersampled_again() -> None:
    for mask in ("random", LINES):
        with pytest.raises(BayesMRIError, match=r"already undersampled \(R=4\), expected fully sampled data"):
            bayesmri.undersample(kspace() * LINES, mask=mask)


@pytest.fixture(scope="module")
def sampled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three coils and two slices at R = 4."""
    folder = tmp_path_factory.mktemp("scan")
    simulate_file(PhantomRequest("head", "PD", (24, W), slices=2), folder / "full.h5", coils=3, snr_db=30, seed=1)
    assert main(["undersample", str(folder / "full.h5"), "-o", str(folder / "r4.h5")]) == 0
    return folder / "r4.h5"


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (["--coils", "2"], {"coils": np.int64(2)}),
        (["--single-coil"], {"single_coil": True}),
        (["--single-coil", "--model", "tiny.json", "--samples", "2"], {"single_coil": True, "samples": 2}),
    ],
)
def test_coils_are_combined_as_by_recon(
    words: list[str], options: dict[str, Any], sampled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Samples are the same, too: they follow what was measured, not what was made of it."""
    monkeypatch.chdir(tmp_path)
    save_model(tmp_path / "tiny.json", tiny())
    assert main(["recon", str(sampled), "-o", "out.h5", *words]) == 0
    result = bayesmri.reconstruct(read_kspace(sampled), "tiny.json" if "--model" in words else "tv", **options)
    with h5py.File("out.h5") as file:
        np.testing.assert_array_equal(result.mean, file["reconstruction"][()])
        if result.std is not None:
            np.testing.assert_array_equal(result.std, file["uncertainty_std"][()])
    plain = bayesmri.reconstruct(read_kspace(sampled), "tv").mean
    assert np.abs(result.mean - plain).max() > 0.01 * plain.max()


def test_the_truth_of_all_coils_is_not_that_of_an_emulated_one(sampled: Path) -> None:
    scan = read_kspace(sampled)
    assert bayesmri.reconstruct(scan, "zero-filled").truth is not None
    assert bayesmri.reconstruct(scan, "zero-filled", single_coil=True).truth is None
    one = bayesmri.as_kspace(scan.z[:, :1])
    np.testing.assert_array_equal(
        bayesmri.reconstruct(one, "zero-filled", single_coil=True).mean, bayesmri.reconstruct(one, "zero-filled").mean
    )


def test_the_whole_grid_is_kept_on_request() -> None:
    scan = bayesmri.undersample(kspace())
    scan = replace(scan, header=replace(scan.header, recon_shape=(12, W - 6)))
    centre, whole = (bayesmri.reconstruct(scan, "tv", full_fov=full).mean for full in (False, True))
    assert whole.shape == (1, 24, W)
    np.testing.assert_array_equal(whole[:, 6:18, 3:-3], centre)


def test_simulate_is_what_the_command_writes(tmp_path: Path) -> None:
    made = bayesmri.simulate("head", shape=(40, 48), coils=3, snr_db=30, seed=5)
    simulate_file(PhantomRequest("head", "PD", (40, 48)), tmp_path / "head.h5", coils=3, snr_db=30, seed=5)
    read = bayesmri.read(tmp_path / "head.h5")
    assert isinstance(read, KSpace)
    np.testing.assert_array_equal(made.z, read.z)
    assert made.truth is not None
    assert read.truth is not None
    np.testing.assert_array_equal(made.truth, read.truth)
    again = bayesmri.simulate(np.abs(made.truth), coils=2)
    assert again.z.shape == (1, 2, 40, 48)


@pytest.mark.parametrize(
    ("source", "said"),
    [("liver", "got the phantom 'liver'"), (np.zeros((2, 9, 9)) - 1, "down to -1"), (np.zeros(9), "shape"),
     (np.full((9, 9), np.nan), "NaN")],
)  # fmt: skip
def test_simulate_refuses_what_is_no_image(source: Any, said: str) -> None:
    with pytest.raises(BayesMRIError, match=said):
        bayesmri.simulate(source)
