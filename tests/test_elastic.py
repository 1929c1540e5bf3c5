"""torchrun starts all processes again when one dies: it goes on from the last checkpoint, with the same losses."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

CONFIG = """
name = "tiny"
seed = 5
[model]
kind = "tdv"
Q = 1
features = 4
macroblocks = 1
scales = 2
[data]
patch_rows = 16
patch_cols = 24
val_fraction = 0.3
val_slices = 2
[[data.sources]]
phantom = "knee"
count = 4
size = [24, 24]
[unroll]
T0 = 2.0
S_start = 2
S_max = 2
[train]
iterations = 200
batch = 6
compile = "off"
threads = 1
log_every = 10
val_every = 200
sample_every = 200
checkpoint_every = 20
"""


def losses(run: Path) -> dict[int, float]:
    rows = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return {row["step"]: row["loss"] for row in rows if row.get("loss") is not None}


def begun(folder: Path, name: str, processes: int) -> "subprocess.Popen[bytes]":
    elastic = ["--nnodes", "1", "--nproc-per-node", str(processes), "--max-restarts", "3"]
    elastic += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]
    words = [sys.executable, "-m", "torch.distributed.run", *elastic]
    words += ["-m", "bayesmri", "train", "tiny.toml", "-o", name, "--resume"]
    with (folder / f"{name}.log").open("w") as log:
        return subprocess.Popen(words, cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=log, stderr=log)


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, 3])
def test_a_killed_process_does_not_change_the_losses(tmp_path: Path, processes: int) -> None:
    (tmp_path / "tiny.toml").write_text(CONFIG)
    assert begun(tmp_path, "plain", processes).wait(280) == 0
    run = begun(tmp_path, "killed", processes)
    until = time.monotonic() + 200
    while not list((tmp_path / "killed" / "checkpoints").glob("step-*60.json")) and time.monotonic() < until:
        time.sleep(0.05)
    children = subprocess.run(["pgrep", "-P", str(run.pid)], capture_output=True, text=True).stdout.split()
    assert len(children) == processes
    os.kill(int(children[-1]), signal.SIGKILL)
    assert run.wait(280) == 0, (tmp_path / "killed.log").read_text()[-2000:]
    assert "exitcode: -9" in (tmp_path / "killed.log").read_text()
    assert losses(tmp_path / "killed") == losses(tmp_path / "plain")
