"""A long evaluation in parts: rows of earlier results are taken over where nothing they depend on has changed."""

import json
from pathlib import Path
from typing import Any

import pytest

from bayesmri.cli import main
from bayesmri.errors import ConfigError, DataError
from bayesmri.evaluation.publish import publish
from bayesmri.evaluation.request import Publication, Study
from bayesmri.evaluation.table import evaluate, evaluate_to
from bayesmri.recon.files import PhantomRequest, simulate_file


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    data = tmp_path / "data"
    data.mkdir()
    for name in ("one", "two"):
        simulate_file(PhantomRequest("head", "PD", (40, 36), slices=3), data / f"{name}.h5", coils=2, snr_db=30, seed=1)
    return data


def altered(results: Path, psnr: float) -> None:
    """Rows that only reuse could bring back."""
    record = json.loads(results.read_text())
    for row in record["rows"]:
        row["psnr"] = psnr
    results.write_text(json.dumps(record))


def psnr(result: dict[str, Any]) -> dict[tuple[str, float, str], float]:
    return {(row["method"], row["acceleration"], row["file"]): row["psnr"] for row in result["rows"]}


def test_what_is_known_is_taken_over_and_the_rest_computed(folder: Path, tmp_path: Path) -> None:
    part, study = tmp_path / "part.json", Study(folder, ("zero-filled", "tv"), (4.0, 8.0))
    evaluate_to(Study(folder, ("zero-filled",), (4.0,)), part)
    altered(part, 99.0)
    found, fresh = psnr(evaluate(study, reuse=[part])), psnr(evaluate(study))
    assert found.keys() == fresh.keys()
    for key, value in found.items():
        assert value == (99.0 if key[:2] == ("zero-filled", 4.0) else fresh[key])


def test_the_page_says_that_its_seconds_are_of_several_runs(folder: Path, tmp_path: Path) -> None:
    part, study = tmp_path / "part.json", Study(folder, ("zero-filled",), slices=1)
    evaluate_to(study, part)
    assert "earlier evaluations" not in part.with_suffix(".md").read_text()
    evaluate_to(study, tmp_path / "all.json", reuse=[part])
    page = (tmp_path / "all.md").read_text()
    assert "seconds are those of several runs" in page
    assert "only the middle slice." in page


def test_another_file_of_the_same_name_is_computed(folder: Path, tmp_path: Path) -> None:
    part, study = tmp_path / "part.json", Study(folder, ("zero-filled",))
    evaluate_to(study, part)
    altered(part, 99.0)
    two = folder / "two.h5"
    two.unlink()
    simulate_file(PhantomRequest("head", "PD", (40, 36)), two, coils=2, snr_db=30, seed=2)
    found = psnr(evaluate(study, reuse=[part]))
    assert found["zero-filled", 4.0, "one.h5"] == 99
    assert found["zero-filled", 4.0, "two.h5"] == psnr(evaluate(study))["zero-filled", 4.0, "two.h5"]


def test_the_same_file_under_another_name_is_computed(folder: Path, tmp_path: Path) -> None:
    """Masks follow the names of files: a renamed one is undersampled anew."""
    part, study = tmp_path / "part.json", Study(folder, ("zero-filled",))
    evaluate_to(study, part)
    altered(part, 99.0)
    (folder / "two.h5").rename(folder / "three.h5")
    found, fresh = psnr(evaluate(study, reuse=[part])), psnr(evaluate(study))
    assert found["zero-filled", 4.0, "one.h5"] == 99
    assert found["zero-filled", 4.0, "three.h5"] == fresh["zero-filled", 4.0, "three.h5"]


@pytest.mark.parametrize(
    ("change", "words"), [({"seed": 1}, "seed = 0, not 1"), ({"slices": 1}, "slices = None, not 1")]
)
def test_results_of_other_settings_are_refused(
    folder: Path, tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    part = tmp_path / "part.json"
    evaluate_to(Study(folder, ("zero-filled",)), part)
    with pytest.raises(DataError, match=words):
        evaluate(Study(folder, ("zero-filled",), **change), reuse=[part])


@pytest.mark.parametrize(
    "text",
    ["", "{}", '{"rows": 3, "provenance": {"inputs": []}}', "[1]", "[" * 100_000, '{"rows": [' + '"x",' * 100_000],
)
def test_what_is_no_result_is_one_line(
    folder: Path, tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    part, out = tmp_path / "part.json", tmp_path / "out.json"
    part.write_text(text)
    argv = ["evaluate", "--data", str(folder), "--reuse", str(part), "-o", str(out)]
    assert main(argv) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert len(said) < 200
    assert not out.exists()


def test_a_scan_in_place_of_a_result_is_one_short_line(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its bytes are no text, and none of them are printed."""
    scan, out = folder / "one.h5", tmp_path / "out.json"
    assert main(["evaluate", "--data", str(folder), "--reuse", str(scan), "-o", str(out)]) == 2
    said = capsys.readouterr().err
    assert said == "bayesmri: one.h5 is no results file (it is not text), expected the .json of bayesmri evaluate\n"
    with pytest.raises(DataError, match=r"one\.h5 is not a result .*\(it is not text\)") as caught:
        publish(Publication(tmp_path, "mine", tmp_path, results=scan))
    assert len(str(caught.value)) < 200
    assert not out.exists()


def test_the_middle_slices_alone_are_judged(folder: Path) -> None:
    middle = evaluate(Study(folder, ("zero-filled",), slices=1))
    assert {row["slices"] for row in middle["rows"]} == {1}
    assert "--slices 1" in middle["command"]
    assert psnr(middle) != psnr(evaluate(Study(folder, ("zero-filled",))))
    with pytest.raises(ConfigError, match="0 slices"):
        Study(folder, slices=0)
