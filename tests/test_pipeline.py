"""Whole pipelines, judged by a metric and by what lies in the files."""

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import nibabel
import numpy as np
import pytest

import bayesmri
from bayesmri.errors import BayesMRIError, ConfigError, DataError, MaskError, OutputError
from bayesmri.io.formats import read_kspace
from bayesmri.io.inspect import inspect_file
from bayesmri.io.write_h5 import write_kspace
from bayesmri.kspace import Header, KSpace
from bayesmri.metrics import volume_metrics
from bayesmri.physics.pattern import centre_run
from bayesmri.recon.acquisition import Sampling
from bayesmri.recon.demo import demo, head_slice
from bayesmri.recon.files import PhantomRequest, reconstruct_file, simulate_file, undersample_file, with_ending
from bayesmri.recon.reconstruct import reconstruct
from bayesmri.recon.request import Options
from bayesmri.recon.undersample import undersample

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
VAL_RAW = sorted((SHARED / "val" / "raw").glob("*.h5"))
AFFINE = np.array([[0.0, -2, 0, 30], [1.5, 0, 0, -40], [0, 0, 4, 7], [0, 0, 0, 1]])
needs_data = pytest.mark.skipif(not VAL_RAW, reason="the measured data of ../shared/data is not here")


def simulated(folder: Path, *, coils: int = 3, size: tuple[int, int] = (64, 60), slices: int = 2) -> Path:
    path = folder / "full.h5"
    simulate_file(PhantomRequest("head", "PD", size, slices), path, coils=coils, snr_db=30, seed=1)
    return path


@pytest.mark.parametrize("coils", [1, 5])
@pytest.mark.parametrize("size", [(64, 64), (63, 50)])
def test_R_1_without_a_regularizer_reproduces_the_input(tmp_path: Path, coils: int, size: tuple[int, int]) -> None:
    path = simulated(tmp_path, coils=coils, size=size)
    out = tmp_path / "out.h5"
    made = reconstruct_file(path, out, Options(method="zero-filled"), Sampling(acceleration=1))
    assert made["acceleration"] == 1
    with h5py.File(out) as file:
        truth = read_kspace(path).truth
        assert truth is not None
        np.testing.assert_allclose(file["reconstruction"][()], truth, atol=1e-6)


def test_a_file_that_cannot_be_written_leaves_none_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = simulated(tmp_path)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("bayesmri.report.panel._figure", full)  # drawn last
    with pytest.raises(OutputError, match=r"cannot write .*out\.png: No space left"):
        reconstruct_file(
            path, tmp_path / "new" / "out.h5", Options(method="zero-filled"), Sampling(4), nifti=True, png=True
        )
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("coils", [1, 8])
def test_simulate_undersample_reconstruct(tmp_path: Path, coils: int) -> None:
    path, sampled, out = simulated(tmp_path, coils=coils), tmp_path / "r4.h5", tmp_path / "tv.h5"
    facts = undersample_file(path, sampled, Sampling(acceleration=4, seed=3))
    assert facts["acquired_lines"] == 15
    as_it_is = reconstruct_file(sampled, out, Options(method="tv"))
    on_the_fly = reconstruct_file(path, tmp_path / "fly.h5", Options(method="tv"), Sampling(acceleration=4, seed=3))
    assert as_it_is["metrics"] == on_the_fly["metrics"]
    assert as_it_is["metrics"]["tv"]["psnr"] > as_it_is["metrics"]["zero-filled"]["psnr"] + 1
    with h5py.File(out) as file:
        assert file["reconstruction"].shape == (2, 64, 60)
        assert file["mask"][()].sum() == 15
        truth = volume_metrics(file["reconstruction"][()], file["target"][()])
        assert vars(truth) == pytest.approx(as_it_is["metrics"]["tv"], rel=1e-5)


def test_results_record_where_they_come_from(tmp_path: Path) -> None:
    path, out = simulated(tmp_path), tmp_path / "out.h5"
    reconstruct_file(path, out, Options(method="tv"), Sampling(acceleration=4, seed=9))
    with h5py.File(out) as file:
        record = json.loads(file.attrs["provenance"])
    assert record["command"] == "recon"
    assert record["seed"] == 9
    assert record["config"]["method"] == "tv"
    assert record["config"]["sampling"]["acceleration"] == 4
    assert len(record["inputs"][0]["sha256"]) == 64
    assert record["threads"] >= 1
    assert set(record["versions"]) >= {"python", "torch", "numpy", "bayesmri"}


