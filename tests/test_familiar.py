"""Data unlike that of a model's training is told from data like it, warned of, and given no error bound."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import bayesmri
import bayesmri.errors
from bayesmri.bounds.familiar import NAMES, Familiar, fitted, slice_features, volume_features
from bayesmri.bounds.outside import extrapolation, reasons
from bayesmri.checkpoint import load_model, save_model
from bayesmri.cli import main
from bayesmri.data.phantom import PhantomSpec, phantom
from bayesmri.data.simulate import Scanner, acquire
from bayesmri.errors import DataError, ModelError
from bayesmri.evaluation.request import Study, Track
from bayesmri.evaluation.table import data_files, fully_sampled, sampling_of
from bayesmri.kspace import Header, KSpace
from bayesmri.physics.mask import MaskSpec
from bayesmri.recon.demo import head_slice
from bayesmri.recon.undersample import keep_lines, undersample

VALIDATION = Path(__file__).resolve().parents[2] / "shared" / "data" / "val"
RNG = np.random.default_rng(0)


def kspace_of(X: np.ndarray, *, coils: int = 1, R: float = 4, snr: float = 30) -> KSpace:
    rng = torch.Generator().manual_seed(1)
    magnitude = torch.from_numpy(np.asarray(X / X.max(), dtype=np.float32))[None]
    u = acquire(magnitude, Scanner(coils, snr), rng=rng).numpy()
    mask = MaskSpec("random", R).draw(u.shape[-1], rng).numpy()
    return keep_lines(KSpace(u, np.ones(u.shape[-1], bool), Header("test")), mask)


def head() -> np.ndarray:
    found = head_slice()
    if found is None:
        pytest.skip("matplotlib was installed without its sample data")
    return np.asarray(found.magnitude[0], dtype=float)


def strange() -> dict[str, np.ndarray]:
    """By what they are: nothing that a scanner of bodies would see."""
    X = head()
    small = np.zeros_like(X)
    small[96:160, 96:160] = X[::4, ::4]
    return {
        "white noise": RNG.random((256, 256)),
        "negated": X.max() - X,
        "small": small,
    }


def test_numbers_have_no_scale_and_forget_the_readout_s_direction() -> None:
    kspace = kspace_of(head(), coils=3)
    f = slice_features(kspace.z[0], kspace.mask)
    assert f.shape == (len(NAMES),)
    np.testing.assert_allclose(slice_features(1e6 * kspace.z[0], kspace.mask), f, rtol=1e-3, atol=1e-3)
    points = np.broadcast_to(kspace.mask, kspace.z.shape[-2:])
    np.testing.assert_allclose(slice_features(kspace.z[0], points), f)
    assert len(volume_features(0 * kspace.z, kspace.mask)) == 0
    assert np.isfinite(slice_features(np.zeros((1, 16, 16), np.complex64), np.ones(16, bool))).all()


def test_the_threshold_holds_back_what_it_says(tmp_path: Path) -> None:
    """Two clouds: what lies in either is near, what lies between is far."""
    F = len(NAMES)
    clouds = np.concatenate([RNG.normal(-5, 0.3, (400, F)), RNG.normal(5, 0.3, (400, F))])
    known = fitted(clouds, np.arange(800) % 40, sizes=(64, 320), seed=0)
    assert np.mean(known.distance(clouds) > known.threshold) == pytest.approx(0.005, abs=0.003)
    fresh = RNG.normal(5, 0.3, (200, F))
    assert np.mean(known.distance(fresh) > known.threshold) < 0.1
    assert (known.distance(np.zeros((1, F)) + RNG.normal(0, 0.3, (50, F))) > known.threshold).mean() > 0.9
    assert fitted(clouds, np.arange(800) % 40, sizes=(64, 320), seed=0) == known
    with pytest.raises(DataError, match="training slices"):
        fitted(clouds[:20], np.arange(20), sizes=(64, 320), seed=0)
    with pytest.raises(DataError, match="does not speak"):
        replace(known, mean=(0.0,))
    model = replace(load_model(Path("tdv-r4")), familiar=known)
    save_model(tmp_path / "m.json", model)
    assert load_model(tmp_path / "m.json").familiar == known


@pytest.mark.parametrize("name", ["tdv-r4", "tdv-r8"])
def test_strange_images_are_outside_and_a_head_is_not(name: str) -> None:
    R = float(name[-1])
    known = load_model(Path(name)).familiar
    assert known is not None
    for coils in (1, 6):
        assert not reasons({}, known, kspace_of(head(), coils=coils, R=R))
        for what, X in strange().items():
            said = reasons({}, known, kspace_of(X, coils=coils, R=R))
            assert any("zero-filled image is unlike" in text for text in said), (what, coils)
    centred = kspace_of(head(), R=R)
    rolled = replace(centred, z=np.fft.fftshift(centred.z, axes=(-2, -1)), mask=np.fft.fftshift(centred.mask))
    assert any("unlike" in said for said in reasons({}, known, rolled))
    images = replace(centred, z=np.fft.ifft2(centred.z).astype(np.complex64), mask=np.ones_like(centred.mask))
    assert any("unlike" in said for said in reasons({}, known, images))


def test_settings_outside_training_are_named() -> None:
    training = {
        "mask": {"kind": "random", "equispaced_share": 0.3, "center_fraction": None},
        "coils": {"mode": "sensitivities"},
        "simulation": {"coils": [4, 8], "single": 0.0},
    }
    model = load_model(Path("tdv-r4")).familiar
    assert isinstance(model, Familiar)
    many = kspace_of(head(), coils=6)
    assert reasons(training, None, many) == reasons({}, None, many) == ()
    (said,) = reasons(training, None, kspace_of(head()))
    assert "1 coil, training had at least 4" in said
    (said,) = reasons(training, None, replace(many, z=np.tile(many.z, (1, 3, 1, 1))))
    assert "18 coils, training had at most 8" in said
    lines = np.arange(256) % 4 == 1
    (said,) = reasons(training, None, replace(many, z=many.z, mask=lines))
    assert "no central line" in said
    scattered = bayesmri.undersample(full(many), 4, mask="poisson")
    assert any("kind poisson" in said for said in reasons(training, None, scattered))
    large = kspace_of(np.kron(head(), np.ones((2, 2))), R=4)
    assert any("grid is 512x512" in said for said in reasons({}, model, large))
    assert extrapolation((4.0,), 4.5) == extrapolation((), 30) == []
    assert "trained for R = 4, 8 and the data has R = 20" in extrapolation((4.0, 8.0), 20)[0]


def full(kspace: KSpace) -> KSpace:
    rng = np.random.default_rng(2)
    z = rng.standard_normal(kspace.z.shape) + 1j * rng.standard_normal(kspace.z.shape)
    return KSpace(z.astype(np.complex64), np.ones(kspace.z.shape[-1], bool), Header("test"))


def test_outside_there_is_a_warning_and_no_bound() -> None:
    model = load_model(Path("tdv-r4"))
    found = next(c for c in model.calibrations if c.setting.arrays == (1, 1) and not c.relative)
    quick = replace(model, S=1)  # of the scheme; bounds are judged before it
    N = found.setting.samples
    inside = bayesmri.reconstruct(kspace_of(head()[::2, ::2]), quick, samples=N, level=found.level)
    assert inside.error_bound is not None
    assert not any("unlike" in text for text in inside.warnings)
    odd = kspace_of(strange()["negated"][::2, ::2])
    result = bayesmri.reconstruct(odd, quick, samples=N)
    assert result.error_bound is None
    assert "unlike that of training" in str(result.bound_note)
    assert result.bound_note in result.notes
    assert any("unlike what tdv-r4 was trained on" in text for text in result.warnings)
    with pytest.raises(ModelError, match="unlike that of training"):
        bayesmri.reconstruct(odd, quick, samples=N, level=found.level)
    with pytest.raises(bayesmri.errors.StrictError, match="unlike"):
        bayesmri.reconstruct(odd, quick, strict=True)
    unknown = bayesmri.reconstruct(odd, replace(quick, familiar=None))
    assert any("not judged" in text for text in unknown.notes)
    assert not any("unlike" in text for text in unknown.warnings)


def test_the_command_stores_what_training_data_looks_like(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = torch.Generator().manual_seed(0)
    (tmp_path / "data").mkdir()
    for i in range(5):
        X = phantom(PhantomSpec(anatomy="head", shape=(40, 48), slices=20), rng=rng).numpy()
        np.save(tmp_path / "x.npy", acquire(torch.from_numpy(X), Scanner(1, 30), rng=rng).numpy())
        (tmp_path / "x.npy").rename(tmp_path / "data" / f"{i}.npy")
    out = tmp_path / "m.json"
    assert main(["familiarise", "tdv-r4", "--data", str(tmp_path / "data"), "-o", str(out), "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    model = load_model(out)
    assert model.familiar is not None
    assert (made["slices"], made["files"], made["sizes"]) == (100, 5, [40, 48])
    assert model.familiar.threshold == made["threshold"]
    assert model.calibrations == load_model(Path("tdv-r4")).calibrations


@pytest.mark.skipif(not VALIDATION.is_dir(), reason="the measured data is not here")
def test_few_volumes_of_others_are_taken_for_outside() -> None:
    models = {R: load_model(Path(f"tdv-r{R}")).familiar for R in (4, 8)}
    alarms = []
    tracks: tuple[Track, ...] = ("single", "multi")
    for track in tracks:
        study = Study(VALIDATION, slices=1).track(track)
        for path in data_files(VALIDATION):
            whole = fully_sampled(path, study)
            for R, known in models.items():
                assert known is not None
                alarms.append(bool(reasons({}, known, undersample(whole, sampling_of(path, R, study)))))
    assert len(alarms) == 56
    assert np.mean(alarms) <= 0.1
