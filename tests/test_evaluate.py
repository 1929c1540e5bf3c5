"""One table for all methods: the same data for each, rows that can be checked, tables that can be printed."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from bayesmri.checkpoint import save_model
from bayesmri.cli import main
from bayesmri.errors import ConfigError, DataError, ModelError
from bayesmri.evaluation.request import Study
from bayesmri.evaluation.table import derived_seed, evaluate, means
from bayesmri.model import Coils, Model
from bayesmri.physics.scaling import Scaling
from bayesmri.recon.acquisition import Sampling
from bayesmri.recon.files import PhantomRequest, reconstruct_file, simulate_file
from bayesmri.recon.request import Options
from bayesmri.regularizers.tdv import TDV, TDVConfig
from bayesmri.report.tables import latex, markdown, text
from reader_files import bart_kspace, write_cfl, write_dicom

KEYS = {"method", "acceleration", "file", "coils", "psnr", "nmse", "ssim", "seconds", "parameters"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    data = tmp_path / "data"
    for name, coils in (("one", 1), ("three", 3)):
        simulate_file(PhantomRequest("head", "PD", (40, 36)), data / f"{name}.h5", coils=coils, snr_db=30, seed=coils)
    with h5py.File(data / "images.h5", "w") as file:
        file["image"] = np.random.default_rng(0).integers(0, 4096, (2, 32, 33)).astype(np.uint16)
    return data


def model(folder: Path, *, mode: str = "raw", Q: int = 1) -> Path:
    reg = TDV(TDVConfig(Q=Q, features=4, macroblocks=1, scales=2, init="positive"), torch.Generator().manual_seed(0))
    coils = Coils(mode, Q)  # type: ignore[arg-type]
    save_model(folder / "tiny.json", Model(reg, T=2.0, S=3, coils=coils, scaling=Scaling(gain=20.0)))
    return folder / "tiny.json"


def test_every_method_sees_the_same_data(folder: Path) -> None:
    result = evaluate(Study(folder, ("zero-filled", "tv"), (4.0, 8.0), seed=3))
    rows = result["rows"]
    assert len(rows) == 3 * 2 * 2
    assert all(set(row) >= KEYS for row in rows)
    again = evaluate(Study(folder, ("tv", "zero-filled"), (8.0,), seed=3))["rows"]
    first = {(r["method"], r["acceleration"], r["file"]): r["psnr"] for r in rows}
    for row in again:
        assert row["psnr"] == first[row["method"], row["acceleration"], row["file"]]
    other = evaluate(Study(folder, ("zero-filled",), (8.0,), seed=4))["rows"]
    assert other[0]["psnr"] != first["zero-filled", 8.0, other[0]["file"]]


def test_models_of_one_name_keep_their_own_rows(folder: Path, tmp_path: Path) -> None:
    paths = [str(model(tmp_path / name)) for name in ("a", "b")]
    rows = evaluate(Study(folder / "one.h5", ("tv", "tv", *paths)))["rows"]
    assert [row["method"] for row in rows] == ["tv", *paths]
    assert [row["method"] for row in means(rows)] == ["tv", *paths]


def test_a_pair_and_a_series_are_one_volume_each(tmp_path: Path) -> None:
    pytest.importorskip("pydicom")
    write_cfl(tmp_path / "bart", bart_kspace(24, 25, 2))
    (tmp_path / "series").mkdir()
    for i in range(3):
        pixels = np.full((20, 22), 100 + i, np.uint16)
        write_dicom(
            tmp_path / "series" / f"{i}.dcm", pixels, InstanceNumber=i, ImagePositionPatient=[0.0, 0.0, 5.0 * i]
        )
    rows = evaluate(Study(tmp_path, ("zero-filled",)))["rows"]
    assert {(row["file"], row["slices"]) for row in rows} == {("bart.cfl", 1), ("series", 3)}
    assert len(rows) == 2


def test_coils_follow_the_study(folder: Path) -> None:
    measured = {row["file"]: row["coils"] for row in evaluate(Study(folder, ("zero-filled",), coils=5))["rows"]}
    assert measured == {"images.h5": 5, "one.h5": 1, "three.h5": 3}
    single = evaluate(Study(folder, ("zero-filled",), single_coil=True))["rows"]
    assert {row["coils"] for row in single} == {1}


def test_a_model_is_a_method(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = model(tmp_path), tmp_path / "results.json"
    argv = ["evaluate", "--data", str(folder), "--methods", f"zero-filled,{path}", "--acceleration", "4", "8"]
    assert main([*argv, "--single-coil", "-o", str(out)]) == 0
    assert "tiny" in capsys.readouterr().out
    result = json.loads(out.read_text())
    rows = [row for row in result["rows"] if row["method"] == "tiny"]
    assert len(rows) == 6
    assert {row["parameters"] for row in rows} == {
        Model(TDV(TDVConfig(1, 4, 1, 2), torch.Generator()), 1, 1).n_parameters
    }
    assert len(result["provenance"]["inputs"]) == 3
    assert "\n| method | parameters | PSNR R=4" in out.with_suffix(".md").read_text()
    assert out.with_suffix(".tex").read_text().startswith("\\begin{tabular}")


def test_reconstructing_a_file_with_a_model(folder: Path, tmp_path: Path) -> None:
    path = model(tmp_path, mode="virtual", Q=2)
    made = reconstruct_file(folder / "three.h5", tmp_path / "o.h5", Options(model=str(path)), Sampling(acceleration=4))
    assert made["method"] == "tiny"
    assert set(made["metrics"]) == {"zero-filled", "tiny"}


def test_a_wrong_number_of_coils_is_refused_with_the_fix(folder: Path, tmp_path: Path) -> None:
    options = Options(model=str(model(tmp_path)))
    with pytest.raises(ModelError, match="combine the coils to one"):
        reconstruct_file(folder / "three.h5", tmp_path / "o.h5", options, Sampling(acceleration=4))
    one = Options(model=str(model(tmp_path)), single_coil=True)
    made = reconstruct_file(folder / "three.h5", tmp_path / "o.h5", one, Sampling(acceleration=4))
    assert made["coils"] == 1
    with pytest.raises(ConfigError, match="leave them out"):
        reconstruct_file(folder / "one.h5", tmp_path / "p.h5", Options(model=str(model(tmp_path)), coils=2))


def test_means_and_tables() -> None:
    rows = [
        {"method": m, "acceleration": R, "psnr": p, "nmse": 0.1, "ssim": 0.5, "seconds": 1.0, "parameters": 7}
        for m, R, p in (("a_b", 4.0, 30.0), ("a_b", 4.0, 20.0), ("a_b", 8.0, 10.0), ("c", 4.0, 1.0))
    ]
    table = means(rows)
    assert [(r["method"], r["acceleration"], r["psnr"], r["volumes"]) for r in table] == [
        ("a_b", 4.0, 25.0, 2),
        ("a_b", 8.0, 10.0, 1),
        ("c", 4.0, 1.0, 1),
    ]
    assert "| a_b | 7 | 25.00 | 0.1000 | 0.5000 | 1.0 | 10.00 |" in markdown(table)
    assert "a\\_b & 7 & 25.00" in latex(table)
    odd = [{**row, "method": "50%_#1|&"} for row in table[:2]]
    assert "\n50\\%\\_\\#1|\\& & 7 & 25.00" in latex(odd)
    assert "| 50%_#1\\|& | 7 | 25.00" in markdown(odd)
    lines = text(table).splitlines()
    assert len({len(line) for line in lines}) == 1


def test_what_cannot_be_judged_is_named(folder: Path, tmp_path: Path) -> None:
    (folder / "notes.txt").write_text("not an image")
    result = evaluate(Study(folder, ("zero-filled",)))
    assert len(result["rows"]) == 3
    assert [line.split(":")[0] for line in result["skipped"]] == ["notes.txt"]
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(DataError, match="no files"):
        evaluate(Study(empty))
    with pytest.raises(ConfigError, match="no method"):
        evaluate(Study(folder, ()))
    with pytest.raises(ModelError, match="does not exist"):
        evaluate(Study(folder, ("banana",)))


def test_seeds_are_derived_from_all_their_parts() -> None:
    assert derived_seed(1, "a", "4") == derived_seed(1, "a", "4")
    assert len({derived_seed(1, "a", "4"), derived_seed(1, "a", "8"), derived_seed(2, "a", "4")}) == 3
