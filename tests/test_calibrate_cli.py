"""`calibrate` and what it leads to: a model that carries its bound, `recon` that applies or refuses it."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import nibabel
import numpy as np
import pytest

import bayesmri
from bayesmri import zoo
from bayesmri.bounds.bound import unit_width
from bayesmri.bounds.conformal import conformal_factor, missed, scores
from bayesmri.checkpoint import Checkpoint, load_model, save_checkpoint, save_model
from bayesmri.cli import main
from bayesmri.data.catalog import probe, subject_of
from bayesmri.errors import BayesMRIError, ModelError
from bayesmri.evaluation.calibrate import calibrate, calibrate_file
from bayesmri.evaluation.cohort import Loaded, load, sample_volume
from bayesmri.evaluation.publish import publish
from bayesmri.evaluation.request import Publication, Request, Wanted
from bayesmri.io.formats import read, read_kspace
from bayesmri.io.provenance import sha256
from bayesmri.io.results import open_result
from bayesmri.posterior.predictor import Predictor, PredictorConfig
from bayesmri.recon.files import PhantomRequest, simulate_file
from bayesmri.recon.outputs import save
from bayesmri.studies.run import run_study
from reader_files import random_kspace
from study_runs import save_heads, tiny, written

H, W, N = 24, 40, 3
SUBJECTS = 5


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five heads, the last of them twice."""
    return save_heads(tmp_path_factory.mktemp("heads"), SUBJECTS, shape=(H, W))


@pytest.fixture(scope="module")
def scan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("scan") / "scan.h5"
    simulate_file(PhantomRequest("head", "PD", (H, W), slices=2), path, snr_db=30, seed=77)
    return path


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Path:
    folder = tmp_path_factory.mktemp("models")
    save_model(folder / "plain.json", tiny())
    assert main(["calibrate", str(folder / "plain.json"), *arguments(data), "-o", str(folder / "calibrated.json")]) == 0
    return folder / "calibrated.json"


def arguments(data: Path, *, level: float = 0.8) -> list[str]:
    return ["--data", str(data), "--level", str(level), "--samples", str(N), "--acceleration", "4"]


