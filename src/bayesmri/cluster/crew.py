"""A Dask client as a crew: jobs go out as there is room, come back in order, and are sent again where a worker died."""

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, final

from bayesmri.errors import BayesMRIError, ClusterError, ClusterLostError
from bayesmri.io.guard import one_line
from bayesmri.machine.crew import Job, Lacking
from bayesmri.machine.memory import keep_memory
from bayesmri.machine.optional import needed

AHEAD = 1.5  # jobs out for every worker: the next is there when one is done
VOLUMES = 3  # in memory at once
AGAIN = 1  # times that a job is sent once more after Dask gave it up, which it does when its third worker dies
GONE = ("CommClosedError", "CancelledError", "FutureCancelledError", "TimeoutError", "SchedulerStillAlive")


@final
@dataclass(frozen=True)
class Answer:
    """What came of a job. lacks: something must be sent along; error: what the job raised."""

    value: Any = None
    lacks: bool = False
    error: Exception | None = None


def perform(job: Job) -> Answer:
    """On the worker."""
    keep_memory()
    try:
        return Answer(job.run())
    except Lacking:
        return Answer(lacks=True)
    except Exception as error:  # raised again where the job came from; all else there is of the cluster itself
        return Answer(error=error)


@final
@dataclass
class DaskCrew:
    """client: of dask.distributed. volumes: in the making at once. again: as AGAIN."""

    client: Any
    volumes: int = VOLUMES
    again: int = AGAIN
    lost: int = 0  # jobs that had to be sent again since their workers died
    _asking: int = 0
    _out: set[Any] = field(default_factory=set)
    _stopped: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def room(self) -> int:
        """How many jobs of one volume are out at once."""
        threads = sum(self.client.nthreads().values())
        return max(2, int(AHEAD * threads) + 1)

    def results(self, jobs: Iterable[Job]) -> Iterator[Any]:
        """In their order; at most `room` jobs are out, and so many results in memory. Who asked first is served first:
        a volume that was begun is finished before the next, and is written while others are in the making.
        """
        with self._lock:
            self._asking += 1
            priority = -self._asking
        out: deque[tuple[Job, Any]] = deque()
        try:
            room = self._asked(self.room)
            for job in jobs:
                out.append((job, self._send(job.light(), priority)))
                if len(out) >= room:
                    yield self._result(*out.popleft(), priority)
                    room = self._asked(self.room)
            while out:
                yield self._result(*out.popleft(), priority)
        finally:
            for _, future in out:
                self._out.discard(future)
                future.release()

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Inside, all who wait for a result get an error instead, and nobody is given a job."""
        with self._lock:
            self._stopped, out = True, list(self._out)
        try:
            with suppress(Exception):  # a scheduler that is gone has told them already
                self.client.cancel(out, force=True)
            yield
        finally:
            with self._lock:
                self._stopped = False

    def _send(self, job: Job, priority: int) -> Any:
        with self._lock:
            if self._stopped:
                raise ClusterLostError("the work of the cluster was given up")
            future = self._asked(lambda: self.client.submit(perform, job, pure=False, priority=priority))
            self._out.add(future)
        return future

    def _result(self, job: Job, future: Any, priority: int) -> Any:
        killed = needed("distributed", extra="cluster", what="a cluster").KilledWorker

        def answered() -> Answer:
            try:
                answer: Answer = self._asked(future.result)
                return answer
            finally:
                self._out.discard(future)

        for attempt in range(self.again + 1):
            try:
                answer = answered()
                if answer.lacks:
                    future = self._send(job, priority)
                    answer = answered()
                return _value(job, answer)
            except killed as error:
                with self._lock:
                    self.lost += 1
                if attempt == self.again:
                    raise ClusterError(_lost(job, error)) from error
                future = self._send(job, priority)
        raise AssertionError("every attempt returns or raises")

    def _asked(self, ask: Any) -> Any:
        """What the scheduler answers; one that is gone is one line."""
        try:
            return ask()
        except BayesMRIError:
            raise
        except Exception as error:
            if type(error).__name__ in GONE or isinstance(error, OSError | TimeoutError):
                raise ClusterLostError(
                    f"the scheduler of the cluster does not answer any more ({type(error).__name__}); files that are "
                    "finished are whole: start a cluster and run the same command again"
                ) from error
            raise


def _value(job: Job, answer: Answer) -> Any:
    if isinstance(answer.error, MemoryError) or "allocate" in str(answer.error):
        told = one_line(str(answer.error) or "no memory left", limit=200)
        raise ClusterError(f"{job.label}: a worker ran out of memory ({told}); give each worker more")
    if answer.error is not None:
        raise answer.error
    if answer.lacks:
        raise ClusterError(
            f"a worker could not unpack {job.label}, though all was sent; is it the same version of bayesmri?"
        )
    return answer.value


def _lost(job: Job, error: Any) -> str:
    last = getattr(getattr(error, "last_worker", None), "address", "")
    where = f", the last {last}" if last else ""
    return (
        f"all workers that took {job.label} died{where}: most likely it does not fit into their memory; give each "
        "worker more (fewer workers on a machine), or leave this volume out"
    )
