"""Curves of trainings: parts one after the other, numbers that draw the same figure again, bad input in one line."""

import json
from pathlib import Path

import pytest

from bayesmri.cli import main
from bayesmri.errors import DataError
from bayesmri.evaluation.curves import draw_curves, training_curve
from bayesmri.io.provenance import sha256


def run(folder: Path, losses: list[float], *, gain: float, seconds: float = 36.0) -> Path:
    """A journal of one line every 10 updates, each followed by a validation that is better by `gain`."""
    folder.mkdir(parents=True)
    lines: list[dict[str, object]] = []
    for i, loss in enumerate(losses, start=1):
        lines.append({"kind": "train", "step": 10 * i, "loss": loss, "elapsed": seconds * i})
        lines.append({"kind": "val", "step": 10 * i, "psnr": 25 + gain * i, "psnr_zero_filled": 25.0, "ssim": 0.5})
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"kind": "tr')
    return folder


def test_parts_follow_one_another(tmp_path: Path) -> None:
    parts = [run(tmp_path / "a", [3.0, 2.0], gain=1), run(tmp_path / "b", [1.5], gain=4)]
    made = training_curve(parts)
    assert made["name"] == "b"
    ended = [(part["name"], part["updates"], part["hours"]) for part in made["runs"]]
    assert ended == [("a", 20, 0.02), ("b", 10, 0.01)]
    losses = [(p["update"], p["hours"], p["loss"]) for p in made["loss"]]
    assert losses == [(10, 0.01, 3.0), (20, 0.02, 2.0), (30, 0.03, 1.5)]
    assert [(p["update"], p["psnr"]) for p in made["validation"]] == [(10, 26), (20, 27), (30, 29)]


def test_numbers_draw_the_same_figure_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b, c = (run(tmp_path / name, [2.0, 1.0], gain=gain) for name, gain in (("a", 1.0), ("b", 2.0), ("c", -1.0)))
    first = tmp_path / "one.png"
    assert main(["curves", f"whole={a}+{b}", str(c), "-o", str(first)]) == 0
    told = capsys.readouterr().out
    assert [line.split() for line in told.splitlines()[1:3]] == [
        ["whole", "2", "40", "0.04", "25.00", "29.00", "29.00", "0.04"],
        ["c", "1", "20", "0.02", "25.00", "23.00", "24.00", "0.01"],
    ]
    assert str(tmp_path) not in first.with_suffix(".json").read_text()
    assert main(["curves", str(first.with_suffix(".json")), "-o", str(tmp_path / "two.png")]) == 0
    assert first.read_bytes() == (tmp_path / "two.png").read_bytes()
    assert first.read_bytes().startswith(b"\x89PNG")
    numbers, again = (json.loads((tmp_path / name).read_text()) for name in ("one.json", "two.json"))
    assert numbers["curves"] == again["curves"]
    assert numbers["provenance"]["config"] == {"whole": ["a", "b"], "c": ["c"]}
    journals = [{"name": "metrics.jsonl", "sha256": sha256(folder / "metrics.jsonl")} for folder in (a, b, c)]
    assert numbers["provenance"]["inputs"] == journals
    assert again["provenance"]["inputs"] == [{"name": "one.json", "sha256": sha256(tmp_path / "one.json")}]


def test_a_run_without_validation(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    (folder / "metrics.jsonl").write_text('{"kind": "train", "step": 5, "loss": 1.0, "elapsed": 60}\n')
    _, text = draw_curves([str(folder)], tmp_path / "x.png")
    assert text.splitlines()[1].split()[-4:] == ["none"] * 4


@pytest.mark.parametrize("content", ["", "{}", '{"curves": [{}]}', '{"curves": 3}', "\x00"])
def test_foreign_numbers_are_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(DataError, match="holds no curves"):
        draw_curves([str(tmp_path / "x.json")], tmp_path / "x2.png")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.json"]


@pytest.mark.parametrize(
    "line",
    ['{"kind": "train", "step": 5, "elapsed": 60}', '{"kind": "train", "step": 5, "loss": NaN, "elapsed": 60}'],
    ids=["no loss", "not a number"],
)
def test_a_journal_of_something_else_is_refused(tmp_path: Path, line: str) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    (folder / "metrics.jsonl").write_text(line + "\n")
    with pytest.raises(DataError, match="not the record of a training"):
        draw_curves([str(folder)], tmp_path / "x.png")
    numbers = tmp_path / "n.json"
    numbers.write_text('{"curves": [{"name": "a", "runs": [], "loss": [{}], "validation": []}]}')
    with pytest.raises(DataError, match="not the record of a training"):
        draw_curves([str(numbers)], tmp_path / "x.png")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "n.json"]


def test_what_is_not_a_run_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["curves", str(tmp_path), "-o", str(tmp_path / "x.png")]) == 2
    assert "holds no metrics.jsonl of a training" in capsys.readouterr().err
    assert main(["curves", "-o", str(tmp_path / "x.png")]) == 2
    assert "no run was named" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_curve_whose_runs_are_gone_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b, c = (run(tmp_path / name, [2.0, 1.0], gain=gain) for name, gain in (("a", 1.0), ("b", 2.0), ("c", -1.0)))
    draw_curves([f"whole={a}+{b}", str(c)], tmp_path / "straight.png")
    draw_curves([f"whole={a}", str(c)], tmp_path / "early.png")
    early = tmp_path / "early.json"
    numbers, _ = draw_curves([f"whole={early}+{b}", f"c={early}"], tmp_path / "later.png")
    assert numbers["curves"] == json.loads((tmp_path / "straight.json").read_text())["curves"]
    assert [entry["name"] for entry in numbers["provenance"]["inputs"]] == ["early.json", "metrics.jsonl", "early.json"]
    assert main(["curves", f"other={early}+{b}", "-o", str(tmp_path / "x.png")]) == 2
    assert "holds no curve 'other'" in capsys.readouterr().err
    assert main(["curves", f"{early}+{b}", "-o", str(tmp_path / "x.png")]) == 2
    assert "expected NAME= before it" in capsys.readouterr().err
    assert not (tmp_path / "x.png").exists()
