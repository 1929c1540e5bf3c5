"""Hands beyond this process: who takes jobs, for all that is called inside `at_work`; no torch here.

As with threads, results do not depend on it: a job is a function of what it carries, and whoever asks puts the results
together in an order of its own.
"""

import hashlib
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, TypeVar, final

Item = TypeVar("Item")
Content = TypeVar("Content")
Result = TypeVar("Result")
Self = TypeVar("Self", bound="Job")


class Job(Protocol):
    """What can be sent: it is pickled."""

    @property
    def label(self) -> str:
        """For people, such as "slice 3 of knee.h5"."""
        ...

    def run(self) -> Any:
        """The result; raises Lacking where something must be sent along."""
        ...

    def light(self: Self) -> Self:
        """The same without what its receiver may have, or find by itself."""
        ...


class Crew(Protocol):
    """volumes: how many may be in the making at once, so that nobody waits and memory is bounded."""

    volumes: int

    def results(self, jobs: Iterable[Job]) -> Iterator[Any]:
        """Of every job, in their order; jobs are taken as there is room for them."""
        ...

    def stopped(self) -> AbstractContextManager[None]:
        """Inside, all who wait for a result get an error instead."""
        ...


_crew: ContextVar[Crew | None] = ContextVar("crew", default=None)


def current() -> Crew | None:
    """None: this process does all."""
    return _crew.get()


@contextmanager
def at_work(crew: Crew | None) -> Iterator[None]:
    """Inside, jobs go to this crew."""
    token = _crew.set(crew)
    try:
        yield
    finally:
        _crew.reset(token)


def ahead(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """work(item) of every item, in their order; with a crew a few are begun ahead, which keeps it busy."""
    crew = current()
    if crew is None or crew.volumes == 1:
        yield from map(work, items)
        return
    begun: deque[Future[Result]] = deque()
    pool = ThreadPoolExecutor(crew.volumes, thread_name_prefix="volume")
    try:
        for item in items:
            begun.append(pool.submit(copy_context().run, work, item))
            if len(begun) >= crew.volumes:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()
    except BaseException:  # Ctrl-C does not wait for volumes that are in the making
        with crew.stopped():
            pool.shutdown(wait=True, cancel_futures=True)
        raise
    pool.shutdown()


class Lacking(Exception):  # noqa: N818  a question, not a fault: what is lacking is sent
    """The receiver has not what a job speaks of, and cannot find it."""


@final
@dataclass
class Shelf(Generic[Content]):
    """What a process keeps of things that come again, the last few of them."""

    room: int
    kept: OrderedDict[str, Content] = field(default_factory=OrderedDict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, key: str, make: Callable[[], Content]) -> Content:
        """What is kept under the key, or else made and kept."""
        with self.lock:
            if key in self.kept:
                self.kept.move_to_end(key)
                return self.kept[key]
        made = make()
        with self.lock:
            self.kept[key] = made
            while len(self.kept) > self.room:
                self.kept.popitem(last=False)
        return made


@final
@dataclass(frozen=True, eq=False)
class Parcel(Generic[Content]):
    """Something large that several jobs need.

    key: of its content. content: None where it was left out. find: how a receiver may come by it alone, such as from a
    file that it sees, too; it answers for the key, and raises Lacking.
    """

    key: str
    content: Content | None
    find: Callable[[], Content] | None = None

    def light(self) -> "Parcel[Content]":
        return replace(self, content=None)

    def open(self, shelf: Shelf[Content]) -> Content:
        """From the shelf, from here, or found."""
        return shelf.get(self.key, self._here)

    def _here(self) -> Content:
        if self.content is not None:
            return self.content
        if self.find is None:
            raise Lacking(self.key)
        return self.find()


def digest(*parts: object) -> str:
    """sha256 of texts, numbers and the bytes of arrays."""
    found = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes | memoryview) else repr(part).encode()
        found.update(f"{len(data)}:".encode())
        found.update(data)
    return found.hexdigest()
