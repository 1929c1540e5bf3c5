"""The scripts of docs/scale.md on a real Slurm of one node, started here; skipped where it is not installed."""

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest

from bayesmri.recon.files import PhantomRequest, simulate_file

PAGE = Path(__file__).resolve().parents[1] / "docs" / "scale.md"
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "sinfo")
MISSING = [name for name in PROGRAMS if shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin") is None]
CONFIG = """
ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=short Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(MISSING), reason=f"{', '.join(MISSING)} not installed: apt-get install slurm-wlm munge"),
    pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="Slurm's daemons want root"),
]


def free_ports(n: int) -> list[int]:
    sockets = [socket.socket() for _ in range(n)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    found = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return found


@pytest.fixture(scope="module")
def slurm() -> Iterator[dict[str, str]]:
    """The environment in which Slurm's commands find it."""
    folder = Path(subprocess.run(["mktemp", "-d"], capture_output=True, text=True, check=True).stdout.strip())
    folder.chmod(0o755)  # munge wants folders that others cannot write to
    for name in ("state", "spool"):
        (folder / name).mkdir()
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    config = folder / "slurm.conf"
    text = CONFIG.format(folder=folder, host=socket.gethostname(), ports=free_ports(2), cpus=os.cpu_count())
    config.write_text(text)
    paths = f"{Path(sys.executable).parent}:{os.environ['PATH']}:/usr/sbin"
    environment = {**os.environ, "SLURM_CONF": str(config), "PATH": paths, "OMP_NUM_THREADS": "1"}
    munge = [f"--{name}-file={folder}/munge.{name}" for name in ("key", "pid", "log", "seed")]
    commands = (
        ["munged", "--foreground", "--force", f"--socket={folder}/munge.socket", *munge],
        ["slurmctld", "-D", "-f", str(config)],
        ["slurmd", "-D", "-f", str(config)],
    )
    daemons = []
    try:
        for command in commands:
            with (folder / f"{command[0]}.out").open("w") as log:
                daemons.append(subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT))
            time.sleep(1.0)
        until = time.monotonic() + 40
        while "idle" not in run(["sinfo", "-h", "-o", "%t"], environment) and time.monotonic() < until:
            time.sleep(0.5)
        if "idle" not in run(["sinfo", "-h", "-o", "%t"], environment):
            told = " ".join((folder / "slurmctld.out").read_text().split()[-40:])
            pytest.skip(f"Slurm does not start here: {told}")
        yield environment
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
        for daemon in daemons:
            daemon.wait(20)
        shutil.rmtree(folder, ignore_errors=True)


def run(command: list[str], environment: dict[str, str], folder: Path | None = None) -> str:
    made = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=200)
    return made.stdout + made.stderr


def block(kind: str) -> str:
    found = re.search(rf"```{kind}\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert found is not None
    return found[1]


def test_arrays_and_jobs_of_slurm_make_what_one_command_makes(slurm: dict[str, str], tmp_path: Path) -> None:
    for name in ("a/one", "a/two", "b/one"):
        (tmp_path / "scans" / name).parent.mkdir(parents=True, exist_ok=True)
        simulate_file(PhantomRequest("head", shape=(32, 36)), tmp_path / "scans" / f"{name}.h5", seed=len(name))
    (tmp_path / "shards.sbatch").write_text(block("sbatch"))
    (tmp_path / "slurm.toml").write_text(block("toml"))
    said = run(["sbatch", "--wait", "shards.sbatch"], slurm, tmp_path)
    logs = "\n".join(path.read_text() for path in tmp_path.glob("bayesmri-*.log"))
    assert len(list((tmp_path / "results").rglob("*.recon.h5"))) == 3, said + logs
    assert len(list((tmp_path / "results").glob("summary-*-of-3.json"))) == 3
    command = ["bayesmri", "recon", "scans/", "--model", "auto", "--acceleration", "4", "-o"]
    assert "3 finished before" in run([*command, "results/"], slurm, tmp_path)
    told = run([*command, "far/", "--cluster", "slurm.toml"], slurm, tmp_path)
    assert "3 volumes: 3 done" in told, told
    for path in sorted((tmp_path / "results").rglob("*.recon.h5")):
        other = tmp_path / "far" / path.relative_to(tmp_path / "results")
        with h5py.File(path) as one, h5py.File(other) as far:
            np.testing.assert_array_equal(one["reconstruction"][()], far["reconstruction"][()])
