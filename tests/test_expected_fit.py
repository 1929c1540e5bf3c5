"""The few numbers that scale an expected error, the study that judges it, and bounds that are relative to it."""

import json
import math
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest

import bayesmri
from bayesmri.bounds.expected import DEFAULT, ErrorScale
from bayesmri.checkpoint import load_model, save_model
from bayesmri.cli import main
from bayesmri.errors import DataError
from bayesmri.evaluation.expected_scale import Case, fit_scale, quantile
from bayesmri.io.formats import read_kspace
from bayesmri.metrics import Metrics
from bayesmri.recon.expectation import Told
from study_runs import save_heads, tiny

SUBJECTS, N = 4, 3


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_heads(tmp_path_factory.mktemp("heads"), SUBJECTS, shape=(40, 64))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "plain.json"
    save_model(path, tiny())
    return path


def cases(scale: ErrorScale, *, n: int = 30, seed: int = 0) -> list[Case]:
    """Volumes whose errors are exactly what a scale says, with unlike coherence and noise."""
    rng = np.random.default_rng(seed)
    found = []
    for i in range(n):
        missing, c, noise = rng.uniform(1, 9), rng.uniform(0, 1), rng.uniform(0, 0.5)
        told = Told(missing, 0.1, 0.4, c, noise * missing, 100.0, 1.0, 64, 64)
        total = told.total(scale)
        error = told.magnitude(scale)
        psnr = 10 * math.log10(scale.peak**2 * 64 / error)
        metrics = Metrics(nmse=error / 100, psnr=psnr, ssim=0.5)
        found.append(Case(f"{i}.h5", str(i), 1, (told,), 32, metrics, total, error, scale.peak))
    return found


def test_what_made_the_errors_is_found_again() -> None:
    true = ErrorScale(spread_db=1.0, bias=1.4, seen=(0.1, 0.4, -0.8), peak=1.2)
    found = fit_scale(cases(true, n=300), 4.0)
    assert found.bias == pytest.approx(1.4)
    assert found.seen == pytest.approx(true.seen, abs=0.08)
    assert found.peak == pytest.approx(1.2, rel=0.02)
    assert found.spread_db < 0.15
    assert (found.volumes, found.subjects, found.arrays, found.fitted) == (300, 300, (1, 1), True)


def test_the_interval_holds_nine_of_ten() -> None:
    rng = np.random.default_rng(1)
    shaken = [
        replace(case, metrics=replace(case.metrics, psnr=case.metrics.psnr + rng.normal()))
        for case in cases(DEFAULT, n=300)
    ]
    assert fit_scale(shaken, 4.0).spread_db == pytest.approx(1.645, rel=0.15)


def test_a_subject_of_many_volumes_weighs_as_one() -> None:
    others, odd = cases(DEFAULT, n=9), cases(replace(DEFAULT, bias=5.0), n=20)
    found = fit_scale([*others, *(replace(case, subject="one") for case in odd)], 4.0)
    assert found.bias == pytest.approx(1.0)
    assert found.subjects == 10


def test_two_subjects_are_too_few() -> None:
    with pytest.raises(DataError, match="got 2 subjects to fit expected errors to"):
        fit_scale(cases(DEFAULT, n=2), 4.0)


def test_the_quantile_of_equal_weights_is_the_usual_one() -> None:
    values = np.array([3.0, 1.0, 2.0, 5.0, 4.0])
    assert quantile(values, np.ones(5), 0.5) == 3
    assert quantile(values, np.array([0.0, 1, 0, 0, 0]) + 1e-12, 0.5) == pytest.approx(1)


