"""Options of commands: short forms that all share, and one line for an option that could mean nothing."""

from pathlib import Path

import pytest

from bayesmri.checkpoint import save_model
from bayesmri.cli import main
from bayesmri.config import dump_toml
from study_runs import tiny
from training_runs import tiny as tiny_training


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