def refused(argv: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Exit code 2 and one line."""
    capsys.readouterr()
    assert main(argv) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return said


def test_the_bound_is_what_the_reconstructions_of_the_subjects_say(calibrated: Path, data: Path) -> None:
    (found,) = load_model(calibrated).calibrations
    asked = Wanted(data, level=0.8, samples=N, acceleration=4.0)
    loaded = load(str(calibrated.with_name("plain.json")))
    by_subject: dict[str, list[Any]] = {}
    for path in sorted(data.iterdir()):
        result = sample_volume(read_kspace(path), path, 4.0, loaded, asked.request("plain", 4.0))
        assert result.std is not None
        assert result.truth is not None
        width = unit_width(result.image, result.std, floor=found.floor).astype(np.float32)
        by_subject.setdefault(result.header.patient_id, []).append(scores(result.image - result.truth, width))
    pooled = [np.sort(np.concatenate(parts)) for parts in by_subject.values()]
    assert len(pooled) == SUBJECTS
    assert found.factor == conformal_factor(pooled, level=0.8, cap=found.cap)
    assert found.coverage == pytest.approx(np.mean([1 - missed(s, found.factor) for s in pooled]))
    assert (found.subjects, found.volumes, found.level) == (SUBJECTS, SUBJECTS + 1, 0.8)
    assert found.cap == pytest.approx(0.4)
    setting = found.setting
    assert (setting.acceleration, setting.mask, setting.samples, setting.arrays) == (4.0, "random", N, (1, 1))
    files = {entry["name"]: entry["sha256"] for entry in found.provenance["inputs"]}
    assert files == {path.name: sha256(path) for path in sorted(data.iterdir())}
    assert "phantom 0" not in calibrated.read_text()  # who the subjects are is nobody's business


def test_recon_writes_the_bound_everywhere(calibrated: Path, scan: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.h5"
    argv = ["recon", str(scan), "-o", str(out), "--model", str(calibrated), "--samples", str(N), "--acceleration", "4"]
    assert main([*argv, "--level", "0.8", "--nifti", "--png"]) == 0
    (found,) = load_model(calibrated).calibrations
    with h5py.File(out) as file:
        bound = file["error_bound"]
        assert (bound.attrs["level"], bound.attrs["factor"]) == (0.8, found.factor)
        assert bound.attrs["guarantee"] == found.guarantee
        mean, std = file["reconstruction"][()], file["uncertainty_std"][()]
        np.testing.assert_allclose(bound[()], found.factor * (std + found.floor * mean.max()), rtol=1e-5)
        bound = bound[()]
    volume = nibabel.load(tmp_path / "out_bound.nii.gz").get_fdata()
    np.testing.assert_allclose(np.moveaxis(volume, -1, 0), bound, rtol=1e-6)
    assert (tmp_path / "out.png").stat().st_size > 1000


def test_without_asking_a_bound_comes_where_it_holds_and_a_note_where_not(
    calibrated: Path, scan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["recon", str(scan), "-o", str(tmp_path / "a.h5"), "--model", str(calibrated), "--acceleration", "4"]
    assert main([*argv, "--samples", str(N)]) == 0
    said = capsys.readouterr().out
    assert "error bound at 80 %" in said
    assert "on a new subject exchangeable with the 5 calibrated" in said
    argv += ["--force"]
    assert main([*argv, "--samples", "2", "--nifti"]) == 0
    said = capsys.readouterr().err
    assert f"no error bound of calibrated holds here: it is for {N} samples, not 2" in said
    assert not (tmp_path / "a_bound.nii.gz").exists()
    assert main([*argv, "--json"]) == 0  # no samples: nobody expects one
    made = json.loads(capsys.readouterr().out)
    assert "error_bound" not in made
    assert "bound_note" not in made


def test_what_was_not_calibrated_for_is_refused_with_the_reason(
    calibrated: Path, scan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.h5"
    base = ["recon", str(scan), "-o", str(out)]
    fits = {"--model": str(calibrated), "--samples": str(N), "--acceleration": "4", "--level": "0.8"}

    def said(**changes: str) -> str:
        options = fits | {f"--{name}": value for name, value in changes.items()}
        return refused([*base, *(word for pair in options.items() for word in pair)], capsys)

    assert "R = 4, the data has R = 8" in said(acceleration="8")
    assert f"it is for {N} samples, not 5" in said(samples="5")
    assert f"it is for {N} samples, not 0" in said(samples="0")
    assert "equispaced" in said(mask="equispaced")
    assert "bounds at 0.8: ask for one of these" in said(level="0.9")
    assert "between 0 and 1" in said(level="1.5")
    plain = str(calibrated.with_name("plain.json"))
    assert "which has none: make one with bayesmri calibrate" in said(model=plain)
    assert "method tv, which has none" in refused(["recon", str(scan), "--level", "0.9"], capsys)
    assert not out.exists()


def test_coils_it_was_not_calibrated_for_are_refused(calibrated: Path, scan: Path, tmp_path: Path) -> None:
    many = tmp_path / "many.h5"
    simulate_file(PhantomRequest("head", "PD", (H, W)), many, coils=3, snr_db=30, seed=1)
    (found,) = load_model(calibrated).calibrations
    model = replace(tiny(2), calibrations=(replace(found, setting=replace(found.setting, arrays=(4, 8))),))
    kspace = bayesmri.undersample(read_kspace(many), 4)
    with pytest.raises(ModelError, match="4 to 8 coils, the data has 3"):
        bayesmri.reconstruct(kspace, model, samples=N, level=0.8)
    result = bayesmri.reconstruct(kspace, model, samples=N)
    assert result.error_bound is None
    assert "the data has 3" in str(result.bound_note)
    save(result, {"h5": tmp_path / "out.h5"}, provenance={})
    with open_result(tmp_path / "out.h5") as stored:
        assert stored.bound_note == result.bound_note


def test_levels_and_settings_stand_side_by_side_and_survive_publishing(
    calibrated: Path, data: Path, scan: Path, tmp_path: Path
) -> None:
    model = tmp_path / "mine.json"
    save_model(model, load_model(calibrated))
    for more in (["--level", "0.7"], ["--level", "0.7", "--mask", "equispaced"], ["--level", "0.8"]):
        assert main(["calibrate", str(model), "--data", str(data), "--samples", str(N), *more]) == 0  # in place
    kinds = [(c.level, c.setting.mask) for c in load_model(model).calibrations]
    assert kinds == [(0.7, "random"), (0.7, "equispaced"), (0.8, "random")]
    publish(Publication(model, "published", tmp_path / "models"))
    again = load_model(tmp_path / "models" / "published.json")
    assert again.calibrations == load_model(model).calibrations
    assert again.calibrations[0].provenance == load_model(model).calibrations[0].provenance
    kspace = bayesmri.undersample(read_kspace(scan), 4)
    highest, lower = (bayesmri.reconstruct(kspace, again, samples=N, level=level) for level in (None, 0.7))
    assert highest.calibration is not None
    assert highest.calibration.level == 0.8
    assert highest.error_bound is not None
    assert lower.error_bound is not None
    assert np.all(lower.error_bound < highest.error_bound)


def test_the_card_shows_the_bounds(calibrated: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", str(calibrated)]) == 0
    said = capsys.readouterr().out
    assert "Error bounds" in said
    assert "5 subjects" in said
    assert main(["models", str(calibrated.with_name("plain.json"))]) == 0
    assert "Error bounds" not in capsys.readouterr().out


def test_shipped_models_and_runs_are_calibrated_into_a_copy(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("bayesmri.evaluation.calibrate.SHIPPED", tmp_path / "weights")
    monkeypatch.setattr(zoo, "FOLDER", tmp_path / "weights")
    save_model(tmp_path / "weights" / "tdv-tiny.json", tiny())
    before = (tmp_path / "weights" / "tdv-tiny.json").read_bytes()
    assert "give -o" in refused(["calibrate", "tdv-tiny", *arguments(data)], capsys)
    into = str(tmp_path / "weights" / "other.json")
    assert "installed package" in refused(["calibrate", "tdv-tiny", *arguments(data), "-o", into], capsys)
    assert main(["calibrate", "tdv-tiny", *arguments(data), "-o", str(tmp_path / "copy.json")]) == 0
    assert (tmp_path / "weights" / "tdv-tiny.json").read_bytes() == before
    assert len(load_model(tmp_path / "copy.json").calibrations) == 1
    state = {"w": next(iter(tiny().regularizer.weights().values())).detach()}
    save_checkpoint(tmp_path / "run" / "checkpoints", Checkpoint(tiny(), 3, state, {"elapsed": 60.0}, {"psnr": 30.0}))
    assert "give -o" in refused(["calibrate", str(tmp_path / "run"), *arguments(data)], capsys)
    calibrate_file(str(tmp_path / "run"), Wanted(data, level=0.8, samples=2), tmp_path / "of_run.json")
    record = json.loads((tmp_path / "of_run.json").read_text())
    assert (record["step"], record["facts"], record["metrics"]) == (3, {"elapsed": 60.0}, {"psnr": 30.0})
    assert set(record["files"]) == {"weights"}
    assert len(load_model(tmp_path / "of_run.json").calibrations) == 1


def test_too_few_subjects_are_refused_and_few_are_warned_of(
    data: Path, calibrated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = str(calibrated.with_name("plain.json"))
    two = tmp_path / "two"
    two.mkdir()
    for name in ("head3.h5", "head4.h5", "head4again.h5"):
        (two / name).symlink_to(data / name)
    argv = ["calibrate", plain, "--samples", "2", "-o", str(tmp_path / "out.json")]
    said = refused([*argv, "--data", str(two)], capsys)
    assert "3 fully sampled volumes of 2 subjects" in said
    assert "--by-file" in said
    assert "expected at least 9 subjects" in refused([*argv, "--data", str(data), "--cap", "1"], capsys)
    assert not (tmp_path / "out.json").exists()
    assert main([*argv, "--data", str(two), "--by-file", "--slices", "1"]) == 0
    said = capsys.readouterr().err
    assert "3 subjects are few: the promise counts no subject with more than 20 %" in said
    assert "widens the bound" in said
    assert "only middle slices" in said


def test_people_are_counted_whichever_attribute_names_them(data: Path, tmp_path: Path) -> None:
    """Six files of five people, each named by `patient_id`, by `subject`, or by both, of which the first counts."""
    wanted = {"level": 0.8, "samples": 2, "acceleration": 4.0}
    found, _ = calibrate(Loaded("mine", Path(), tiny()), Wanted(data, **wanted))  # type: ignore[arg-type]
    for folder, other in (("subject", None), ("both", "many")):
        (tmp_path / folder).mkdir()
        for path in sorted(data.iterdir()):
            shutil.copy(path, tmp_path / folder)
            with h5py.File(tmp_path / folder / path.name, "a") as file:
                file.attrs.pop("checksums", None)  # changed on purpose
                file.attrs["subject"] = other or file.attrs["patient_id"]
                if other is None:
                    del file.attrs["patient_id"]
        asked = Wanted(tmp_path / folder, **wanted)  # type: ignore[arg-type]
        again, _ = calibrate(Loaded("mine", Path(), tiny()), asked)
        assert (again.subjects, again.volumes) == (SUBJECTS, SUBJECTS + 1)
        assert again.factor == found.factor


def test_subjects_of_a_catalog_and_of_a_calibration_are_the_same(tmp_path: Path) -> None:
    """Of k-space and of images, that name a patient, a subject, both or nobody."""
    for n, names in enumerate(({}, {"patient_id": "p"}, {"subject": "s"}, {"patient_id": "p", "subject": "s"})):
        for kind, array in (("kspace", random_kspace(1, 16, 16)), ("image", np.ones((1, 16, 16)))):
            with h5py.File(tmp_path / f"{kind}{n}.h5", "w") as file:
                file[kind] = array
                file.attrs.update(names)
    np.save(tmp_path / "array.npy", random_kspace(1, 1, 16, 16))
    for path in sorted(tmp_path.iterdir()):
        assert probe(path).subject == subject_of(path, read(path).header)


def test_by_file_every_file_counts_though_folders_share_names(data: Path, tmp_path: Path) -> None:
    for n in range(4):
        (tmp_path / str(n)).mkdir()
        (tmp_path / str(n) / "scan.h5").symlink_to(data / f"head{n}.h5")
    asked = Wanted(tmp_path, level=0.6, samples=2, by_file=True)
    found, _ = calibrate(Loaded("mine", Path(), tiny()), asked)
    assert (found.subjects, found.volumes) == (4, 4)


def test_levels_that_the_data_cannot_support_are_refused_with_the_highest(
    data: Path, calibrated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The heads have one slice of 24 x 40 pixels, the last of them two: 960 pixels are the fewest."""
    argv = ["calibrate", str(calibrated.with_name("plain.json")), "--data", str(data), "-o", str(tmp_path / "o.json")]
    said = refused([*argv, "--samples", "2", "--level", "0.999999"], capsys)
    assert f"the level 0.999999 lets a subject of {H * W} pixels" in said
    highest = said.split("at most ")[1].split(",")[0]
    assert 0.99 < float(highest) < 0.999999
    above = f"{float(highest) + 0.1 * (1 - float(highest)):.9f}"
    assert f"at most {highest}" in refused([*argv, "--samples", "2", "--level", above], capsys)
    assert "a level of at most 0.83," in refused([*argv, "--samples", "2", "--level", "0.9", "--cap", "1"], capsys)
    for few in ("0", "1", "-1"):
        assert f"got {few} samples, expected at least 2" in refused([*argv, "--samples", few], capsys)
    assert not (tmp_path / "o.json").exists()
    assert main([*argv, "--samples", "2", "--level", highest]) == 0
    said = capsys.readouterr().out
    assert f"error bound at {100 * float(highest):.6g} %" in said
    assert "at 100 %" not in said


def test_training_files_are_noticed(calibrated: Path, data: Path) -> None:
    model = replace(tiny(), card={"data": {"train": {"sources": ["head0.h5"]}}})
    loaded = Loaded("mine", Path(), model)
    _, facts = calibrate(loaded, Wanted(data, level=0.8, samples=2))
    assert any("head0.h5: the model was trained on files of this name" in line for line in facts["warnings"])


def test_the_fast_route_has_a_bound_of_its_own(data: Path, scan: Path) -> None:
    import torch

    predictor = Predictor(PredictorConfig(features=4), torch.Generator().manual_seed(0)).requires_grad_(False)
    model = replace(tiny(), predictor=predictor)
    model = bayesmri.calibrate(model, data, level=0.8, samples=2, fast=True, region="foreground")
    kspace = bayesmri.undersample(read_kspace(scan), 4)
    result = bayesmri.reconstruct(kspace, model, samples=2, fast=True, level=0.8)
    assert result.error_bound is not None
    assert result.calibration is not None
    assert result.calibration.region == "foreground"
    with pytest.raises(ModelError, match="of the fast route, not 2 samples"):
        bayesmri.reconstruct(kspace, model, samples=2, level=0.8)


def test_the_study_leaves_every_subject_out_in_turn(calibrated: Path, data: Path, tmp_path: Path) -> None:
    asked = Request((str(calibrated),), data, samples=N, level=0.8)
    _, outcome = run_study("reliability", asked, tmp_path)
    bound = written(tmp_path, "reliability")["bound"]
    (own,) = load_model(calibrated).calibrations
    assert (bound["level"], bound["subjects"], bound["floor"]) == (0.8, SUBJECTS, own.floor)
    rows = bound["everywhere"]["of_subjects"]
    assert [row["subject"] for row in rows] == ["head0", "head1", "head2", "head3", "head4 +1"]
    assert bound["everywhere"]["coverage"] == pytest.approx(np.mean([row["coverage"] for row in rows]))
    # the same seed, files and samples: the stored bound covers here what it covered when it was made
    assert bound["everywhere"]["stored"] == pytest.approx(own.coverage)
    assert bound["stored"]["seen"] == sorted(path.name for path in data.iterdir())
    assert own.held_out == pytest.approx(bound["everywhere"]["coverage"])
    assert "each of 5 subjects left out in turn" in outcome.text
    assert "calibrated with 6 of these files" in outcome.text


def test_the_study_says_when_subjects_are_too_few(calibrated: Path, data: Path, tmp_path: Path) -> None:
    plain = str(calibrated.with_name("plain.json"))
    _, outcome = run_study("reliability", Request((plain,), data / "head0.h5", samples=2), tmp_path)
    bound = written(tmp_path, "reliability")["bound"]
    assert (bound["everywhere"], bound["foreground"], bound["stored"]) == (None, None, None)
    assert "1 subject is too few to leave one out" in outcome.text
    with pytest.raises(BayesMRIError, match="has no bounds"):
        run_study("entropy", Request((plain,), data, level=0.9), tmp_path)


def test_a_model_without_posterior_has_nothing_to_calibrate(data: Path, tmp_path: Path) -> None:
    save_model(tmp_path / "fixed.json", tiny(width=None))
    with pytest.raises(ModelError, match="no posterior"):
        calibrate_file(str(tmp_path / "fixed.json"), Wanted(data))
    for wrong in ({"cap": 0.05}, {"floor": 0.0}, {"level": 0.0}):
        with pytest.raises(BayesMRIError):
            Wanted(data, **wrong)  # type: ignore[arg-type]
