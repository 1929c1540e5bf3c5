"""One volume that cannot be done ends no evaluation and no calibration: it is left out, and said to be."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import bayesmri
from bayesmri.baselines.unet import UNetConfig
from bayesmri.checkpoint import load_model, save_model
from bayesmri.cli import main
from bayesmri.errors import DataError
from bayesmri.evaluation.calibrate import calibrate
from bayesmri.evaluation.cohort import Loaded
from bayesmri.evaluation.request import Study, Wanted
from bayesmri.evaluation.table import evaluate, means
from bayesmri.model import Coils, Model, build
from bayesmri.recon.files import PhantomRequest, simulate_file
from study_runs import save_heads, tiny

R = 24.0  # of 10 lines it keeps none


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """a and c can be done by everybody; b is too small for `pooled`; narrow, too, and has no mask at R = 24."""
    folder = tmp_path_factory.mktemp("volumes")
    for seed, (name, shape) in enumerate({"a": (32, 36), "b": (12, 30), "c": (24, 40), "narrow": (30, 10)}.items()):
        simulate_file(PhantomRequest("head", "PD", shape), folder / f"{name}.h5", snr_db=30, seed=seed)
    return folder


@pytest.fixture(scope="module")
def pooled(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A U-Net that halves images three times."""
    network = build(UNetConfig(features=2, pools=3), torch.Generator().manual_seed(0))
    path = tmp_path_factory.mktemp("model") / "pooled.json"
    save_model(path, Model(network, 0.0, 1, Coils()))
    return str(path)


def files(result: dict[str, Any], **facts: Any) -> list[str]:
    """Of the rows with these facts."""
    return [row["file"] for row in result["rows"] if facts.items() <= row.items()]


def test_a_volume_without_a_mask_is_left_out_of_that_acceleration_alone(data: Path) -> None:
    result = evaluate(Study(data, ("zero-filled", "tv"), (4.0, R)))
    for method in ("zero-filled", "tv"):
        assert files(result, method=method, acceleration=4.0) == ["a.h5", "b.h5", "c.h5", "narrow.h5"]
        assert files(result, method=method, acceleration=R) == ["a.h5", "b.h5", "c.h5"]
    (line,) = result["skipped"]
    assert line.startswith("narrow.h5, R = 24: R=24 keeps none of 10 lines")


def test_what_one_method_cannot_do_is_left_out_for_all(data: Path, pooled: str) -> None:
    result = evaluate(Study(data, ("zero-filled", pooled, "tv")))
    for method in ("zero-filled", "pooled", "tv"):
        assert files(result, method=method) == ["a.h5", "c.h5"]
    assert {row["volumes"] for row in means(result["rows"])} == {2}
    small, narrow = result["skipped"]
    assert small.startswith("b.h5, R = 4: left out for all methods, since pooled cannot do it: got an image of 12 x 30")
    assert narrow.startswith(
        "narrow.h5, R = 4: left out for all methods, since pooled cannot do it: got an image of 30 x 10"
    )
    alone = evaluate(Study(data, ("zero-filled",)))
    assert files(alone) == ["a.h5", "b.h5", "c.h5", "narrow.h5"]
    known = {row["file"]: row["psnr"] for row in alone["rows"]}
    for row in result["rows"]:
        if row["method"] == "zero-filled":
            assert row["psnr"] == known[row["file"]]


def test_a_method_that_can_do_nothing_in_a_setting_leaves_a_gap_and_the_others_their_volumes(
    data: Path, pooled: str
) -> None:
    result = evaluate(Study(data, ("zero-filled", pooled), tracks=("single", "multi")))
    assert files(result, track="single", method="pooled") == files(result, track="single", method="zero-filled")
    assert files(result, track="multi", method="pooled") == []
    assert files(result, track="multi", method="zero-filled") == ["a.h5", "b.h5", "c.h5", "narrow.h5"]
    assert any(line.startswith("pooled, multi-coil: got data of 8 coils for") for line in result["skipped"])
    assert any(line.startswith("b.h5, single-coil, R = 4: left out for all methods") for line in result["skipped"])