def test_truth_can_be_left_out(tmp_path: Path) -> None:
    path, sampled = simulated(tmp_path), tmp_path / "r4.h5"
    undersample_file(path, sampled, Sampling(acceleration=4), keep_truth=False)
    made = reconstruct_file(sampled, tmp_path / "out.h5", Options(method="zero-filled"))
    assert made["metrics"] == {}
    assert read_kspace(sampled).truth is None


def test_scale_passes_through(tmp_path: Path) -> None:
    kspace = undersample(read_kspace(simulated(tmp_path)), Sampling(acceleration=4))
    small = reconstruct(kspace, Options(method="tv"))
    large = reconstruct(KSpace(kspace.z * np.float32(1024), kspace.mask, kspace.header), Options(method="tv"))
    np.testing.assert_allclose(large.image, 1024 * small.image, rtol=1e-4, atol=1e-3)


def test_virtual_coils_reconstruct_like_the_measured_ones(tmp_path: Path) -> None:
    path = simulated(tmp_path, coils=12)
    sampling = Sampling(acceleration=3)
    all_coils = reconstruct_file(path, tmp_path / "a.h5", Options(method="tv"), sampling)
    virtual = reconstruct_file(path, tmp_path / "b.h5", Options(method="tv", coils=8), sampling)
    assert abs(all_coils["metrics"]["tv"]["psnr"] - virtual["metrics"]["tv"]["psnr"]) < 1


def test_the_image_the_header_asks_for_is_the_one_that_comes(tmp_path: Path) -> None:
    """Readout oversampling: 96 rows measured, 48 shown; the NIfTI and the metrics follow the crop."""
    path = simulated(tmp_path, size=(96, 48), slices=1)
    with h5py.File(path, "r+") as file:
        file.attrs.pop("checksums", None)  # changed on purpose
        truth = file["reconstruction_rss"][()][:, 24:72]
        del file["reconstruction_rss"], file["ismrmrd_header"]
        file["reconstruction_rss"] = truth
    sampled = tmp_path / "r3.h5"
    undersample_file(path, sampled, Sampling(acceleration=3))
    for options, rows in ((Options(method="tv"), 48), (Options(method="tv", full_fov=True), 96)):
        out = tmp_path / f"{rows}.h5"
        reconstruct_file(path, out, options, Sampling(acceleration=3), nifti=True, png=True)
        with h5py.File(out) as file:
            assert file["reconstruction"].shape == (1, rows, 48)
            assert file["target"].shape == (1, rows, 48)
        assert nibabel.load(with_ending(out, ".nii.gz")).shape == (rows, 48, 1)


def oversampled(folder: Path) -> Path:
    """96 x 50 measured, 48 x 40 shown, with a place in the world; the truth covers all of it."""
    header = Header(source="test", recon_shape=(48, 40), affine=AFFINE)
    kspace = replace(read_kspace(simulated(folder, size=(96, 50), slices=2)), header=header)
    write_kspace(folder / "over.h5", kspace, provenance={}, truth=kspace.truth)
    return folder / "over.h5"


def test_undersampling_to_a_file_keeps_the_window_of_the_image(tmp_path: Path) -> None:
    """What `undersample` and then `recon` make is what `recon --acceleration` makes."""
    path, sampled, sampling = oversampled(tmp_path), tmp_path / "r3.h5", Sampling(acceleration=3, seed=5)
    assert read_kspace(path).header.recon_shape == (48, 40)
    undersample_file(path, sampled, sampling)
    on_the_fly = reconstruct_file(path, tmp_path / "a.h5", Options(method="zero-filled"), sampling)
    as_it_is = reconstruct_file(sampled, tmp_path / "b.h5", Options(method="zero-filled"))
    assert on_the_fly["metrics"] == as_it_is["metrics"]
    with h5py.File(tmp_path / "a.h5") as a, h5py.File(tmp_path / "b.h5") as b:
        assert a["reconstruction"].shape == b["reconstruction"].shape == (2, 48, 40)
        assert np.array_equal(a["target"], b["target"])


