"""A model file is replaced without a gap, read once, and its numbers are bounded before anything is allocated."""

import json
import math
import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from bayesmri.bounded import DEEPEST
from bayesmri.checkpoint import annotate, load_model, save_model
from bayesmri.cli import main
from bayesmri.errors import ModelError
from bayesmri.io.provenance import sha256
from bayesmri.machine.allowance import Allowance
from bayesmri.model import Coils, Model
from bayesmri.regularizers.tdv import TDV, TDVConfig
from bayesmri.runs import digest_of, opened

# every change of the file system is counted; the process dies, as if by kill -9, before the k-th of them
KILLED = """
import builtins, json, os, sys
from pathlib import Path
import torch
torch.set_num_threads(1)
from bayesmri.checkpoint import load_model, save_model
old, new = (load_model(Path(name)) for name in sys.argv[2:4])
path, left, found = Path(sys.argv[1]) / "model.json", [0], []

def counted(real):
    def step(*args, **kwargs):
        if os.getpid() != parent and left[0] == 0:
            os._exit(9)
        left[0] -= 1
        return real(*args, **kwargs)
    return step

parent = os.getpid()
for name in ("replace", "link", "unlink", "fsync", "mkdir", "rmdir"):
    setattr(os, name, counted(getattr(os, name)))
for k in range(100):
    for file in path.parent.iterdir():
        file.unlink()
    if sys.argv[4] == "over":
        save_model(path, old)
    child = os.fork()
    if child == 0:
        left[0] = k
        save_model(path, new)
        os._exit(0)
    ended = os.waitpid(child, 0)[1] >> 8
    try:
        found.append(load_model(path).T)
    except Exception as error:
        found.append(type(error).__name__)
    save_model(path, old)
    assert load_model(path).T == old.T
    extra = sorted(p.name for p in path.parent.iterdir())
    assert len(extra) == 2, extra
    if ended == 0:
        break
print(json.dumps(found))
"""


def small(T: float = 1.5, seed: int = 0) -> Model:
    config = TDVConfig(features=4, macroblocks=1, scales=2)
    return Model(TDV(config, torch.Generator().manual_seed(seed)), T=T, S=2, coils=Coils("raw", 1))