def test_calibrate_stores_the_scale_beside_the_bounds(
    model: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "own.json"
    argv = ["calibrate", str(model), "--expected", "--data", str(data), "--acceleration", "3", "--mask", "random"]
    assert main([*argv, "-o", str(out)]) == 0
    assert f"{SUBJECTS + 1} volumes of {SUBJECTS} subjects, R = 3, one coil" in capsys.readouterr().out
    (scale,) = load_model(out).scales
    assert scale.acceleration == 3
    assert scale.fitted
    assert len(scale.provenance["inputs"]) == SUBJECTS + 1
    assert load_model(out).calibrations == load_model(model).calibrations == ()
    assert main([*argv, "--level", "0.8", "-o", str(out)]) == 2
    assert "got --expected with level" in capsys.readouterr().err
    assert main([*argv, "--repeats", "2", "-o", str(tmp_path / "twice.json")]) == 0
    assert f"{2 * SUBJECTS + 2} volumes of {SUBJECTS} subjects" in capsys.readouterr().out
    (twice,) = load_model(tmp_path / "twice.json").scales
    assert twice.bias != scale.bias
    assert (
        main([word for word in argv if word != "--expected"] + ["--repeats", "2", "-o", str(tmp_path / "b.json")]) == 2
    )
    assert "repeats" in capsys.readouterr().err
    sampled = bayesmri.undersample(read_kspace(data / "head0.h5"), 3)
    assert bayesmri.check(sampled, load_model(out)).fitted


def test_the_study_is_what_reconstructions_say(
    model: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["study", "holdout", "--model", str(model), "--data", str(data), "--acceleration", "3", "-o", str(tmp_path)]
    assert main(argv) == 0
    assert "head" in capsys.readouterr().out
    record = json.loads((tmp_path / "holdout.json").read_text())
    assert len(record["rows"]) == SUBJECTS + 1
    everything = record["groups"]["all"]
    assert everything["scans"] == SUBJECTS + 1
    inside = [row["expected_psnr_low"] <= row["psnr"] <= row["expected_psnr_high"] for row in record["rows"]]
    assert everything["covered"] == pytest.approx(np.mean(inside))
    ratios = [row["expected_relative"] / row["relative"] for row in record["rows"]]
    assert everything["ratio"]["median"] == pytest.approx(np.median(ratios))
    assert main(["study", "holdout", "--numbers", str(tmp_path / "holdout.json"), "-o", str(tmp_path / "again")]) == 0
    assert (tmp_path / "again" / "holdout.png").stat().st_size > 1000


def test_a_relative_bound_comes_with_the_check_and_only_then(
    model: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, scan = tmp_path / "bound.json", data / "head0.h5"
    argv = ["calibrate", str(model), "--data", str(data), "--level", "0.8", "--samples", str(N), "--acceleration", "3"]
    assert main([*argv, "-o", str(out)]) == 0
    assert main([*argv[:1], str(out), *argv[2:], "--relative"]) == 0
    assert "20 % of the expected RMS error" in capsys.readouterr().out
    assert {found.relative for found in load_model(out).calibrations} == {True, False}
    recon = ["recon", str(scan), "--model", str(out), "--samples", str(N), "--acceleration", "3", "--level", "0.8"]
    assert main([*recon, "-o", str(tmp_path / "plain.h5")]) == 0
    assert main([*recon, "-o", str(tmp_path / "checked.h5"), "--check"]) == 0
    with h5py.File(tmp_path / "plain.h5") as plain, h5py.File(tmp_path / "checked.h5") as checked:
        assert not plain["error_bound"].attrs["relative"]
        bound = checked["error_bound"]
        assert bound.attrs["relative"]
        rmse = checked["reconstruction"].attrs["expected_rmse"]
        width = checked["uncertainty_std"][()] + 0.2 * rmse
        np.testing.assert_allclose(bound[()], bound.attrs["factor"] * width, rtol=1e-5)


def test_a_relative_bound_is_told_beside_the_plain_one(
    model: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the same reconstructions: what the plain calibration of the same data says of itself."""
    argv = ["calibrate", str(model), "--data", str(data), "--level", "0.8", "--samples", str(N), "--acceleration", "3"]
    assert main([*argv, "-o", str(tmp_path / "plain.json"), "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert main([*argv, "-o", str(tmp_path / "both.json"), "--relative", "--json"]) == 0
    both = json.loads(capsys.readouterr().out)
    assert "plain" not in plain
    for key in ("of", "least", "most", "mean_bound"):
        assert both["plain"][key] == pytest.approx(plain["spread"][key])
    assert both["spread"]["least"] == min(row["held_out"] for row in both["rows"])
    assert both["spread"] != {key: both["plain"][key] for key in both["spread"]}
    assert main([*argv, "-o", str(tmp_path / "said.json"), "--relative"]) == 0
    said = capsys.readouterr().out
    assert "relative: " in said
    assert "not relative: " in said
