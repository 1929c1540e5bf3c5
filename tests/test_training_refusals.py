"""What a training cannot do is one line that is true and says what to do: divergence, masks, seeds, a full disk."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from bayesmri.cli import main
from bayesmri.config import dump_toml
from bayesmri.errors import DivergedError, MaskError, ModelError, OutputError
from bayesmri.runs import checkpoints, latest
from bayesmri.training import journal
from bayesmri.training.loop import _check_finite
from bayesmri.training.plan import plan
from bayesmri.training.run_folder import train
from training_runs import tiny


def silent(event: str, values: dict[str, Any]) -> None:
    """Nobody listens."""


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.toml"
    path.write_text(dump_toml(tiny()), encoding="utf-8")
    return path


def refused(argv: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Exit code 2, nothing on stdout, and the one line that complains."""
    capsys.readouterr()
    assert main(argv) == 2
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = [line for line in err.splitlines() if line.startswith("bayesmri: ")]
    return line


# divergence


def test_what_is_not_finite_is_named() -> None:
    good, bad = torch.ones(3), torch.tensor([1.0, float("nan")])
    _check_finite(1.0, {"a": good}, 4)
    with pytest.raises(DivergedError, match=r"^the gradient in b holds NaN or Inf, at a loss of 426\.76, at step 5: "):
        _check_finite(426.76, {"a": good, "b": bad}, 4)
    with pytest.raises(DivergedError, match=r"^the loss is nan at step 5: training diverged$"):
        _check_finite(float("nan"), {"a": bad}, 4)


def test_a_checkpoint_is_named_only_where_there_is_one(tmp_path: Path) -> None:
    wild = {"lr": 1e30, "lr_T": 1e30, "clip": 0.0}
    with pytest.raises(ModelError, match="no checkpoint was written yet: start again") as caught:
        train(tiny(optimizer=wild, train={"checkpoint_every": 100}), tmp_path / "none", say=silent)
    assert "resume" not in str(caught.value)
    assert latest(tmp_path / "none") is None
    train(tiny(train={"iterations": 2}), tmp_path / "run", say=silent)
    config = tiny(optimizer=wild, train={"checkpoint_every": 100})
    with pytest.raises(ModelError, match="--resume goes on from the checkpoint of step 2, with a lower "):
        train(config, tmp_path / "run", resume=True, say=silent)


# the dry run refuses what the training would


def test_a_mask_that_keeps_no_line_is_refused_dry_or_not(
    toml: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["train", str(toml), "--out", str(tmp_path / "run"), "--mask.acceleration", "100"]
    dry, real = refused([*argv, "--dry-run"], capsys), refused(argv, capsys)
    assert dry == real
    assert "R=100 keeps none of 24 lines" in dry


def test_every_acceleration_of_several_is_tried() -> None:
    for also in ([3.0, 100.0], [100.0, 3.0]):
        with pytest.raises(MaskError, match="R=100 keeps none"):
            plan(tiny(mask={"also": also}))
    json.dumps(plan(tiny(mask={"also": [3.0]})))


def test_a_negative_seed_is_refused_dry_or_not(toml: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["train", str(toml), "--out", str(tmp_path / "run"), "--seed", "-1"]
    for more in (["--dry-run"], []):
        assert "got seed -1, expected a whole number from 0" in refused([*argv, *more], capsys)
    assert not (tmp_path / "run").exists()


# a full disk


def test_a_disk_that_fills_up_names_the_file_and_keeps_the_last_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights find room, the training state of the second checkpoint does not."""
    full = 3

    def limited(path: Path, content: bytes) -> int:
        nonlocal full
        if path.suffix == ".safetensors":
            if full == 0:
                raise OSError(28, os.strerror(28))
            full -= 1
        return write_bytes(path, content)

    write_bytes = Path.write_bytes
    monkeypatch.setattr(Path, "write_bytes", limited)
    run = tmp_path / "run"
    with pytest.raises(OutputError) as caught:
        train(tiny(), run, say=silent)
    path = run / "checkpoints" / "step-00000004.state.safetensors"
    assert str(caught.value) == f"cannot write {path}: {os.strerror(28)}; once there is room, --resume goes on"
    assert [p.stem for p in checkpoints(run)] == ["step-00000002"]
    assert not list((run / "checkpoints").glob("step-00000004*"))
    monkeypatch.undo()
    assert train(tiny(), run, resume=True, say=silent)["resumed_from"] == 2


def test_a_journal_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, due: bool = True) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(journal.Journal, "write", full)
    with pytest.raises(OutputError, match=r"cannot write .*metrics\.jsonl: No space left on device"):
        train(tiny(), tmp_path / "run", say=silent)
