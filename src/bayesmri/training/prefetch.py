"""Batches prepared ahead by one thread; elements are functions of (step, index), so timing changes nothing."""

import queue
import threading
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Self

import torch

from bayesmri.data.dataset import Batch, Dataset

Item = list[Batch] | BaseException


class Prefetch:
    """The batches of the steps first, first + 1, …, last − 1, at most `depth` ahead."""

    def __init__(self, dataset: Dataset, indices: Sequence[int], *, first: int, last: int, depth: int = 4) -> None:
        self._dataset, self._indices, self._steps = dataset, indices, range(first, last)
        self._queue: queue.Queue[Item] = queue.Queue(maxsize=depth)
        self._stop = threading.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._work, name="prefetch", daemon=True)

    def __enter__(self) -> Self:
        threads = torch.get_num_threads()
        self._thread.start()
        self._ready.wait()
        torch.set_num_threads(threads)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def __iter__(self) -> Iterator[list[Batch]]:
        for _ in self._steps:
            item = self._queue.get()
            if isinstance(item, BaseException):
                raise item
            yield item

    def _work(self) -> None:
        # this thread's own pool: slices are small, and the cores belong to the training step
        torch.set_num_threads(1)
        self._ready.set()
        for step in self._steps:
            try:
                item: Item = self._dataset.batches(step, self._indices)
            except BaseException as error:
                item = error
            if not self._put(item) or isinstance(item, BaseException):
                return

    def _put(self, item: Item) -> bool:
        while not self._stop.is_set():
            try:
                self._queue.put(item, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False
