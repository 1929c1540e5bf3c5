"""Who does the work does not change a bit of it: any crew, any order, dead workers, a dead scheduler."""

import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch

from bayesmri.checkpoint import load_model
from bayesmri.cli import main
from bayesmri.cluster.connect import Hands, Jobs, hands, job_script, read_jobs
from bayesmri.cluster.crew import DaskCrew
from bayesmri.data.catalog import SourceConfig
from bayesmri.data.dataset import DataConfig, Dataset, Recipe
from bayesmri.errors import ClusterError, ClusterLostError, ConfigError
from bayesmri.io.formats import read_kspace
from bayesmri.kspace import KSpace
from bayesmri.machine.crew import Job, Lacking, Parcel, Shelf, ahead, at_work
from bayesmri.recon.acquisition import Sampling
from bayesmri.recon.batch.folder import Batch, reconstruct_folder
from bayesmri.recon.elsewhere import jobs as elsewhere
from bayesmri.recon.files import PhantomRequest, ScanFile, simulate_file
from bayesmri.recon.reconstruct import Reconstruction, reconstruct
from bayesmri.recon.request import Options
from bayesmri.recon.undersample import undersample
from bayesmri.recon.work import sampled_volume
from bayesmri.statistics import BLOCK, Summary, blocks, merged, summarize
from bayesmri.training.drawn import drawn

pytest.importorskip("distributed", reason="the extra `cluster` is not installed")
R = Sampling(4.0, seed=2)


class Mail:
    """A crew that pickles both ways, works in a random order, and forgets at random what it has on its shelves."""

    volumes = 2

    def __init__(self, seed: int, room: int = 5) -> None:
        self.chance, self.room, self.sent_whole = random.Random(seed), room, 0

    def results(self, jobs: Iterable[Job]) -> Iterator[Any]:
        out: list[Job] = []
        for job in jobs:
            out.append(job)
            if len(out) == self.room:
                yield from self._some(out)
                out = []
        yield from self._some(out)

    def stopped(self) -> Any:
        return nullcontext()

    def _some(self, out: list[Job]) -> list[Any]:
        found: dict[int, Any] = {}
        for i in self.chance.sample(range(len(out)), len(out)):
            for shelf in (elsewhere.METHODS, elsewhere.PIECES, elsewhere.TERMS, elsewhere.VOLUMES):
                if self.chance.random() < 0.3:
                    shelf.kept.clear()
            found[i] = pickle.loads(pickle.dumps(self._run(out[i])))
        return [found[i] for i in range(len(out))]

    def _run(self, job: Job) -> Any:
        try:
            return pickle.loads(pickle.dumps(job.light())).run()
        except Lacking:
            self.sent_whole += 1
            return pickle.loads(pickle.dumps(job)).run()


def same(one: Reconstruction, other: Reconstruction) -> None:
    for name, value in vars(one).items():
        found = getattr(other, name)
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(value, found, err_msg=name)
        elif name == "visibility":
            for text, maps in value.items():
                np.testing.assert_array_equal(maps.mean, found[text].mean)
        elif name != "seconds":
            assert value == found, name


def volume(scans: Path, name: str = "three") -> KSpace:
    return undersample(read_kspace(scans / f"{name}.h5"), R)


@pytest.mark.parametrize(
    ("name", "model", "slices", "asked"),
    [
        ("one", "wide", 2, {"samples": 2 * BLOCK + 3, "keep_samples": True}),
        ("three", "two", 2, {"samples": BLOCK + 1, "check": True, "seed": 5}),
        ("one", "wide", 1, {"samples": 2, "tune": True}),
        ("one", "fixed", 3, {"check": True, "visibility": ("lesion:2:0.3",)}),
        ("three", "tdv-r4", 1, {"samples": 2}),
        ("three", None, 3, {"method": "tv"}),
    ],
)
def test_any_crew_gives_the_bits_of_one_process(
    scans: Path, models: Path, name: str, model: str | None, slices: int, asked: dict[str, Any]
) -> None:
    file = models / f"{model}.json"
    options = Options(**asked, model=None if model is None else str(file) if file.exists() else model)
    steps: list[None] = []
    kspace = volume(scans, name).part(slice(slices))
    plain = reconstruct(kspace, options)
    with at_work(Mail(slices)):
        far = reconstruct(kspace, options, on_step=lambda: steps.append(None))
    same(plain, far)
    assert len(steps) == len(kspace.z) * (max(1, options.samples) + (4 if options.check else 0))


