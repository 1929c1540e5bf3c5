"""Reconstructions that run: one at a time, each in a process of its own, told about as they go, cancelled at once."""

import asyncio
import itertools
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from bayesmri.app.child import Child, ChildError
from bayesmri.errors import ConfigError
from bayesmri.io.atomic import sweep

State = Literal["waiting", "running", "done", "failed", "cancelled"]
MOST_WAITING = 20
MOST_KEPT = 200  # jobs that are remembered


@dataclass(eq=False)
class Job:
    """asked: what its child is asked. done of total: samples or slices. made: what `reconstruct_file` returned."""

    id: int
    scan: str
    label: str
    asked: dict[str, Any]
    state: State = "waiting"
    done: int = 0
    total: int = 0
    message: str = ""
    result: str = ""
    made: dict[str, Any] = field(default_factory=dict)
    began: float = 0.0
    ended: float = 0.0
    child: Child | None = None

    def told(self) -> dict[str, Any]:
        """JSON values for the page."""
        now = self.ended or time.monotonic()
        known = ("metrics", "seconds", "method", "expected", "warnings", "notes")
        return {
            "id": self.id,
            "scan": self.scan,
            "label": self.label,
            "state": self.state,
            "done": self.done,
            "total": self.total,
            "message": self.message,
            "result": self.result,
            "elapsed": round(now - self.began, 1) if self.began else 0.0,
            "made": {name: self.made[name] for name in known if name in self.made},
        }


class Jobs:
    """All of this session, and those who listen."""

    def __init__(self) -> None:
        self.all: dict[int, Job] = {}
        self.waiting: deque[Job] = deque()
        self.listeners: set[asyncio.Queue[dict[str, Any]]] = set()
        self.numbers = itertools.count(1)
        self.cancelled: set[Job] = set()
        self.wake = asyncio.Event()

    def add(self, *, scan: str, label: str, asked: dict[str, Any], result: str) -> Job:
        if len(self.waiting) >= MOST_WAITING:
            raise ConfigError(f"{MOST_WAITING} reconstructions wait already; let some end, or cancel them")
        job = Job(next(self.numbers), scan, label, asked, result=result)
        self.all[job.id] = job
        while len(self.all) > MOST_KEPT:
            self.all.pop(next(iter(self.all)))
        self.waiting.append(job)
        self.wake.set()
        self._tell(job)
        return job

    def reserved(self) -> set[Path]:
        """Files that are about to be written."""
        return {Path(job.asked["out"]) for job in self.all.values() if job.state in ("waiting", "running")}

    def found(self, number: int) -> Job:
        if number not in self.all:
            raise ConfigError(f"got the job {number}, which is not known; load the page again")
        return self.all[number]

    async def cancel(self, number: int) -> Job:
        job = self.found(number)
        if job.state in ("waiting", "running"):
            job.state, job.ended = "cancelled", time.monotonic()
            self.cancelled.add(job)
            if job in self.waiting:
                self.waiting.remove(job)
            if job.child is not None:
                await job.child.end()
            self._tell(job)
        return job

    async def work(self) -> None:
        """For as long as the server lives."""
        while True:
            while self.waiting:
                await self._run(self.waiting.popleft())
            self.wake.clear()
            await self.wake.wait()

    async def _run(self, job: Job) -> None:
        job.state, job.began, job.child = (
            "running",
            time.monotonic(),
            Child("bayesmri.app.running", "the reconstruction"),
        )
        self._tell(job)

        def on_progress(told: dict[str, Any]) -> None:
            job.done, job.total = told["done"], told["total"]
            self._tell(job)

        try:
            job.made = await job.child.ask("run", on_progress, **job.asked)
            job.state, job.done = "done", job.total
        except ChildError as error:
            if job not in self.cancelled:
                job.state, job.message = "failed", str(error)
        finally:
            await job.child.end()
            await asyncio.to_thread(sweep, Path(job.asked["out"]).parent)  # of a process that was killed while writing
            job.child, job.ended = None, time.monotonic()
            self._tell(job)

    async def end(self) -> None:
        self.waiting.clear()
        for job in self.all.values():
            if job.child is not None:
                await job.child.end()

    def listen(self) -> asyncio.Queue[dict[str, Any]]:
        """A queue of what changes, the present state first."""
        queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue(1000)
        for job in self.all.values():
            queue.put_nowait(job.told())
        self.listeners.add(queue)
        return queue

    def _tell(self, job: Job) -> None:
        for queue in self.listeners:
            if queue.full():  # of a page that does not read
                queue.get_nowait()
            queue.put_nowait(job.told())
