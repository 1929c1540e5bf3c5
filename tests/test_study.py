"""Studies: numbers that can be checked by hand, files that are both there or neither, refusals of one line."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bayesmri.analysis.quality import foreground, spearman
from bayesmri.checkpoint import Checkpoint, save_checkpoint, save_model
from bayesmri.cli import main
from bayesmri.errors import BayesMRIError, ConfigError, DataError, ModelError
from bayesmri.evaluation.cohort import beta_of, load, sample_volume
from bayesmri.evaluation.request import Request
from bayesmri.evaluation.table import middle_slices
from bayesmri.io.formats import read_kspace
from bayesmri.io.provenance import sha256
from bayesmri.metrics import volume_metrics
from bayesmri.recon.acquisition import Sampling
from bayesmri.recon.files import undersample_file
from bayesmri.recon.samples import column_std
from bayesmri.runs import FOLDER
from bayesmri.studies import reliability as study_reliability
from bayesmri.studies.run import run_study
from study_runs import PNG, WIDTH, H, N, W, request, tiny, written


def test_reliability_is_what_the_reconstructions_say(models: Path, scans: Path, tmp_path: Path) -> None:
    asked = request(models, "wide", scans)
    run_study("reliability", asked, tmp_path / "out")
    record = written(tmp_path / "out", "reliability")
    assert [(row["file"], row["slices"]) for row in record["rows"]] == [("one.h5", 3), ("three.h5", 3)]
    path = scans / "one.h5"
    result = sample_volume(read_kspace(path), path, 4.0, load(asked.models[0]), asked)
    assert result.std is not None
    assert result.truth is not None
    error, inside = result.image - result.truth, foreground(result.truth)
    row = record["rows"][0]
    for s in range(3):
        found = row["of_slices"][s]
        assert found["everywhere"]["spearman"] == pytest.approx(spearman(result.std[s], error[s]))
        body = spearman(result.std[s][inside[s]], error[s][inside[s]])
        assert found["foreground"]["spearman"] == pytest.approx(body)
    assert row["psnr"] == pytest.approx(volume_metrics(result.image, result.truth).psnr)
    assert row["acquired_lines"] == 9
    slices = [part["everywhere"]["spearman"] for r in record["rows"] for part in r["of_slices"]]
    assert record["all"]["everywhere"]["spearman"] == pytest.approx(np.mean(slices))
    assert record["all"]["everywhere"]["slices"] == 6
    assert record["all"]["everywhere"]["pixels"] == 6 * H * W


def test_the_record_says_where_it_comes_from(models: Path, scans: Path, tmp_path: Path) -> None:
    run_study("reliability", request(models, "wide", scans, slices=2), tmp_path / "out")
    record = written(tmp_path / "out", "reliability")
    origin = record["provenance"]
    files = {entry["name"]: entry["sha256"] for entry in origin["inputs"]}
    sources = (scans / "one.h5", scans / "three.h5", models / "wide.json")
    assert files == {path.name: sha256(path) for path in sources}
    assert origin["seed"] == 3
    assert origin["threads"] == torch.get_num_threads()
    assert origin["config"]["samples"] == N
    assert origin["config"]["models"] == ["wide.json"]
    assert (record["beta"], record["step"], record["samples"]) == (1e-6, 7, N)
    assert record["slices_of_every_volume"] == "2 in the middle"
    assert [row["slices"] for row in record["rows"]] == [2, 2]
    assert str(scans.parent) not in json.dumps(record)


def test_a_study_repeats(models: Path, scans: Path, tmp_path: Path) -> None:
    asked = request(models, "two", scans / "three.h5", slices=1)

    def numbers(seed: int, name: str) -> Any:
        record, _ = run_study("reliability", Request(**{**vars(asked), "seed": seed}), tmp_path / name)
        return record["all"]

    assert numbers(3, "a") == numbers(3, "b")
    assert numbers(3, "c") != numbers(4, "d")


def test_the_middle_slices_are_taken(scans: Path) -> None:
    kspace = read_kspace(scans / "one.h5")
    np.testing.assert_array_equal(middle_slices(kspace, 1).z, kspace.z[1:2])
    np.testing.assert_array_equal(middle_slices(kspace, 2).z, kspace.z[0:2])
    assert middle_slices(kspace, 3) is middle_slices(kspace, None) is kspace


def test_a_model_of_one_coil_takes_an_emulated_one(models: Path, scans: Path) -> None:
    path, full = scans / "three.h5", read_kspace(scans / "three.h5")
    for name, coils in (("wide", 1), ("two", 2)):
        asked = request(models, name, path, slices=1)
        result = sample_volume(middle_slices(full, 1), path, 4.0, load(asked.models[0]), asked)
        assert result.kspace_std is not None
        assert result.kspace_std.shape[1] == coils
        assert result.metrics().psnr > 10


def test_entropy_has_a_row_for_every_model_and_n(models: Path, scans: Path, tmp_path: Path) -> None:
    names = ("fixed", "narrow", "wide")
    asked = Request(tuple(str(models / f"{n}.json") for n in names), scans / "one.h5", samples=N, slices=2)
    run_study("entropy", asked, tmp_path)
    rows = written(tmp_path, "entropy")["rows"]
    assert [(r["model"], r["beta"], r["n"], r["subsets"]) for r in rows] == [
        ("fixed", None, 0, 1),
        *(("narrow", 1e-7, n, m) for n, m in ((1, 5), (4, 1), (5, 1))),
        *(("wide", 1e-6, n, m) for n, m in ((1, 5), (4, 1), (5, 1))),
    ]
    assert rows[0]["entropy"] is None
    for row, width in ((rows[1], 0.005), (rows[4], WIDTH)):
        assert row["entropy"] == pytest.approx(0.5 * math.log(2 * math.pi) + 9 * math.log(width), rel=1e-6)
        assert row["psnr_low"] < row["psnr_mean"] < row["psnr_high"]
    assert len({r["psnr_deterministic"] for r in rows}) == 1  # all three have the same μ
    path = scans / "one.h5"
    full = middle_slices(read_kspace(path), 2)
    result = sample_volume(full, path, 4.0, load(asked.models[2]), asked, keep=True)
    assert result.samples is not None
    assert result.truth is not None
    scores = [volume_metrics(result.samples[:, i], result.truth).psnr for i in range(N)]
    one, all_of_them = rows[4], rows[6]
    assert one["psnr_mean"] == pytest.approx(np.mean(scores))
    assert (one["psnr_low"], one["psnr_high"]) == pytest.approx((min(scores), max(scores)))
    assert all_of_them["psnr_mean"] == pytest.approx(result.metrics().psnr, abs=1e-4)


def test_acceleration_measures_image_and_kspace(models: Path, scans: Path, tmp_path: Path) -> None:
    asked = request(models, "wide", scans, accelerations=(4.0, 2.0, 1.0), slices=1)
    _, outcome = run_study("acceleration", asked, tmp_path)
    assert [line.split()[-1] == "exact" for line in outcome.text.splitlines()[1:]] == [False, False, True]
    record = written(tmp_path, "acceleration")
    assert [row["acceleration"] for row in record["means"]] == [4, 2, 1]
    assert len(record["rows"]) == 6
    path = scans / "one.h5"
    result = sample_volume(middle_slices(read_kspace(path), 1), path, 2.0, load(asked.models[0]), asked)
    assert result.kspace_std is not None
    assert result.std is not None
    assert result.truth is not None
    row, peak = record["rows"][1], float(result.truth.max())
    found = (row["kspace_std_acquired"], row["kspace_std_missing"])
    assert found == pytest.approx([v / peak for v in column_std(result.kspace_std, result.mask) if v is not None])
    inside = foreground(result.truth)
    assert row["std_foreground"] == pytest.approx(float(result.std[inside].mean()) / peak, rel=1e-5)
    full = record["means"][2]
    assert full["kspace_std_missing"] is None
    assert full["std"] < record["means"][0]["std"]
    volumes = [row["psnr"] for row in record["rows"] if row["acceleration"] == 4]
    assert record["means"][0]["psnr"] == pytest.approx(np.mean(volumes))


def test_the_command_prints_a_table_and_writes_both_files(
    models: Path, scans: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (scans / "notes.txt").write_text("not a scan")
    argv = ["study", "reliability", "--model", str(models / "wide.json"), "--data", str(scans), "--slices", "1"]
    assert main([*argv, "--samples", "3", "-o", str(tmp_path / "out")]) == 0
    said = capsys.readouterr()
    assert [line.split()[0] for line in said.out.splitlines()[:4]] == ["volume", "one.h5", "three.h5", "all"]
    assert "from random to oracle" in said.out
    assert "skipped notes.txt" in said.err
    (scans / "notes.txt").unlink()
    record = written(tmp_path / "out", "reliability")
    assert main([*argv, "--samples", "3", "-o", str(tmp_path / "again"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["all"] == record["all"]
    names = [str(models / f"{n}.json") for n in ("fixed", "wide")]
    out = str(tmp_path / "entropy")
    assert (
        main(["study", "entropy", "--models", *names, "--data", str(scans / "one.h5"), "--samples", "2", "-o", out])
        == 0
    )
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["model", "fixed", "wide", "wide", "wrote"]


def test_a_figure_that_fails_leaves_nothing(
    models: Path, scans: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path, *, numbers: Any) -> None:
        path.write_bytes(PNG)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(study_reliability, "reliability_figure", fail)
    with pytest.raises(BayesMRIError, match="No space left"):
        run_study("reliability", request(models, "wide", scans / "one.h5", slices=1), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_what_a_study_cannot_use_is_refused(models: Path, scans: Path, tmp_path: Path) -> None:
    asked = request(models, "wide", scans / "one.h5", slices=1)

    def changed(**changes: Any) -> Request:
        return Request(**{**vars(asked), **changes})

    cases: list[tuple[str, Request, type[BayesMRIError], str]] = [
        ("calibraton", asked, ConfigError, "expected one of overview"),
        ("reliability", changed(models=asked.models * 2), ConfigError, "expected one, as"),
        ("entropy", changed(models=()), ConfigError, "at least one"),
        ("entropy", changed(models=asked.models * 2), ConfigError, "twice"),
        ("acceleration", changed(accelerations=(4.0, 4.0)), ConfigError, "twice"),
        ("reliability", changed(data=None), ConfigError, "--data"),
        ("reliability", changed(accelerations=(4.0, 8.0)), ConfigError, "expected one, as"),
        ("reliability", request(models, "fixed", scans), ModelError, "no posterior"),
        ("acceleration", request(models, "fixed", scans), ModelError, "no posterior"),
        ("kspace", asked, ConfigError, "shows one slice"),
        ("covariance", asked, ConfigError, "got --data, --samples, --slices for"),
        ("covariance", Request((str(models / "fixed.json"),)), ModelError, "no posterior"),
    ]
    for name, wrong, error, words in cases:
        with pytest.raises(error, match=words):
            run_study(name, wrong, tmp_path / "out")
    for wrong_value in ({"slices": 0}, {"samples": 1}, {"seed": -1}):
        with pytest.raises(ConfigError):
            changed(**wrong_value)
    undersample_file(scans / "one.h5", tmp_path / "r4.h5", Sampling(acceleration=4))
    with pytest.raises(DataError, match="no fully sampled volume"):
        run_study("reliability", changed(data=tmp_path / "r4.h5"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_inputs_are_not_overwritten(models: Path, scans: Path, tmp_path: Path) -> None:
    save_model(tmp_path / "reliability.json", tiny())
    asked = Request((str(tmp_path / "reliability.json"),), scans / "one.h5", samples=2, slices=1)
    before = (tmp_path / "reliability.json").read_bytes()
    with pytest.raises(BayesMRIError, match="input itself"):
        run_study("reliability", asked, tmp_path)
    assert (tmp_path / "reliability.json").read_bytes() == before


def test_a_checkpoint_is_called_by_its_run(tmp_path: Path) -> None:
    """Best of a run or picked by hand: models to compare keep names of their own."""
    for run in ("a", "b"):
        save_checkpoint(tmp_path / run / FOLDER, Checkpoint(tiny(), step=5))
    assert load(str(tmp_path / "a")).name == "a"
    picked = [load(str(tmp_path / run / FOLDER / "step-00000005.json")) for run in ("a", "b")]
    assert [loaded.name for loaded in picked] == ["a/step-00000005", "b/step-00000005"]
    save_model(tmp_path / "alone.json", tiny())
    assert load(str(tmp_path / "alone.json")).name == "alone"


def test_beta_is_read_from_the_card() -> None:
    assert beta_of({"provenance": {"config": {"posterior": {"beta": 1e-4}}}}) == 1e-4
    assert beta_of({"posterior": {"beta": 2, "entropy": -3.0}, "provenance": {}}) == 2.0
    assert beta_of({"posterior": {"entropy": -3.0}, "provenance": {"config": {"posterior": {"beta": 0.5}}}}) == 0.5
    assert beta_of({"provenance": {"config": None}}) is None
    assert beta_of({}) is None


def test_a_study_answers_to_its_former_name(models: Path, scans: Path, tmp_path: Path) -> None:
    asked = request(models, "wide", scans / "one.h5", slices=1)
    records = {}
    for name in ("reliability", "calibration"):
        run_study(name, asked, tmp_path)
        records[name] = json.loads((tmp_path / f"{name}.json").read_text())
        assert records[name]["study"] == "reliability"
    now, before = ([row["psnr"] for row in record["rows"]] for record in records.values())
    assert now == before
