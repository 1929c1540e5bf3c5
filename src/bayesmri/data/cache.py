"""Decoded volumes in memory, within a budget of bytes: files are opened for one read and closed again."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class ArrayCache:
    """The most recently used arrays; safe for several threads. A value larger than the budget is not kept."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.nbytes = 0
        self._arrays: OrderedDict[Hashable, Array] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, load: Callable[[], Array]) -> Array:
        """The array of a key, loaded where it is not there; loads are not serialised, the first to finish is kept."""
        with self._lock:
            if key in self._arrays:
                self._arrays.move_to_end(key)
                return self._arrays[key]
        array = np.ascontiguousarray(load())
        with self._lock:
            if key not in self._arrays and array.nbytes <= self.budget:
                self._arrays[key] = array
                self.nbytes += array.nbytes
                while self.nbytes > self.budget:
                    self.nbytes -= self._arrays.popitem(last=False)[1].nbytes
        return array
