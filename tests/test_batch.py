"""Many files in one go: the results of single commands, finished ones kept, broken ones listed, nothing half."""

import csv
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from bayesmri.checkpoint import save_model
from bayesmri.cli import main
from bayesmri.errors import BayesMRIError, ConfigError, DataError, OutputError
from bayesmri.io.locks import exclusive
from bayesmri.io.provenance import Seen
from bayesmri.recon.acquisition import Sampling
from bayesmri.recon.batch import run as running
from bayesmri.recon.batch.finished import Wanted, difference
from bayesmri.recon.batch.folder import Batch, reconstruct_folder
from bayesmri.recon.batch.inputs import Shard, found_inputs, is_many
from bayesmri.recon.files import PhantomRequest, reconstruct_file, simulate_file
from bayesmri.recon.method import make_method
from bayesmri.recon.request import Options
from study_runs import tiny

NAMES = ("a/one.h5", "a/two.h5", "b/one.h5", "b/three.h5")
R4 = Sampling(acceleration=4.0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("many")
    for seed, name in enumerate(NAMES):
        (base / name).parent.mkdir(exist_ok=True)
        simulate_file(PhantomRequest("head", "PD", (24, 28), slices=2), base / name, coils=1 + seed % 2, seed=seed)
    (base / "notes.txt").write_text("not an image")
    return base


def options(models: Path, **changes: Any) -> Options:
    return Options(**{"model": str(models / "wide.json"), "samples": 2, "single_coil": True, **changes})


def images(path: Path) -> dict[str, Any]:
    with h5py.File(path) as file:
        return {key: file[key][()] for key in file if isinstance(file[key], h5py.Dataset)}


def status(made: dict[str, Any]) -> dict[str, str]:
    return {row["input"]: row["status"] for row in made["volumes"]}


def test_a_batch_makes_what_single_commands_make(folder: Path, models: Path, tmp_path: Path) -> None:
    made = reconstruct_folder([folder], tmp_path / "out", Batch(options(models), R4, png=True, report=True))
    assert status(made) == dict.fromkeys(NAMES, "done")
    for name in NAMES:
        single = tmp_path / "single.h5"
        reconstruct_file(folder / name, single, options(models), R4, force=True)
        result = (tmp_path / "out" / name).with_suffix(".recon.h5")
        one, many = images(single), images(result)
        assert one.keys() == many.keys()
        for key in one:
            np.testing.assert_array_equal(one[key], many[key])
        assert result.with_suffix(".png").is_file()
        assert result.with_suffix(".html").is_file()
    page = (tmp_path / "out" / "summary.html").read_text()
    assert all(f'href="{name[:-3]}.recon.html"' in page for name in NAMES)
    rows = list(csv.DictReader((tmp_path / "out" / "summary.csv").read_text().splitlines()))
    assert [row["input"] for row in rows] == list(NAMES)
    assert all(float(row["psnr"]) > 5 and int(row["slices"]) == 2 for row in rows)
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["done"] == len(NAMES)


def test_the_model_is_loaded_once(folder: Path, models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Options] = []

    def counting(asked: Options) -> Any:
        made.append(asked)
        return make_method(asked)

    monkeypatch.setattr(running, "make_method", counting)
    reconstruct_folder([folder], tmp_path / "out", Batch(options(models, samples=0), R4))
    assert len(made) == 1


def test_what_is_finished_is_skipped_and_keeps_its_row(folder: Path, models: Path, tmp_path: Path) -> None:
    batch, out = Batch(options(models), R4), tmp_path / "out"
    first = reconstruct_folder([folder / "a"], out, batch)
    times = {path: path.stat().st_mtime_ns for path in out.rglob("*.recon.h5")}
    again = reconstruct_folder([folder / "a"], out, batch)
    assert set(status(again).values()) == {"finished before"}
    assert times == {path: path.stat().st_mtime_ns for path in out.rglob("*.recon.h5")}
    for before, after in zip(first["volumes"], again["volumes"], strict=True):
        assert {**after, "status": "done"} == before


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"samples": 3}, "samples was 2, now 3"),
        ({"seed": 5}, "seed was 0, now 5"),
        ({"full_fov": True}, "full_fov was False, now True"),
        ({"model": "narrow"}, "model was wide, now narrow"),
    ],
)
def test_other_settings_are_told_and_kept_until_forced(
    folder: Path, models: Path, tmp_path: Path, change: dict[str, Any], told: str
) -> None:
    out, source = tmp_path / "out", [folder / "a" / "one.h5", folder / "a" / "two.h5"]
    reconstruct_folder(source[:1], out, Batch(options(models), R4))
    if "model" in change:
        change = {"model": str(models / f"{change['model']}.json")}
    other = Batch(options(models, **change), R4)
    before = (out / "one.recon.h5").read_bytes()
    made = reconstruct_folder(source, out, other)
    assert status(made) == {"one.h5": "failed", "two.h5": "done"}
    assert told in made["volumes"][0]["error"]
    assert (out / "one.recon.h5").read_bytes() == before
    forced = reconstruct_folder(source, out, replace(other, force=True))
    assert status(forced) == {"one.h5": "done", "two.h5": "finished before"}


