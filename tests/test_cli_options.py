"""Options of commands: short forms that all share, and one line for an option that could mean nothing."""

from pathlib import Path

import pytest

from bayesmri import zoo
from bayesmri.checkpoint import save_model
from bayesmri.cli import main
from bayesmri.config import dump_toml
from bayesmri.recon.files import PhantomRequest, simulate_file
from study_runs import tiny
from training_runs import tiny as tiny_training


def refused(argv: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Exit code 2, nothing on stdout, one line on stderr."""
    capsys.readouterr()
    assert main(argv) == 2
    out, said = capsys.readouterr()
    assert out == ""
    assert said.startswith("bayesmri: ")
    assert said.count("\n") == 1
    return said


@pytest.fixture
def scan(tmp_path: Path) -> Path:
    simulate_file(PhantomRequest("head", "PD", (32, 36)), tmp_path / "scan.h5", snr_db=30, seed=1)
    return tmp_path / "scan.h5"


@pytest.mark.parametrize("word", ["-o", "--out"])
def test_the_output_of_train_has_a_short_name(word: str, tmp_path: Path) -> None:
    config, run = tmp_path / "tiny.toml", tmp_path / "run"
    config.write_text(dump_toml(tiny_training(train={"iterations": 2})), encoding="utf-8")
    assert main(["train", str(config), word, str(run), "--optimizer.lr", "2e-3"]) == 0
    assert (run / "metrics.jsonl").is_file()


@pytest.mark.parametrize("word", ["-o", "--out"])
def test_the_output_of_publish_has_a_short_name(word: str, tmp_path: Path) -> None:
    save_model(tmp_path / "mine.json", tiny())
    assert main(["publish", str(tmp_path / "mine.json"), "tdv-mine", word, str(tmp_path / "models")]) == 0
    assert (tmp_path / "models" / "tdv-mine.json").is_file()


def test_samples_want_a_method_that_can_be_sampled(
    scan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(zoo, "FOLDER", tmp_path)  # fixed, and the family of drawn and fixed
    for name, width in (("fixed", None), ("drawn", 0.02)):
        save_model(tmp_path / f"{name}.json", tiny(width=width))
    argv = ["evaluate", "--data", str(scan), "--samples", "2", "-o", str(tmp_path / "results.json"), "--methods"]
    for methods in ("zero-filled,tv", "tv,fixed", f"{tmp_path / 'fixed.json'}"):
        assert "samples with methods of which none has a posterior" in refused([*argv, methods], capsys)
    assert not (tmp_path / "results.json").exists()
    for methods in ("zero-filled,drawn", "fixed,drawn"):
        assert main([*argv, methods, "--force"]) == 0
        assert "drawn, mean of 2" in capsys.readouterr().out


@pytest.mark.parametrize("tracks", [["multi"], ["single", "multi"]])
@pytest.mark.parametrize("coils", ["1", "0"])
def test_an_array_of_one_coil_is_refused(
    tracks: list[str], coils: str, scan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "results.json"
    argv = ["evaluate", "--data", str(scan), "--methods", "zero-filled", "-o", str(out), "--track", *tracks]
    said = refused([*argv, "--coils", coils], capsys)
    assert f"got --coils {coils} with the multi-coil track, expected at least 2" in said
    assert not out.exists()
    assert main([*argv, "--coils", "2"]) == 0
    assert main([*argv, "--force"]) == 0


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--model", "x"], "--model"),
        (["--data", "x"], "--data"),
        (["--acceleration", "4"], "--acceleration"),
        (["--slices", "1"], "--slices"),
        (["--reference", "256"], "--reference"),
        (["--seed", "0"], "--seed"),
        (["--seed", "1", "--slices", "2"], "--slices and --seed"),
    ],
)
def test_options_of_the_other_bench_are_refused(
    options: list[str], named: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where they say what is the case without them."""

    def measure(*_: object, **__: object) -> None:
        pytest.fail("measured all the same")

    monkeypatch.setattr("bayesmri.benchmarks.speed.bench", measure)
    assert f"got {named} without --uncertainty" in refused(["bench", *options], capsys)