def test_the_affine_beside_a_cropped_image_is_the_crops(tmp_path: Path) -> None:
    out, path = tmp_path / "out.h5", oversampled(tmp_path)
    for options, first in (
        (Options(method="zero-filled"), (24, 5)),
        (Options(method="zero-filled", full_fov=True), (0, 0)),
    ):
        reconstruct_file(path, out, options, nifti=True, force=True)
        with h5py.File(out) as file:
            affine = file.attrs["affine"]
        np.testing.assert_allclose(affine[:, 3], AFFINE @ [*first, 0, 1])
        np.testing.assert_allclose(affine, nibabel.load(with_ending(out, ".nii.gz")).affine, rtol=1e-5)


def test_masks_of_the_users_own(tmp_path: Path) -> None:
    path = simulated(tmp_path)
    mask = np.arange(60) % 2 == 0
    np.save(tmp_path / "mask.npy", mask)
    (tmp_path / "mask.txt").write_text("\n".join(str(int(line)) for line in mask))
    for name in ("mask.npy", "mask.txt"):
        facts = undersample_file(path, tmp_path / "out.h5", Sampling(mask=str(tmp_path / name)), force=True)
        assert facts["acceleration"] == 2
        assert np.array_equal(read_kspace(tmp_path / "out.h5").mask, mask)


def npy_claiming(lines: int) -> bytes:
    """A whole header and none of the values it promises."""
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "<f8", "fortran_order": False, "shape": (lines,)})
    return stream.getvalue()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"0 0 0", "not all of them 0"),
        (b"banana", "0s and 1s"),
        (b"\x93NUMPY\x01", "damaged"),
        (npy_claiming(10**14), "damaged"),
        (b"1" * 59, "has 59 lines"),
    ],
)
def test_wrong_masks_are_refused(tmp_path: Path, content: bytes, words: str) -> None:
    path, mask = simulated(tmp_path), tmp_path / "mask"
    mask.write_bytes(content)
    with pytest.raises(MaskError, match=words):
        undersample_file(path, tmp_path / "out.h5", Sampling(mask=str(mask)))
    assert not (tmp_path / "out.h5").exists()


def test_masks_that_never_end_are_refused(tmp_path: Path) -> None:
    path = simulated(tmp_path)
    for mask in ("/dev/zero", str(tmp_path), "nul\0", "x" * 5000):
        with pytest.raises(MaskError, match=r"neither random, equispaced, .* nor a"):
            undersample_file(path, tmp_path / "out.h5", Sampling(mask=mask))


@pytest.mark.parametrize(
    "sampling",
    [
        {"acceleration": None, "mask": "equispaced"},
        {"acceleration": None, "center_fraction": 0.08},
        {"acceleration": 4, "offset": 1},
        {"acceleration": 4, "mask": "mask.npy", "offset": 1},
        {"acceleration": None, "mask": "mask.npy", "center_fraction": 0.08},
    ],
)
def test_choices_that_would_be_ignored_are_refused(sampling: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"^got .* with"):
        Sampling(**sampling)


def test_undersampled_data_are_not_undersampled_again(tmp_path: Path) -> None:
    path, sampled = simulated(tmp_path), tmp_path / "r4.h5"
    undersample_file(path, sampled, Sampling(acceleration=4))
    with pytest.raises(MaskError, match="already undersampled"):
        reconstruct_file(sampled, tmp_path / "out.h5", Options(), Sampling(acceleration=4))


def test_the_input_is_never_overwritten(tmp_path: Path) -> None:
    path = simulated(tmp_path)
    before = path.read_bytes()
    with pytest.raises(OutputError, match="input itself"):
        undersample_file(path, path, Sampling(acceleration=4))
    with pytest.raises(OutputError, match="input itself"):
        reconstruct_file(path, path, Options())
    assert path.read_bytes() == before


@pytest.mark.parametrize("device", ["cuda:99", "banana", "mps"])
def test_a_device_that_is_not_here_is_refused(tmp_path: Path, device: str) -> None:
    with pytest.raises(ConfigError, match="device"):
        reconstruct_file(simulated(tmp_path), tmp_path / "out.h5", Options(device=device))


def test_silence_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BayesMRIError, match="no acquired line"):
        bayesmri.as_kspace(np.zeros((16, 16), complex))


