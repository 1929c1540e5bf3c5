"""Many volumes and several workers, within one run: efficiency, overhead per volume, memory, killed workers."""

import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from bayesmri.cluster.connect import Hands, hands
from bayesmri.cluster.crew import DaskCrew
from bayesmri.machine.crew import current
from bayesmri.recon.acquisition import Sampling
from bayesmri.recon.batch.folder import Batch, reconstruct_folder
from bayesmri.recon.files import PhantomRequest, simulate_file
from bayesmri.recon.request import Options

MODEL, R = "tdv-r4", Sampling(4.0)
Say = Callable[[str], None]


@dataclass(frozen=True)
class Size:
    """volumes of `slices` each for efficiency, half a minute of work for two workers at least: shorter runs measure how
    long the last job keeps one of them waiting. tiny ones for overhead and memory; slices and kills for the last.
    """

    volumes: int = 4
    slices: int = 4
    image: tuple[int, int] = (160, 160)
    samples: int = 16
    tiny: int = 500
    killed_slices: int = 200
    kills: int = 10


@dataclass
class Resident:
    """Bytes of this process after every volume, and the time."""

    found: list[int] = field(default_factory=list)

    def start(self, sizes: Mapping[str, int]) -> AbstractContextManager[None]:
        return nullcontext()

    def slices(self, name: str) -> None:
        return None

    def end(self, name: str, *, worked: bool) -> None:
        self.found.append(int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"))

    def say(self, text: str) -> None:
        print(text, file=sys.stderr)


def bench_cluster(size: Size, say: Say = lambda text: None) -> dict[str, Any]:
    """All four."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        say("efficiency of two workers")
        found = efficiency(folder, size)
        say(f"{size.tiny} tiny volumes, and single commands")
        found |= overhead(folder, size)
        say(f"{size.kills} workers killed in {size.killed_slices} slices")
        return found | killed(folder, size)


def efficiency(folder: Path, size: Size) -> dict[str, Any]:
    """t₁ / (2 t₂) of the same volumes by one and by two workers that have begun to work before."""
    scans = _scans(folder / "heavy", size.volumes, size.slices, size.image, coils=4)
    asked = Batch(Options(model=MODEL, samples=size.samples), R)
    seconds = {}
    for n in (1, 2):
        with hands(Hands(workers=n)):
            few = Batch(Options(model=MODEL, samples=0), R)
            reconstruct_folder([scans], folder / f"warm{n}", few)
            began = time.perf_counter()
            reconstruct_folder([scans], folder / f"out{n}", asked)
            seconds[n] = time.perf_counter() - began
    return {"cluster_efficiency_2": seconds[1] / (2 * seconds[2]), "cluster_seconds": [seconds[1], seconds[2]]}


def overhead(folder: Path, size: Size) -> dict[str, Any]:
    """Seconds of a batch per volume beside the reconstruction itself, of single commands, and memory over all."""
    folder.mkdir(exist_ok=True)
    scans = _scans(folder / "tiny", size.tiny, 1, (32, 32), coils=1)
    meter, began = Resident(), time.perf_counter()
    made = reconstruct_folder([scans], folder / "tinies", Batch(Options(model=MODEL), R, trusted=False), meter=meter)
    seconds = time.perf_counter() - began
    inside = sum(row["seconds"] for row in made["volumes"])
    tenth = max(1, len(meter.found) // 10)
    first, last = (float(np.mean(part)) for part in (meter.found[:tenth], meter.found[-tenth:]))
    return {
        "batch_overhead_seconds": (seconds - inside) / size.tiny,
        "batch_seconds": seconds / size.tiny,
        "command_seconds": _command(next(iter(sorted(scans.glob("*.h5")))), folder),
        "batch_memory_last_over_first_tenth": last / first,
        "batch_volumes": size.tiny,
    }


def killed(folder: Path, size: Size) -> dict[str, Any]:
    """How many workers were killed, how many results differ from those of one process (0), how many are missing (0)."""
    per = 10
    scans = _scans(folder / "slices", size.killed_slices // per, per, (48, 48), coils=2)
    asked = Batch(Options(model=MODEL, samples=2), R)
    reconstruct_folder([scans], folder / "plain", asked)
    with hands(Hands(workers=2)) as crew:
        assert crew is not None
        killer = Killer(crew, size.kills, folder / "far", size.killed_slices // per)
        thread = threading.Thread(target=killer.run)
        thread.start()
        made = reconstruct_folder([scans], folder / "far", asked)
        killer.over.set()
        thread.join()
    assert current() is None
    return {
        "cluster_workers_killed": len(killer.killed),
        "cluster_volumes_lost": len(made["volumes"]) - made["done"],
        "cluster_results_that_differ": differing(folder / "plain", folder / "far"),
    }


@dataclass
class Killer:
    """Ends workers by SIGKILL, spread over the volumes of a run."""

    crew: DaskCrew
    kills: int
    out: Path
    volumes: int
    killed: list[int] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        chance = random.Random(0)
        while not self.over.wait(0.2) and len(self.killed) < self.kills:
            done = len(list(self.out.rglob("*.recon.h5")))
            if done < len(self.killed) * self.volumes // (self.kills + 1):
                continue
            # of the nannies, which are in this process
            pids = [nanny.pid for nanny in self.crew.client.cluster.workers.values() if nanny.pid]
            pids = [pid for pid in pids if pid not in self.killed]
            if pids:
                self.killed.append(chance.choice(pids))
                with suppress(ProcessLookupError):  # it may have ended by itself
                    os.kill(self.killed[-1], signal.SIGKILL)


def differing(one: Path, other: Path) -> int:
    """Datasets of results that are not the same bit by bit."""
    count = 0
    for path in sorted(one.rglob("*.recon.h5")):
        with h5py.File(path) as a, h5py.File(other / path.relative_to(one)) as b:
            names = [name for name in a if isinstance(a[name], h5py.Dataset)]
            count += sum(not np.array_equal(a[name][()], b[name][()]) for name in names)
    return count


def _scans(folder: Path, volumes: int, slices: int, image: tuple[int, int], *, coils: int) -> Path:
    """Three phantoms, as often as it takes."""
    folder.mkdir(parents=True)
    request = PhantomRequest("head", shape=image, slices=slices)
    for seed in range(min(volumes, 3)):
        simulate_file(request, folder / f"volume-{seed:04d}.h5", coils=coils, snr_db=30, seed=seed)
    for i in range(3, volumes):
        (folder / f"volume-{i:04d}.h5").write_bytes((folder / f"volume-{i % 3:04d}.h5").read_bytes())
    return folder


def _command(scan: Path, folder: Path) -> float:
    words = [sys.executable, "-m", "bayesmri", "recon", str(scan), "-o", str(folder / "one.h5"), "--model", MODEL]
    began = time.perf_counter()
    subprocess.run([*words, "--acceleration", "4", "--force"], check=True, capture_output=True)
    return time.perf_counter() - began
