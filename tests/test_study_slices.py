"""Studies of one slice or of the model alone: k-space, single samples, covariances."""

from pathlib import Path

import numpy as np
import pytest

from bayesmri.evaluation.cohort import load, sample_volume
from bayesmri.evaluation.request import Request
from bayesmri.evaluation.table import middle_slices
from bayesmri.io.formats import read_kspace
from bayesmri.studies.run import run_study
from study_runs import WIDTH, request, written


def test_kspace_shows_what_was_measured_and_what_was_found(models: Path, scans: Path, tmp_path: Path) -> None:
    asked = request(models, "two", scans / "three.h5")
    run_study("kspace", asked, tmp_path)
    record = written(tmp_path, "kspace")
    path = scans / "three.h5"
    full = middle_slices(read_kspace(path), 1)
    result = sample_volume(full, path, 4.0, load(asked.models[0]), asked)
    assert result.kspace_std is not None
    power = np.sum(np.abs(full.z[0]) ** 2, axis=0)
    unit = float(np.sqrt(power.max()))
    assert record["columns"]["truth"] == pytest.approx(np.sqrt(power.mean(axis=0)) / unit, rel=1e-5)
    spread = np.sqrt(np.sum(np.square(result.kspace_std[0], dtype=np.float64), axis=0).mean(axis=0))
    assert record["columns"]["std"] == pytest.approx(spread / unit, rel=1e-5)
    assert record["acquired"] == np.flatnonzero(result.mask).tolist()
    assert record["std_missing"] > record["std_acquired"] > 0


def test_samples_marks_where_they_spread(models: Path, scans: Path, tmp_path: Path) -> None:
    asked = request(models, "wide", scans / "one.h5")
    run_study("samples", asked, tmp_path)
    record = written(tmp_path, "samples")
    path = scans / "one.h5"
    full = middle_slices(read_kspace(path), 1)
    result = sample_volume(full, path, 4.0, load(asked.models[0]), asked, keep=True)
    assert result.samples is not None
    assert result.std is not None
    assert result.truth is not None
    peak = float(result.truth.max())
    assert len(record["regions"]) == 3
    for r in record["regions"]:
        rows, columns = slice(r["row"], r["row"] + r["size"]), slice(r["column"], r["column"] + r["size"])
        assert r["std"] == pytest.approx(float(result.std[0, rows, columns].mean()) / peak, rel=1e-5)
        i, j = r["samples_shown"]
        difference = (result.samples[0, i] - result.samples[0, j])[rows, columns] / peak
        assert r["rms_difference"] == pytest.approx(float(np.sqrt(np.mean(difference**2))), rel=1e-4)
    spread = [r["std"] for r in record["regions"]]
    assert max(spread) > float(result.std.mean()) / peak


def test_covariance_looks_at_the_model_alone(models: Path, tmp_path: Path) -> None:
    run_study("covariance", Request((str(models / "wide.json"),)), tmp_path)
    record = written(tmp_path, "covariance")
    assert [row["name"] for row in record["rows"]][:2] == ["mb0_res0_K1", "mb0_res0_K2"]
    assert {round(row["std"], 6) for row in record["rows"]} == {WIDTH}
    assert [entry["name"] for entry in record["provenance"]["inputs"]] == ["wide.json"]
