"""What one waits for in the application: its page, the next slice, and the answer to a planted lesion."""

import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bayesmri.benchmarks.browser import CHROMIUM, PATIENCE, chromium
from bayesmri.errors import MissingExtraError
from bayesmri.machine.optional import needed
from bayesmri.recon.acquisition import Sampling
from bayesmri.recon.files import PhantomRequest, reconstruct_file, simulate_file
from bayesmri.recon.request import Options

IMAGE, SLICES, COILS, R, MODEL = (256, 256), 4, 8, 4.0, "tdv-r4"
PLACE = (128, 140)  # row and column of what is planted
# the frame that follows a slice's own was painted after it
PAINT = """async (s) => {
  const began = performance.now();
  await show(s);
  await new Promise((done) => requestAnimationFrame(done));
  return performance.now() - began;
}"""
PLANT = "([row, column]) => askAt({ row, column }, 'plant').then(() => answers[0].took)"


def app_speed(repeats: int, *, say: Callable[[str], None] = lambda text: None) -> dict[str, float]:
    """Seconds and milliseconds, the best of `repeats`: on loopback, in a real browser."""
    driving = needed("playwright.sync_api", extra="dev", what="the benchmark of the application")
    if CHROMIUM is None:
        raise MissingExtraError("the benchmark of the application needs Chromium, which is not installed: make oracles")
    with tempfile.TemporaryDirectory(prefix="bayesmri-") as place:
        say(f"a scan of {SLICES} slices of {IMAGE[0]}x{IMAGE[1]}, {COILS} coils, and its reconstruction")
        folder = Path(place, "scans")
        name = _prepared(folder)
        with started(folder) as address, driving.sync_playwright() as driver, chromium(driver, Path(place)) as browser:
            say("the page, its slices, and lesions planted")
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            page.set_default_timeout(PATIENCE)
            return _measured(page, address, name, repeats)


@contextmanager
def started(folder: Path) -> Iterator[str]:
    """`bayesmri app` on a folder, as its command starts it; its address."""
    words = [sys.executable, "-m", "bayesmri", "app", str(folder), "--no-open", "--port", "0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().removeprefix("open ").strip()
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(60)


def _prepared(folder: Path) -> str:
    scan, out = folder / "scan.h5", folder / f"scan.{MODEL}.recon.h5"
    simulate_file(PhantomRequest("head", shape=IMAGE, slices=SLICES), scan, coils=COILS, snr_db=30.0, seed=1)
    reconstruct_file(scan, out, Options(model=MODEL), Sampling(R))
    return out.name


def _measured(page: Any, address: str, name: str, repeats: int) -> dict[str, float]:
    loads = [_loaded(page, address) for _ in range(repeats + 1)]
    page.locator(f"#results .pick[data-key='0/{name}']").click()
    page.wait_for_selector("canvas[data-tile=mean]")
    page.wait_for_timeout(2000)  # the neighbours come meanwhile, as they do while one looks at a slice
    paints = [page.evaluate(PAINT, i % SLICES) for i in range(4 * repeats)]
    page.keyboard.press("l")
    row, column = PLACE
    planted = [page.evaluate(PLANT, [row + 3 * i, column]) for i in range(repeats)]
    return {
        "app_page_load_seconds": min(loads),
        "app_slice_paint_ms": sorted(paints)[len(paints) // 2],
        "app_plant_seconds": min(planted),
        "app_first_plant_seconds": planted[0],
    }


def _loaded(page: Any, address: str) -> float:
    """From the first request until the lists are there."""
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_selector("body[data-ready]")
    return float(page.evaluate("performance.getEntriesByName('ready')[0].startTime")) / 1000
