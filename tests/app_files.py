"""A small scan, and the application as its command starts it."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bayesmri.recon.files import PhantomRequest, simulate_file

TOKEN = "a-token-for-tests-0123456789"


def small_scan(path: Path, *, slices: int = 2) -> Path:
    """Fully sampled, two coils, 32 x 36."""
    simulate_file(PhantomRequest("head", shape=(32, 36), slices=slices), path, coils=2, snr_db=40.0, seed=1)
    return path


@contextmanager
def running(folder: Path, *more: str) -> Iterator[str]:
    """The address, while `bayesmri app` runs; it ends by Ctrl+C, without a word."""
    words = [sys.executable, "-m", "bayesmri", "app", str(folder), "--no-open", "--port", "0", "--token", TOKEN, *more]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = server.stdout.readline().removeprefix("open ").strip()
        assert address.endswith(f"/{TOKEN}/"), "it did not start"
        try:
            yield address
        finally:
            server.send_signal(signal.SIGINT)
            assert server.wait(60) == 0
