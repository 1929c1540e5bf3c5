"""Loaded by the workers of this machine: Ctrl-C reaches all processes of a terminal, and is for the command alone."""

import signal
import threading
from typing import Any


def dask_setup(worker: Any) -> None:
    """Called by Dask in the main thread of a worker."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