@pytest.mark.parametrize("place", ["over", "fresh"])
def test_a_kill_at_any_moment_leaves_the_old_model_or_the_new(tmp_path: Path, place: str) -> None:
    for name, model in (("old", small(1.0)), ("new", small(2.0, seed=1))):
        save_model(tmp_path / f"{name}.json", model)
    (tmp_path / "at").mkdir()
    names = [str(tmp_path / "at"), str(tmp_path / "old.json"), str(tmp_path / "new.json"), place]
    run = subprocess.run(
        [sys.executable, "-c", KILLED, *names],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    before: float | str = 1.0 if place == "over" else "ModelError"
    turn = found.index(2.0)
    assert turn > 2
    assert found == [before] * turn + [2.0] * (len(found) - turn)


def test_what_cannot_be_written_leaves_the_model_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    save_model(path, small())
    bad = small()
    with torch.no_grad():
        next(iter(bad.regularizer.weights().values())).fill_(math.nan)
    for model in (bad, replace(small(), card={"psnr": math.nan}), replace(small(), T=-1.0)):
        with pytest.raises(ModelError) as caught:
            save_model(path, model)
        assert "\n" not in str(caught.value)
        assert load_model(path).T == 1.5
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.json", "model.safetensors"]


def test_other_weights_come_under_a_name_of_their_own_and_the_former_go(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    assert save_model(path, small()) == tmp_path / "model.safetensors"
    file = save_model(path, small(seed=1))
    assert file.name == f"model.{sha256(file)[:12]}.safetensors"
    assert sorted(p.name for p in tmp_path.iterdir()) == [file.name, "model.json"]
    assert load_model(file).T == load_model(path).T == load_model(tmp_path).T
    assert main(["models", str(path)]) == 0
    assert main(["models", str(file)]) == 0


def test_what_was_loaded_is_what_is_named_while_others_write(tmp_path: Path) -> None:
    """Every reader gets a whole model, and the checksum that it records is that of this very model."""
    path = tmp_path / "model.json"
    models = {T: small(T, seed=round(T)) for T in (1.0, 2.0, 3.0)}
    digests: dict[str, float] = {}
    for T, model in models.items():
        save_model(path, model)
        digests[opened(path).weights] = T
    over = threading.Event()

    def write() -> None:
        while not over.is_set():
            for model in models.values():
                save_model(path, model)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(60):
            stored = opened(path)
            assert stored.record["T"] == digests[stored.weights]
            assert stored.seen.sha256
    finally:
        over.set()
        writer.join()


def test_a_model_replaced_while_it_was_calibrated_is_not_given_the_bound(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    save_model(path, small(1.0))
    stored = opened(path)
    save_model(path, small(2.0, seed=1))
    with pytest.raises(ModelError, match="was replaced by another model meanwhile"):
        annotate(stored, path)
    annotate(stored, tmp_path / "copy.json")
    assert load_model(tmp_path / "copy.json").T == 1.0
    assert load_model(path).T == 2.0


def deep(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


HOSTILE: dict[str, dict[str, Any]] = {
    "S": {"S": 10**9},
    "S of a fraction": {"S": 2.5},
    "S as a word": {"S": "2"},
    "S true": {"S": True},
    "T negative": {"T": -1.0},
    "T as a word": {"T": "1"},
    "T huge": {"T": 1e300},
    "rho": {"rho": -3.0},
    "momentum": {"momentum": 1e9},
    "acceleration": {"acceleration": "4"},
    "R of nothing": {"acceleration": 0},
    "also": {"also": "48"},
    "also a table": {"also": {"4": 8}},
    "coils": {"coils": {"mode": "raw", "Q": 10**12}},
    "coils as a list": {"coils": [1]},
    "scaling": {"scaling": None},
    "card": {"card": "\x1b[31mred"},
    "start": {"start": "\x1b]0;title\x07"},
    "features": {"regularizer": {"kind": "tdv", "Q": 1, "features": 4000, "macroblocks": 60, "scales": 8}},
    "macroblocks": {"regularizer": {"kind": "tdv", "Q": 1, "features": 4, "macroblocks": 10**9, "scales": 2}},
    "scales": {"regularizer": {"kind": "tdv", "Q": 1, "features": 4, "macroblocks": 1, "scales": 4000}},
    "kind": {"regularizer": {"kind": "\x1b[2J\nno"}},
    "kind of a list": {"regularizer": {"kind": ["tdv"]}},
    "pools": {"regularizer": {"kind": "unet", "Q": 1, "features": 2, "pools": 4000}},
    "no description": {"regularizer": None},
    "predictor": {"predictor": {"features": 4096, "kappa": 0.0, "most": 8}},
    "predictor as a word": {"predictor": "\x1b[2J"},
    "error_head": {"error_head": {"features": 10**15}},
    "calibration": {"calibration": [{"level": "\x1b[31m"}]},
    "calibration as a number": {"calibration": 7},
    "familiar": {"familiar": [1]},
    "deep": {"card": {"x": deep(DEEPEST + 1)}},
    "deeper": {"card": {"x": deep(900)}},
    "files": {"files": {}},
    "files as a list": {"files": [1]},
    "weights by number": {"files": {"weights": {"name": 7, "sha256": 7}}},
    "format": {"format": "\x1b[31m"},
    "format true": {"format": True},
}


@pytest.mark.parametrize("how", list(HOSTILE))
def test_a_hostile_record_is_one_line_without_escapes(
    how: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "model.json"
    save_model(path, small())
    record = json.loads(path.read_text())
    record = {k: v for k, v in (record | HOSTILE[how]).items() if k != "sha256"}
    path.write_text(json.dumps(record | {"sha256": digest_of(record)}))
    with pytest.raises(ModelError) as caught:
        load_model(path)
    assert str(caught.value).isprintable()
    assert main(["models", str(path)]) in (0, 2)
    told = capsys.readouterr()
    assert "internal error" not in told.err
    assert (told.out + told.err).replace("\n", "").isprintable()


@pytest.mark.parametrize("text", ["NaN", "1e999", "-Infinity", "9" * 5000])
def test_numbers_that_are_none_are_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text('{"format": 3, "T": ' + text + ', "sha256": ""}')
    with pytest.raises(ModelError, match="not a bayesmri model"):
        load_model(tmp_path / "m.json")


def test_an_allowance_is_asked_before_memory_is_given() -> None:
    with Allowance(10**6):
        torch.zeros(1000)
    with pytest.raises(ModelError, match="1 MB"), Allowance(10**6):
        torch.empty(10**15)
    with pytest.raises(ModelError), Allowance(10**6):
        [torch.zeros(1) for _ in range(10**6)]