def test_only_where_nothing_is_left_it_is_an_error(
    data: Path, pooled: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "results.json"

    def refused(name: str, *more: str) -> str:
        capsys.readouterr()
        assert main(["evaluate", "--data", str(data / name), "-o", str(out), *more]) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert not out.exists()
        return said

    assert "can be judged: narrow.h5, R = 24: R=24 keeps none" in refused("narrow.h5", "--acceleration", "24")
    assert "pooled: got an image of 12 x 30" in refused("b.h5", "--methods", f"zero-filled,{pooled}")
    assert "got an acceleration of 0.5, expected a number of at least 1" in refused("", "--acceleration", "4", "0.5")
    assert "got a center fraction of 2, expected a share" in refused("", "--center-fraction", "2")


def test_methods_without_a_volume_in_common_are_refused(data: Path, tmp_path: Path) -> None:
    models = []
    for name, Q in (("one", 1), ("two", 2)):
        models.append(str(tmp_path / f"{name}.json"))
        save_model(tmp_path / f"{name}.json", replace(tiny(Q), coils=Coils("raw", Q)))
        simulate_file(PhantomRequest("head", "PD", (24, 26)), tmp_path / "data" / f"{name}.h5", coils=Q, snr_db=30)
    with pytest.raises(DataError, match=r"can be done by all methods, give fewer: one\.h5, R = 4: left out"):
        evaluate(Study(tmp_path / "data", tuple(models)))
    assert files(evaluate(Study(tmp_path / "data", (models[0], "tv")))) == ["one.h5", "one.h5"]


def test_the_results_and_the_terminal_say_who_is_left_out(
    data: Path, pooled: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "results.json"
    argv = ["evaluate", "--data", str(data), "--methods", f"zero-filled,{pooled}", "-o", str(out), "--acceleration"]
    assert main([*argv, "4", "24"]) == 0
    told, said = capsys.readouterr()
    assert "means over 2 volumes\n" in told
    assert "skipped b.h5, R = 4: left out for all methods, since pooled cannot do it" in said
    assert "skipped narrow.h5, R = 24: R=24 keeps none of 10 lines" in said
    record = json.loads(out.read_text())
    assert len(record["skipped"]) == 4
    assert [entry["name"] for entry in record["provenance"]["inputs"]] == ["a.h5", "c.h5"]
    page = out.with_suffix(".md").read_text()
    assert "## Left out" in page
    assert "- b.h5, R = 4: left out for all methods" in page
    assert main([*argv, "4", "--json", "--force"]) == 0
    told, said = capsys.readouterr()
    assert json.loads(told)["skipped"] == [line for line in record["skipped"] if ", R = 4: " in line]
    assert said.count("skipped ") == 2


def test_the_table_says_where_settings_differ(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["evaluate", "--data", str(data), "--methods", "zero-filled", "-o", str(tmp_path / "r.json")]
    assert main([*argv, "--acceleration", "4", "24"]) == 0
    assert "means over 4 volumes at R = 4, 3 volumes at R = 24\n" in capsys.readouterr().out


@pytest.fixture
def heads(tmp_path: Path) -> Path:
    """Five subjects of 40 lines, and one of 10."""
    save_heads(tmp_path / "heads", 5)
    simulate_file(PhantomRequest("head", "PD", (30, 10)), tmp_path / "heads" / "narrow.h5", snr_db=30, seed=7)
    return tmp_path / "heads"


def test_a_volume_without_a_mask_is_left_out_of_a_calibration(
    heads: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_model(tmp_path / "tiny.json", tiny())
    argv = ["calibrate", str(tmp_path / "tiny.json"), "--data", str(heads), "--level", "0.8", "--samples", "2"]
    argv += ["--acceleration", "24"]
    assert main([*argv, "-o", str(tmp_path / "with.json")]) == 0
    told, said = capsys.readouterr()
    assert "6 volumes of 5 subjects" in told
    assert "skipped narrow.h5: R=24 keeps none of 10 lines" in said
    (heads / "narrow.h5").unlink()
    assert main([*argv, "-o", str(tmp_path / "without.json")]) == 0
    (with_it,), (without,) = (load_model(tmp_path / f"{n}.json").calibrations for n in ("with", "without"))
    assert (with_it.factor, with_it.coverage) == (without.factor, without.coverage)
    assert with_it.provenance["inputs"] == without.provenance["inputs"]


def test_the_record_of_a_calibration_names_what_is_left_out(
    heads: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_model(tmp_path / "tiny.json", tiny())
    argv = ["calibrate", str(tmp_path / "tiny.json"), "--data", str(heads), "--level", "0.8", "--samples", "2"]
    assert main([*argv, "--acceleration", "24", "--json"]) == 0
    told, said = capsys.readouterr()
    (line,) = json.loads(told)["skipped"]
    assert line.startswith("narrow.h5: R=24 keeps none of 10 lines")
    assert f"skipped {line}\n" in said


def test_an_array_that_the_model_does_not_take_is_left_out_of_a_calibration(tmp_path: Path) -> None:
    for seed, coils in enumerate((2, 2, 3, 2, 2)):
        path = tmp_path / f"{coils}coils{seed}.h5"
        simulate_file(PhantomRequest("head", "PD", (24, 26)), path, coils=coils, snr_db=30, seed=seed)
    loaded = Loaded("raw", Path(), replace(tiny(2), coils=Coils("raw", 2)))
    found, facts = calibrate(loaded, Wanted(tmp_path, level=0.8, samples=2))
    assert (found.subjects, found.setting.arrays) == (4, (2, 2))
    (line,) = facts["skipped"]
    assert line.startswith("3coils2.h5: got data of 3 coils for a model of 2 raw coils")
    with pytest.warns(UserWarning, match=r"left out of the calibration: 3coils2\.h5: got data of 3 coils for"):
        assert bayesmri.calibrate(loaded.model, tmp_path, level=0.8, samples=2).calibrations[0].factor == found.factor
    (tmp_path / "2coils0.h5").unlink()
    (tmp_path / "2coils1.h5").unlink()
    with pytest.raises(
        DataError, match=r"2 fully sampled volumes of 2 subjects .*left out: 3coils2\.h5: got data of 3"
    ):
        calibrate(loaded, Wanted(tmp_path, level=0.8, samples=2))


def test_a_calibration_with_nothing_left_says_why(
    heads: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_model(tmp_path / "tiny.json", tiny())
    argv = ["calibrate", str(tmp_path / "tiny.json"), "--samples", "2", "-o", str(tmp_path / "out.json"), "--data"]
    for data, more, words in (
        (heads / "narrow.h5", ["--acceleration", "24"], "left out: narrow.h5: R=24 keeps none of 10 lines"),
        (heads, ["--acceleration", "1000"], "left out: head0.h5: R=1000 keeps none of 40 lines"),
        (heads, ["--acceleration", "0.5"], "got an acceleration of 0.5, expected a number of at least 1"),
        (heads, ["--acceleration", "0"], "got an acceleration of 0, expected a number of at least 1"),
    ):
        assert main([*argv, str(data), *more]) == 2
        said = capsys.readouterr().err
        assert words in said
        assert said.count("\n") == 1
    loaded = Loaded("raw", Path(), replace(tiny(2), coils=Coils("raw", 2)))
    with pytest.raises(DataError, match=r"no volume in .* can be calibrated with: head0\.h5: got data of 1 coil for"):
        calibrate(loaded, Wanted(heads, level=0.8, samples=2))
    assert not (tmp_path / "out.json").exists()
