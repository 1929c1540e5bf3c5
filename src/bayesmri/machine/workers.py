"""Pieces of work side by side, one thread each: results in their order, with the same bits for any number of workers.

torch sums differently with more threads. So whatever is reconstructed sees one of torch's; what is parallel are slices,
samples, and the bands of rows of kernels whose bits do not depend on it.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch

from bayesmri.machine.cores import usable_cores

Item = TypeVar("Item")
Result = TypeVar("Result")
_here = threading.local()


def n_workers() -> int:
    """As many as torch has threads here, within the cores there are."""
    return max(1, min(torch.get_num_threads(), usable_cores()))


def n_bands() -> int:
    """Threads that one kernel may take, in this thread."""
    return int(getattr(_here, "bands", 0)) or torch.get_num_threads()


@contextmanager
def one_thread() -> Iterator[None]:
    """torch has one thread inside, kernels as many as torch had before."""
    threads, bands = torch.get_num_threads(), getattr(_here, "bands", 0)
    _enter(min(n_bands(), usable_cores()))
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        _here.bands = bands


def ordered(work: Callable[[Item], Result], items: Iterable[Item], *, workers: int | None = None) -> Iterator[Result]:
    """work(item) of every item, in their order; at most `workers` + 1 of them are begun ahead.

    Threads, not processes: tensors and kernels release the interpreter. Of several workers each has one thread.
    """
    n = n_workers() if workers is None else workers
    if n == 1:
        yield from map(work, items)
        return
    begun: deque[Future[Result]] = deque()
    pool = ThreadPoolExecutor(n, thread_name_prefix="worker", initializer=_enter, initargs=(1,))
    try:
        for item in items:
            begun.append(pool.submit(work, item))
            if len(begun) > n:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _enter(bands: int) -> None:
    torch.set_num_threads(1)
    _here.bands = bands
