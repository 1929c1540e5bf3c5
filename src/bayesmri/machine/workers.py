"""Pieces of work side by side, one thread each, with results in their order and the same for any number of workers."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import torch

from bayesmri.machine.cores import usable_cores

Item = TypeVar("Item")
Result = TypeVar("Result")


def n_workers() -> int:
    """As many as torch was told to use threads, within the cores there are."""
    return max(1, min(torch.get_num_threads(), usable_cores()))


def ordered(work: Callable[[Item], Result], items: Iterable[Item], *, workers: int | None = None) -> Iterator[Result]:
    """work(item) of every item, in their order; at most one more than `workers` are begun before they are taken.

    Threads, not processes: tensors and kernels release the interpreter. Inside a worker torch has one thread.
    """
    n = n_workers() if workers is None else workers
    if n == 1:
        yield from map(work, items)
        return
    begun: deque[Future[Result]] = deque()
    pool = ThreadPoolExecutor(n, thread_name_prefix="worker", initializer=torch.set_num_threads, initargs=(1,))
    try:
        for item in items:
            begun.append(pool.submit(work, item))
            if len(begun) > n:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