def test_arrays_reconstruct(tmp_path: Path) -> None:
    full = read_kspace(simulated(tmp_path))
    sampled = bayesmri.undersample(full.z, 4, seed=2)
    result = bayesmri.reconstruct(sampled, "tv")
    assert result.image.shape == (2, 64, 60)
    assert result.metrics().psnr > result.zero_filled_metrics().psnr
    assert result.metrics(full.truth).psnr == pytest.approx(result.metrics().psnr, abs=0.01)
    one_coil = bayesmri.reconstruct(full.z[0, 0], "zero-filled")
    assert one_coil.image.shape == (1, 64, 60)
    with pytest.raises(DataError, match="no fully sampled image"):
        one_coil.metrics()
    with pytest.raises(DataError, match="complex"):
        bayesmri.as_kspace(np.zeros((16, 16)))


def test_arrays_are_read_as_files_are(tmp_path: Path) -> None:
    """A zero-padded full scan is a full scan through either door."""
    z = read_kspace(simulated(tmp_path)).z.copy()
    z[..., :6], z[..., -6:] = 0, 0
    np.save(tmp_path / "padded.npy", z)
    assert bayesmri.as_kspace(z).acceleration == read_kspace(tmp_path / "padded.npy").acceleration == 1
    with pytest.raises(MaskError, match="columns"):
        bayesmri.as_kspace(z, mask=np.ones(7, dtype=bool))


def test_a_mask_of_ones_own_has_its_own_acceleration() -> None:
    with pytest.raises(ConfigError, match="leave one of the two out"):
        Sampling(4, mask="mask.npy")


def test_inspection_finds_the_sampling(tmp_path: Path) -> None:
    path, sampled = simulated(tmp_path), tmp_path / "r4.h5"
    undersample_file(path, sampled, Sampling(acceleration=4, center_fraction=0.1))
    full, found = inspect_file(path), inspect_file(sampled)
    assert (full.acceleration, full.coils, full.slices, full.shape) == (1, 3, 2, (64, 60))
    assert (found.acceleration, found.acquired_lines) == (4, 15)
    assert found.calibration_lines is not None
    assert found.calibration_lines >= 6
    assert full.warnings == ()
    json.dumps(found.as_json(), allow_nan=False)


def test_calibration_lines_are_counted_around_the_centre() -> None:
    mask = np.array([1, 0, 0, 1, 1, 1, 0, 1], dtype=bool)
    assert centre_run(mask) == 3
    assert centre_run(~mask) == 0
    assert centre_run(np.ones(7, dtype=bool)) == 7


def test_inspection_warns_of_what_looks_wrong(tmp_path: Path) -> None:
    full = read_kspace(simulated(tmp_path))
    sampled = undersample(full, Sampling(acceleration=4))
    cases = {
        "not centred": np.roll(full.z, 20, axis=-1),
        "coils without signal: 1": full.z * np.array([1, 0, 1], np.float32)[:, None, None],
        "slices without any signal: 1": full.z * np.array([1, 0], np.float32)[:, None, None, None],
        "undersampled along its rows": sampled.z.swapaxes(-1, -2),
        "partial Fourier": full.z * np.r_[np.zeros(36), np.ones(24)].astype(np.float32),
    }
    for words, z in cases.items():
        path = tmp_path / "odd.npy"
        np.save(path, z)
        found = inspect_file(path)
        assert any(words in said for said in (*found.notes, *found.warnings)), words


def test_the_demo_uses_a_real_head_slice_and_the_shipped_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bayesmri.recon.demo.N", 2)
    images = head_slice()
    assert images is not None, "matplotlib came without its sample data"
    assert images.magnitude.shape == (1, 256, 256)
    made = demo(tmp_path / "demo")
    written = {"kspace.h5", "recon.h5", "recon.nii.gz", "recon_std.nii.gz", "recon_error_std.nii.gz", "recon.png"}
    assert {Path(p).name for p in made["outputs"]} == written
    assert all(Path(p).stat().st_size > 1000 for p in made["outputs"])
    assert made["acceleration"] == 4
    assert made["method"] == "tdv-r4"
    assert made["metrics"]["mean"]["psnr"] > made["metrics"]["zero-filled"]["psnr"] + 3


@needs_data
def test_total_variation_beats_zero_filling_on_measured_data(tmp_path: Path) -> None:
    gains = []
    for path in VAL_RAW:
        assert inspect_file(path).warnings == ()
        made = reconstruct_file(path, tmp_path / path.name, Options(method="tv"), Sampling(acceleration=4))
        gains.append(made["metrics"]["tv"]["psnr"] - made["metrics"]["zero-filled"]["psnr"])
    assert np.mean(gains) > 0.5