def test_a_changed_input_or_model_is_noticed(folder: Path, models: Path, tmp_path: Path) -> None:
    scan, model, out = tmp_path / "scan.h5", tmp_path / "own.json", tmp_path / "out"
    shutil.copy(folder / "a" / "one.h5", scan)
    save_model(model, tiny())
    batch = Batch(options(models, model=str(model)), R4)
    reconstruct_folder([scan], out, batch)
    shutil.copy(folder / "a" / "two.h5", scan)
    (row,) = reconstruct_folder([scan], out, batch)["volumes"]
    assert "scan.h5 is not what it was" in row["error"]
    shutil.copy(folder / "a" / "one.h5", scan)
    assert set(status(reconstruct_folder([scan], out, batch)).values()) == {"finished before"}
    save_model(model, tiny(width=0.005))
    (row,) = reconstruct_folder([scan], out, batch)["volumes"]
    assert "own.json is not what it was" in row["error"]


def test_difference_is_empty_for_the_same_and_for_nothing_else() -> None:
    scan, model = Seen("s.h5", "1"), Seen("m.json", "2")
    wanted = Wanted({"samples": 2, "sampling": None}, 0, (scan,), {"m": model})
    record = {
        "command": "recon",
        "config": {"samples": 2, "sampling": None, "model": "m"},
        "seed": 0,
        "inputs": [vars(scan), vars(model)],
    }
    assert difference(record, wanted) == ""
    changed: list[dict[str, Any]] = [
        {},
        {**record, "command": "whatif"},
        {**record, "config": {**record["config"], "samples": 3}},  # type: ignore[dict-item]
        {**record, "config": {**record["config"], "reading": {"shifted": True}}},  # type: ignore[dict-item]
        {**record, "config": {**record["config"], "model": "n"}},  # type: ignore[dict-item]
        {**record, "config": {**record["config"], "chosen": "m for R = 4"}},  # type: ignore[dict-item]
        {**record, "seed": 1},
        {**record, "inputs": [vars(scan), vars(Seen("m.json", "3"))]},
        {**record, "inputs": [vars(Seen("s.h5", "9")), vars(model)]},
        {**record, "inputs": [vars(scan), vars(model), vars(Seen("mask.npy", "4"))]},
        {**record, "inputs": None},
    ]
    assert all(difference(other, wanted) for other in changed)
    assert difference(record, replace(wanted, chosen=True)) != ""


