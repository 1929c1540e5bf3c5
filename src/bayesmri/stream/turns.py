"""One reconstruction at a time, the clients in turn: torch and its kernels take all cores for each.

A client with many slices waiting does not hold up one that has a single slice.
"""

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable

Job = Callable[[], None]


class Turns:
    def __init__(self) -> None:
        self.waiting: OrderedDict[Hashable, deque[Job]] = OrderedDict()
        self.busy: dict[Hashable, int] = {}
        self.changed = threading.Condition()
        self.stopped = False
        self.thread = threading.Thread(target=self._run, name="stream-work", daemon=True)
        self.thread.start()

    def submit(self, client: Hashable, job: Job) -> None:
        """A job, which must not raise."""
        with self.changed:
            self.waiting.setdefault(client, deque()).append(job)
            self.busy[client] = self.busy.get(client, 0) + 1
            self.changed.notify_all()

    def wait_for(self, client: Hashable) -> None:
        """Until nothing of this client's is waiting or under way."""
        with self.changed:
            self.changed.wait_for(lambda: self.stopped or not self.busy.get(client))

    def stop(self, seconds: float) -> None:
        """Nothing more is begun."""
        with self.changed:
            self.stopped = True
            self.changed.notify_all()
        self.thread.join(seconds)

    def _next(self) -> tuple[Hashable, Job] | None:
        with self.changed:
            self.changed.wait_for(lambda: self.stopped or self.waiting)
            if self.stopped:
                return None
            client, jobs = self.waiting.popitem(last=False)
            job = jobs.popleft()
            if jobs:
                self.waiting[client] = jobs  # at the end of the row
            return client, job

    def _run(self) -> None:
        while (found := self._next()) is not None:
            client, job = found
            try:
                job()
            finally:
                with self.changed:
                    self.busy[client] -= 1
                    if not self.busy[client]:
                        del self.busy[client]
                    self.changed.notify_all()