def test_blocks_are_the_sum_whoever_sums_them() -> None:
    rng = torch.Generator().manual_seed(0)
    x = [torch.randn(2, 9, 7, dtype=torch.complex64, generator=rng) for _ in range(3 * BLOCK + 2)]
    assert [i for block in blocks(len(x)) for i in block] == list(range(len(x)))
    parts = {block: merged(Summary.of(x[i]) for i in block) for block in reversed(blocks(len(x)))}
    together, whole = merged(parts[block] for block in blocks(len(x))), summarize(iter(x))
    for name in ("X", "x", "u"):
        assert torch.equal(getattr(together, name).mean, getattr(whole, name).mean)
        assert torch.equal(getattr(together, name).std(), getattr(whole, name).std())
    plain = torch.stack(x)
    torch.testing.assert_close(whole.x.mean, plain.to(torch.complex128).mean(0), rtol=1e-12, atol=1e-12)
    assert torch.equal(Summary.of(x[0]).x.mean, summarize(x[:1]).x.mean)


def test_data_is_read_where_its_path_leads_to_the_same_and_sent_otherwise(
    scans: Path, models: Path, tmp_path: Path
) -> None:
    path = tmp_path / "scan.h5"
    path.write_bytes((scans / "three.h5").read_bytes())
    options = Options(model=str(models / "two.json"), samples=2)
    kspace = undersample(read_kspace(path), R)
    plain = reconstruct(kspace, options)

    def sent(crew: Mail) -> int:
        origin = partial(sampled_volume, ScanFile(path).read, single=False, sampling=R)
        elsewhere.PIECES.kept.clear()
        elsewhere.VOLUMES.kept.clear()
        with at_work(crew):
            same(plain, reconstruct(kspace, options, origin=origin))
        return crew.sent_whole

    class Careful(Mail):
        def _some(self, out: list[Job]) -> list[Any]:
            return [self._run(job) for job in out]

    assert sent(Careful(0)) <= 1  # the method; no slice
    path.write_bytes((scans / "one.h5").read_bytes())  # another volume under the same name
    assert sent(Careful(0)) >= len(kspace.z)
    path.unlink()
    assert sent(Careful(0)) >= len(kspace.z)


def test_a_parcel_is_kept_found_or_lacking() -> None:
    shelf: Shelf[int] = Shelf(2)
    assert Parcel("a", 1).open(shelf) == 1
    assert Parcel[int]("a", 1).light().open(shelf) == 1
    assert Parcel("b", None, lambda: 2).open(shelf) == 2
    assert Parcel("c", 3).open(shelf) == 3
    with pytest.raises(Lacking):
        Parcel[int]("a", None).open(shelf)  # no room for three
    with at_work(Mail(0)):
        assert list(ahead(lambda i: i * i, range(7))) == [i * i for i in range(7)]


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("many")
    for seed in range(3):
        simulate_file(PhantomRequest("head", "PD", (24, 28), slices=4), folder / f"v{seed}.h5", coils=2, seed=seed)
    return folder


@pytest.fixture(scope="module")
def crew() -> Iterator[DaskCrew]:
    with hands(Hands(workers=2)) as found:
        assert found is not None
        yield found


