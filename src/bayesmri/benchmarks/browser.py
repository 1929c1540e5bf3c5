"""An installed Chromium, driven by Playwright, which the extra dev installs; none is downloaded."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ARGUMENTS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PATIENCE = 60_000  # milliseconds; a busy machine starts a browser slowly


@contextmanager
def chromium(driver: Any, home: Path) -> Iterator[Any]:
    """home: it writes there, and not every machine lets it write into the user's."""
    root = hasattr(os, "geteuid") and os.geteuid() == 0  # Chromium's sandbox does not work for root
    found = driver.chromium.launch(
        executable_path=CHROMIUM,
        args=[*ARGUMENTS, *(["--no-sandbox"] if root else [])],
        env=os.environ | {"HOME": str(home), "XDG_CONFIG_HOME": str(home), "XDG_CACHE_HOME": str(home)},
        timeout=4 * PATIENCE,
    )
    yield found
    found.close()