def test_broken_inputs_are_listed_and_the_others_done(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(folder / "a", tmp_path / "in" / "a")
    (tmp_path / "in" / "broken.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(50))
    out, absent = tmp_path / "out", tmp_path / "absent.h5"
    argv = ["recon", str(tmp_path / "in"), str(absent), "-o", str(out), "--method", "zero-filled"]
    assert main([*argv, "--acceleration", "3"]) == 3
    said = capsys.readouterr()
    assert "4 volumes: 2 done, 2 failed" in said.out
    assert "broken.h5" in said.err
    made = json.loads((out / "summary.json").read_text())
    assert status(made) == {"a/one.h5": "done", "a/two.h5": "done", "broken.h5": "failed", "absent.h5": "failed"}
    assert sorted(p.name for p in out.rglob("*.h5")) == ["one.recon.h5", "two.recon.h5"]
    (tmp_path / "in" / "broken.h5").unlink()
    assert main([*argv[:2], *argv[3:], "--acceleration", "3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["finished_before"] == 2


def test_an_interrupted_batch_goes_on_where_it_was(
    folder: Path, models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, batch = tmp_path / "out", Batch(options(models), R4)
    with monkeypatch.context() as patch:
        patch.setattr(running, "reconstruct_file", interrupted_after(2))
        with pytest.raises(KeyboardInterrupt):
            reconstruct_folder([folder], out, batch)
    left = json.loads((out / "summary.json").read_text())
    assert [row["status"] for row in left["volumes"]] == ["done", "done", "not reached", "not reached"]
    assert len([p for p in out.rglob("*") if p.is_file() and p.parent.name != ".batch"]) == 2 + 3
    made = reconstruct_folder([folder], out, batch)
    assert [row["status"] for row in made["volumes"]] == ["finished before"] * 2 + ["done"] * 2
    assert all("psnr" in row for row in made["volumes"])


def interrupted_after(n: int) -> Callable[..., Any]:
    calls = iter(range(n))

    def work(*args: Any, **kwargs: Any) -> Any:
        if next(calls, None) is None:
            raise KeyboardInterrupt
        return reconstruct_file(*args, **kwargs)

    return work


def test_shards_are_a_partition_and_leave_what_one_run_leaves(folder: Path, tmp_path: Path) -> None:
    batch, out = Batch(Options(method="zero-filled"), R4), tmp_path / "shards"
    for i in (3, 1, 2):
        reconstruct_folder([folder], out, replace(batch, shard=Shard.of(f"{i}/3")))
    parts = [json.loads(path.read_text()) for path in sorted(out.glob("summary-*-of-3.json"))]
    assert sorted(name for part in parts for name in status(part)) == sorted(NAMES)
    whole = reconstruct_folder([folder], tmp_path / "whole", batch)
    for row in whole["volumes"]:
        one, other = images(out / row["output"]), images(tmp_path / "whole" / row["output"])
        for key in one:
            np.testing.assert_array_equal(one[key], other[key])
    together = reconstruct_folder([folder], out, batch)
    assert set(status(together).values()) == {"finished before"}
    assert all("psnr" in row for row in together["volumes"])


@pytest.mark.parametrize("text", ["0/3", "4/3", "1", "a/b", "1/0", "-1/3"])
def test_a_shard_is_one_of_n(text: str) -> None:
    with pytest.raises(ConfigError, match="such as 3/16"):
        Shard.of(text)


def test_inputs_keep_folders_and_never_share_a_result(folder: Path, tmp_path: Path) -> None:
    def names(*sources: Path) -> list[str]:
        return [item.result for item in found_inputs(sources, out=tmp_path)]

    assert names(folder) == [f"{name[:-3]}.recon.h5" for name in NAMES]
    assert names(folder / "*" / "one.h5") == ["a/one.recon.h5", "b/one.recon.h5"]
    assert names(folder / "**" / "t*.h5") == ["a/two.recon.h5", "b/three.recon.h5"]
    assert names(folder / "a" / "one.h5", folder / "a") == ["one.recon.h5", "two.recon.h5"]
    clash = names(folder / "a" / "one.h5", folder / "b" / "one.h5")
    assert len(set(clash)) == 2
    assert all(name.endswith("/one.recon.h5") for name in clash)
    shutil.copy(folder / "a" / "one.h5", tmp_path / "x.h5")
    shutil.copy(folder / "a" / "one.h5", tmp_path / "x.hdf5")
    alike = [item.result for item in found_inputs([tmp_path], out=tmp_path / "o")]
    assert alike == [
        "x.h5.recon.h5",
        "x.hdf5.recon.h5",
    ]
    assert found_inputs([tmp_path, folder], out=tmp_path)[0].path.parent != tmp_path
    with pytest.raises(DataError, match="no file matches"):
        names(folder / "*.mrd")
    with pytest.raises(DataError, match=r"\.npz"):
        found_inputs([tmp_path], out=tmp_path)
    assert is_many([folder])
    assert not is_many([folder / "a" / "one.h5"])


def test_one_writer_for_a_folder_of_results(folder: Path, tmp_path: Path) -> None:
    with (
        exclusive(tmp_path / "out", lambda text: None),
        pytest.raises(OutputError, match="at work"),
    ):
        reconstruct_folder([folder], tmp_path / "out", Batch(Options(method="zero-filled"), R4))


def test_misuse_is_refused_before_any_work(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recon", str(folder), "--method", "tv"]) == 2
    assert "-o FOLDER" in capsys.readouterr().err
    assert main(["recon", str(folder), "-o", str(tmp_path / "o"), "--model", "no-such-model"]) == 2
    assert not (tmp_path / "o").exists()
    with pytest.raises(BayesMRIError, match="a file"):
        reconstruct_folder([folder], folder / "notes.txt", Batch(Options()))
