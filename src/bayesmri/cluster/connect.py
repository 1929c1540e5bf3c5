"""From `--workers N` or `--cluster …` to a crew: local processes, a running scheduler, or jobs of a batch system."""

import sys
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayesmri.cluster.crew import DaskCrew
from bayesmri.errors import ClusterError, ConfigError
from bayesmri.io.guard import one_line
from bayesmri.machine.crew import at_work
from bayesmri.machine.optional import needed

MOST_WORKERS = 1024
WAIT = 60.0  # seconds for a scheduler or a first worker of this machine; batch systems have queues
SCHEMES = ("tcp://", "tls://", "ucx://", "ws://", "wss://")
KINDS = {"slurm": "SLURMCluster", "pbs": "PBSCluster", "sge": "SGECluster", "lsf": "LSFCluster", "oar": "OARCluster"}
CONFIG = {
    # one job of a volume is heavy: nothing is taken from a busy worker, and no worker hoards
    "distributed.scheduler.work-stealing": False,
    "distributed.scheduler.worker-saturation": 1.0,
    "distributed.scheduler.allowed-failures": 2,
    "distributed.comm.timeouts.connect": f"{WAIT:.0f}s",
    "distributed.admin.tick.limit": "60s",  # kernels hold a worker's loop for long without harm
    "distributed.worker.profile.enabled": False,
    # what watches shares the cores with what works
    "distributed.worker.memory.monitor-interval": "500ms",
    "distributed.admin.system-monitor.interval": "5s",
}


@dataclass(frozen=True)
class Hands:
    """workers: processes of this machine, of one thread each. cluster: tcp://…, scheduler.json, or slurm.toml."""

    workers: int | None = None
    cluster: str | None = None

    def __post_init__(self) -> None:
        if self.workers is not None and self.cluster is not None:
            raise ConfigError("got both --workers and --cluster, expected one of them; leave one out")
        if self.workers is not None and not 1 <= self.workers <= MOST_WORKERS:
            raise ConfigError(f"got {self.workers} workers, expected 1 to {MOST_WORKERS}")


@contextmanager
def hands(asked: Hands) -> Iterator[DaskCrew | None]:
    """All that is called inside goes to these workers; nothing changes where none were asked for."""
    if asked.workers is None and asked.cluster is None:
        yield None
        return
    dask = needed("dask", extra="cluster", what="a cluster")
    distributed = needed("distributed", extra="cluster", what="a cluster")
    with ExitStack() as stack:
        stack.enter_context(dask.config.set(CONFIG))
        crew = DaskCrew(stack.enter_context(_client(distributed, asked, stack)))
        with at_work(crew):
            yield crew


def _client(distributed: Any, asked: Hands, stack: ExitStack) -> Any:
    try:
        if asked.workers is not None:
            cluster = stack.enter_context(local_cluster(distributed, asked.workers))
            return distributed.Client(cluster, direct_to_workers=True)  # results need not pass the scheduler
        text = str(asked.cluster)
        if text.startswith(SCHEMES):
            client = distributed.Client(text, timeout=WAIT)
        elif text.endswith(".json"):
            client = distributed.Client(scheduler_file=str(_file(text)), timeout=WAIT)
        elif text.endswith(".toml"):
            client = distributed.Client(stack.enter_context(batch_cluster(read_jobs(_file(text)))))
        else:
            raise ConfigError(
                f"got the cluster {one_line(text, limit=80)!r}, expected tcp://HOST:PORT, a scheduler's .json file, "
                "or a .toml file that says how jobs of a batch system are"
            )
    except (OSError, TimeoutError) as error:
        told = one_line(str(error) or type(error).__name__, limit=120)
        raise ClusterError(f"no scheduler answers at {one_line(asked.cluster or 'this machine')} ({told})") from error
    if not client.nthreads() and not text.endswith(".toml"):
        print("waiting for a first worker of the cluster", file=sys.stderr, flush=True)
    return client


def local_cluster(distributed: Any, n: int) -> Any:
    """Processes of one thread each; a nanny starts each anew where it dies."""
    return distributed.LocalCluster(
        n_workers=n,
        threads_per_worker=1,
        processes=True,
        dashboard_address=None,
        scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},  # pages of its health: any port, for this machine alone
        silence_logs=50,
        host="127.0.0.1",
        preload=["bayesmri.cluster.deaf"],
    )


@dataclass(frozen=True)
class Jobs:
    """Of a batch system. kind: slurm, pbs, …; jobs: how many; options: as dask-jobqueue takes them."""

    kind: str
    jobs: int
    options: dict[str, Any]


def read_jobs(path: Path) -> Jobs:
    """kind = "slurm", jobs = 8, cores, memory, walltime, queue, account, …; every core is a worker of one thread."""
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"got {path.name}, which is no TOML ({one_line(error, limit=120)})") from error
    kind, jobs = given.pop("kind", "slurm"), given.pop("jobs", 1)
    if kind not in KINDS:
        raise ConfigError(f"got the batch system {kind!r} in {path.name}, expected one of {', '.join(KINDS)}")
    if not isinstance(jobs, int) or not 1 <= jobs <= MOST_WORKERS:
        raise ConfigError(f"got jobs = {jobs!r} in {path.name}, expected a whole number from 1 to {MOST_WORKERS}")
    if not isinstance(given.get("cores"), int) or not isinstance(given.get("memory"), str):
        raise ConfigError(
            f"got {path.name} without cores or memory of a job, expected such as cores = 4, memory = '16GB'"
        )
    return Jobs(kind, jobs, {"processes": given["cores"], **given})


def batch_cluster(asked: Jobs) -> Any:
    """A scheduler in this process, and jobs that are its workers."""
    job_script(asked)  # refused before a scheduler is there
    cluster = _kind(asked)(**asked.options)
    cluster.scale(jobs=asked.jobs)
    return cluster


def job_script(asked: Jobs, scheduler: str = "tcp://SCHEDULER:8786") -> str:
    """What is handed to the batch system for one job."""
    try:
        return str(_kind(asked).job_cls(scheduler=scheduler, name="bayesmri", **asked.options).job_script())
    except (TypeError, ValueError) as error:
        raise ConfigError(f"dask-jobqueue does not take these settings: {one_line(error, limit=200)}") from error


def _kind(asked: Jobs) -> Any:
    return getattr(needed("dask_jobqueue", extra="cluster", what="a batch system"), KINDS[asked.kind])


def _file(text: str) -> Path:
    path = Path(text)
    if not path.is_file():
        raise ConfigError(f"got the cluster {one_line(text, limit=80)!r}, which is no file; start the scheduler first")
    return path
