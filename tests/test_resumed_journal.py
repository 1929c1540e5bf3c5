"""A run that was stopped or killed and went on leaves the journal of one that was not, and no path from the root."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from bayesmri.checkpoint import load_checkpoint
from bayesmri.runs import checkpoints
from bayesmri.training.journal import JOURNAL, TIMES, journal_lines
from bayesmri.training.run_folder import train
from training_runs import tiny, write_images


def silent(event: str, values: dict[str, Any]) -> None:
    """Nobody listens."""


def test_a_journal_after_resumes_is_that_of_a_straight_run(tmp_path: Path) -> None:
    """Stopped by a signal between two reports, then cut off after a checkpoint, as kill -9 would."""
    config = tiny(train={"iterations": 11, "log_every": 4, "checkpoint_every": 3, "val_every": 4, "keep": 9})
    train(config, tmp_path / "straight", say=silent)
    halves = tmp_path / "halves"

    def stop(event: str, values: dict[str, Any]) -> None:
        if event == "log" and values["step"] == 4:
            os.kill(os.getpid(), signal.SIGINT)

    assert train(config, halves, say=stop)["ended"] == "signal"
    assert any(line.get("early") for line in journal_lines(halves / JOURNAL))
    train(config, halves, resume=True, say=silent)
    assert (halves / JOURNAL).read_bytes() == (tmp_path / "straight" / JOURNAL).read_bytes()
    for path in checkpoints(halves):
        if int(path.stem[5:]) > 6:
            for file in halves.glob(f"checkpoints/{path.stem}*"):
                file.unlink()
    train(config, halves, resume=True, say=silent)
    assert (halves / JOURNAL).read_bytes() == (tmp_path / "straight" / JOURNAL).read_bytes()
    train(config, halves, resume=True, say=silent)  # nothing is left to do
    assert (halves / JOURNAL).read_bytes() == (tmp_path / "straight" / JOURNAL).read_bytes()
    assert {4, 8, 11} <= {line["step"] for line in journal_lines(halves / TIMES)}


def test_nothing_of_a_run_names_a_folder_from_the_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    for i in range(3):
        write_images(tmp_path / "data" / f"{i}.h5", subject=str(i))
    config = tiny(data={"sources": [{"path": str(tmp_path / "data")}]}, train={"iterations": 2})
    train(config, Path("run"), say=silent)
    for file in Path("run").rglob("*"):
        assert not file.is_file() or str(tmp_path).encode() not in file.read_bytes()
    (last,) = checkpoints(Path("run"))
    assert load_checkpoint(last).facts["config"]["data"]["sources"][0]["path"] == "data"
    notes: list[str] = []
    more = tiny(data={"sources": [{"path": str(tmp_path / "data")}]}, train={"iterations": 4})
    train(more, Path("run"), resume=True, say=lambda event, values: notes.append(str(values.get("text"))))
    assert not any("data.sources" in note for note in notes)
