"""Takes the pictures of docs/app.md from the application itself: python scripts/app_pictures.py.

The scan is the head slice of `bayesmri demo`, eight simulated coils, R = 4. Needs the extra dev and Chromium.
"""

import io
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

from bayesmri.benchmarks.app import started
from bayesmri.benchmarks.browser import PATIENCE, chromium
from bayesmri.recon.acquisition import Sampling
from bayesmri.recon.demo import head_slice
from bayesmri.recon.files import reconstruct_file
from bayesmri.recon.request import Options
from bayesmri.recon.work import simulate_images

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
TDV, TV = "head.tdv-r4.recon.h5", "head.tv.recon.h5"


def prepare(folder: Path) -> None:
    """A scan and two results."""
    images = head_slice()
    assert images is not None, "matplotlib came without its sample data"
    simulate_images(images, folder / "head.h5", coils=8, snr_db=30.0, seed=0, config={})
    wanted = {
        TDV: Options(model="tdv-r4", samples=16, visibility=("lesion:3:0.3",)),
        TV: Options(method="tv"),
    }
    for name, options in wanted.items():
        reconstruct_file(folder / "head.h5", folder / name, options, Sampling(acceleration=4.0))


def take(page: Any, name: str, quality: int = 82) -> None:
    with Image.open(io.BytesIO(page.screenshot())) as picture:
        picture.convert("RGB").save(IMAGES / name, quality=quality, optimize=True)


def view(page: Any, name: str) -> None:
    page.locator(f"#results .pick[data-key='0/{name}']").click()
    page.wait_for_selector("canvas[data-tile=mean]")
    page.wait_for_timeout(1500)


def pictures(page: Any, address: str) -> None:
    """Looking, asking, comparing, and on a telephone."""
    page.goto(address)
    page.wait_for_selector("body[data-ready]")
    page.locator("#scans .pick").first.click()
    page.wait_for_selector("#scan:not([hidden])")
    view(page, TDV)
    image = page.locator("canvas[data-tile=mean]")
    image.hover(position={"x": 160, "y": 120})
    page.wait_for_timeout(500)
    take(page, "app.jpg")
    page.keyboard.press("l")
    page.wait_for_timeout(15_000)  # as one who looks first: the slice is made ready meanwhile
    image.click(position={"x": 150, "y": 110})
    page.wait_for_selector(".answer:not(.waits)")
    page.locator("#ask").scroll_into_view_if_needed()
    page.wait_for_timeout(500)
    take(page, "app-ask.jpg")
    page.keyboard.press("w")
    page.get_by_role("button", name=f"Compare with {TV}").click()
    page.wait_for_selector("canvas[data-tile=a_minus_b]")
    page.keyboard.press("b")
    page.mouse.move(500, 300)
    page.wait_for_timeout(1000)
    take(page, "app-compare.jpg")
    page.keyboard.press("b")
    page.set_viewport_size({"width": 390, "height": 844})
    view(page, TDV)
    page.evaluate("window.scrollTo(0, 0)")
    page.wait_for_timeout(500)
    take(page, "app-small.jpg")


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place, "scans")
        prepare(folder)
        with started(folder) as address, sync_playwright() as driver, chromium(driver, Path(place)) as browser:
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            page.set_default_timeout(PATIENCE)
            pictures(page, address)


if __name__ == "__main__":
    main()
