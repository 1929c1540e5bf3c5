"""One reconstruction at a time, since each takes all cores; after every sample or slice of it others have their turn.

So neither a client with many slices nor one with a huge slice holds up one that has a small one.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Job = Callable[[], None]


class Turns:
    """A token that goes round in the order in which it was asked for."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.row: deque[object] = deque()
        self.taken = False

    @contextmanager
    def turn(self) -> Iterator[None]:
        self._take()
        try:
            yield
        finally:
            self._give()

    def others_first(self) -> None:
        """Called by the one whose turn it is: whoever waits goes first."""
        if self.row:
            self._give()
            self._take()

    def _take(self) -> None:
        me = object()
        with self.changed:
            self.row.append(me)
            self.changed.wait_for(lambda: not self.taken and self.row[0] is me)
            self.row.popleft()
            self.taken = True

    def _give(self) -> None:
        with self.changed:
            self.taken = False
            self.changed.notify_all()


class Worker:
    """The jobs of one client, in their order, each in its turn. A job must not raise."""

    def __init__(self, turns: Turns, name: str) -> None:
        self.turns = turns
        self.changed = threading.Condition()
        self.jobs: deque[Job] = deque()
        self.busy = False
        self.stopped = False
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.thread.start()

    def submit(self, job: Job) -> None:
        with self.changed:
            self.jobs.append(job)
            self.changed.notify_all()

    def wait(self) -> None:
        """Until nothing is waiting or under way."""
        with self.changed:
            self.changed.wait_for(lambda: self.stopped or not (self.jobs or self.busy))

    def stop(self) -> None:
        """Nothing more is begun."""
        with self.changed:
            self.stopped = True
            self.changed.notify_all()

    def _run(self) -> None:
        while (job := self._next()) is not None:
            with self.turns.turn():
                job()
            with self.changed:
                self.busy = False
                self.changed.notify_all()

    def _next(self) -> Job | None:
        with self.changed:
            self.changed.wait_for(lambda: self.stopped or self.jobs)
            if self.stopped:
                return None
            self.busy = True
            return self.jobs.popleft()