def images(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path in sorted(out.rglob("*.recon.h5")):
        with h5py.File(path) as file:
            found |= {f"{path.name}/{key}": file[key][()] for key in file if isinstance(file[key], h5py.Dataset)}
    return found


def test_workers_killed_at_random_lose_nothing(many: Path, models: Path, tmp_path: Path, crew: DaskCrew) -> None:
    batch = Batch(Options(model=str(models / "two.json"), samples=BLOCK + 1), R)
    reconstruct_folder([many], tmp_path / "plain", batch)
    over = threading.Event()
    kills: list[int] = []

    def kill() -> None:
        chance = random.Random(1)
        while not over.wait(0.4) and len(kills) < 3:
            pids = list(crew.client.run(os.getpid).values())
            if pids:
                kills.append(chance.choice(pids))
                os.kill(kills[-1], signal.SIGKILL)
            time.sleep(0.6)

    killer = threading.Thread(target=kill)
    with at_work(crew):
        killer.start()
        made = reconstruct_folder([many], tmp_path / "far", batch)
        over.set()
        killer.join()
    assert kills
    assert made["done"] == 3
    plain, far = images(tmp_path / "plain"), images(tmp_path / "far")
    assert plain.keys() == far.keys()
    for key in plain:
        np.testing.assert_array_equal(plain[key], far[key], err_msg=key)


class Deadly:
    """A job that ends its worker as the kernel does where memory is short."""

    label = "slice 7 of large.h5"

    def light(self) -> "Deadly":
        return self

    def run(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class Hungry(Deadly):
    def run(self) -> None:
        np.empty(2**50)


@pytest.mark.parametrize("job", [Deadly(), Hungry()])
def test_what_does_not_fit_is_told_with_its_slice(crew: DaskCrew, job: Job) -> None:
    crew.client.cluster.scheduler.allowed_failures, former = 0, crew.client.cluster.scheduler.allowed_failures
    try:
        with pytest.raises(ClusterError, match=r"slice 7 of large\.h5.*memory"):
            list(replace(crew, again=0).results([job]))
    finally:
        crew.client.cluster.scheduler.allowed_failures = former


def test_the_death_of_a_scheduler_leaves_what_is_finished(many: Path, models: Path, tmp_path: Path) -> None:
    place, out = tmp_path / "scheduler.json", tmp_path / "out"
    dask = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0"]
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    scheduler = subprocess.Popen([*dask, "--no-dashboard", "--scheduler-file", str(place)], **quiet)
    argv = ["-m", "distributed.cli.dask_worker", "--nthreads", "1", "--scheduler-file", str(place)]
    worker = subprocess.Popen([sys.executable, *argv, "--no-dashboard", "--death-timeout", "20"], **quiet)
    batch = Batch(Options(model=str(models / "two.json"), samples=2 * BLOCK), R)
    try:
        until = time.monotonic() + 60
        while not place.exists() and time.monotonic() < until:
            time.sleep(0.1)
        with hands(Hands(cluster=str(place))) as found:
            assert found is not None
            found.volumes = 1  # the second begins after the first
            with pytest.raises(ClusterLostError, match="run the same command again"):
                reconstruct_folder([many], out, batch, meter=Killing(scheduler))
    finally:
        for process in (scheduler, worker):
            process.kill()
            process.wait()
    finished = sorted(path.name for path in out.rglob("*.recon.h5"))
    assert finished
    assert not [path for path in out.rglob(".*") if path.is_file() and path.parent.name != ".batch"]
    made = reconstruct_folder([many], out, batch)
    assert made["finished_before"] == len(finished)
    assert made["done"] == 3 - len(finished)


def test_ctrl_c_ends_a_run_and_its_workers(many: Path, models: Path, tmp_path: Path) -> None:
    """It reaches every process of the terminal; the command does not wait for the volumes in the making."""
    out = tmp_path / "out"
    words = ["recon", str(many), "-o", str(out), "--model", str(models / "two.json"), "--acceleration", "4"]
    words = [sys.executable, "-m", "bayesmri", *words, "--samples", "4000", "--workers", "1"]
    run = subprocess.Popen(words, start_new_session=True, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    try:
        until = time.monotonic() + 60
        while not out.exists() and time.monotonic() < until:
            time.sleep(0.1)
        time.sleep(2)
        os.killpg(run.pid, signal.SIGINT)
        said = run.communicate(timeout=60)[1]
    finally:
        run.kill()
        run.wait()
    assert run.returncode == 130
    assert "interrupted" in said
    assert "Traceback" not in said
    assert not list(out.rglob("*.h5"))
    until = time.monotonic() + 30
    while left(run.pid) and time.monotonic() < until:
        time.sleep(0.1)
    assert not left(run.pid)


def left(session: int) -> bool:
    """Whether any process of a session is there."""
    try:
        os.killpg(session, 0)
    except ProcessLookupError:
        return False
    return True


class Killing:
    """Ends the scheduler after the first volume."""

    def __init__(self, scheduler: "subprocess.Popen[bytes]") -> None:
        self.scheduler = scheduler

    def start(self, sizes: Any) -> Any:
        return nullcontext()

    def slices(self, name: str) -> None:
        return None

    def end(self, name: str, *, worked: bool) -> None:
        self.scheduler.kill()

    def say(self, text: str) -> None:
        pass


def test_elements_of_distill_are_the_same_from_a_crew(scans: Path, models: Path, tmp_path: Path) -> None:
    config = DataConfig(sources=(SourceConfig(path=str(scans / "one.h5")),), patch_rows=16, val_fraction=0)
    model, dataset = load_model(models / "wide.json"), Dataset(config, Recipe(), seed=1)
    plain = list(drawn(model, dataset, range(3), 2, seed=1))
    with at_work(Mail(1, room=2)):
        first = list(drawn(model, dataset, range(1), 2, seed=1, folder=tmp_path / "kept"))
        far = list(drawn(model, dataset, range(3), 2, seed=1, folder=tmp_path / "kept"))
    assert len(first) == 1
    for one, other in zip(plain, far, strict=True):
        assert torch.equal(one.deviations, other.deviations)
        assert torch.equal(one.Y, other.Y)


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["--workers", "0"], "expected 1 to"),
        (["--workers", "2", "--cluster", "tcp://127.0.0.1:1"], "one of them"),
        (["--cluster", "nowhere"], "tcp://HOST:PORT"),
        (["--cluster", "nowhere.json"], "no file"),
    ],
)
def test_misused_clusters_are_one_line(
    scans: Path, tmp_path: Path, argv: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["recon", str(scans / "one.h5"), "-o", str(tmp_path / "o.h5"), *argv]) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "o.h5").exists()


def test_a_batch_system_is_told_in_toml(tmp_path: Path) -> None:
    path = tmp_path / "slurm.toml"
    path.write_text('kind = "slurm"\njobs = 4\ncores = 2\nmemory = "8GB"\nwalltime = "01:00:00"\nqueue = "short"\n')
    asked = read_jobs(path)
    assert asked == Jobs(
        "slurm", 4, {"processes": 2, "cores": 2, "memory": "8GB", "walltime": "01:00:00", "queue": "short"}
    )
    script = job_script(asked)
    assert "#SBATCH -p short" in script
    assert "#SBATCH --cpus-per-task=2" in script
    assert "--nthreads 1" in script
    assert "--nworkers 2" in script
    with pytest.raises(ConfigError, match="does not take"):
        job_script(replace(asked, options={**asked.options, "nonsense": 1}))
    for text in ('kind = "cron"\ncores=1\nmemory="1GB"', "jobs = 0\ncores=1\nmemory='1GB'", "cores = 2", "x ="):
        path.write_text(text)
        with pytest.raises(ConfigError):
            read_jobs(path)
