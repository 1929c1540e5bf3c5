"""The application in a real browser: open, run, cancel, compare, plant, measure, drop and download."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from PIL import Image

from app_files import running, small_scan
from bayesmri.benchmarks.browser import CHROMIUM, PATIENCE, chromium
from bayesmri.recon.acquisition import Sampling
from bayesmri.recon.files import reconstruct_file
from bayesmri.recon.request import Options

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: see the extra dev")
pytest.importorskip("starlette", reason="the extra app is not installed")
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium found: see make oracles"),
    pytest.mark.timeout(1200),
]
TV, ZERO = "scan.tv.recon.h5", "scan.zero-filled.recon.h5"
H, W = 32, 36


@dataclass(frozen=True)
class App:
    """The page, what it asked for, and what the browser complained of."""

    page: Any
    address: str
    requests: list[str]
    complaints: list[str]

    def until(self, true: Callable[[], bool]) -> None:
        last = time.monotonic() + PATIENCE / 1000
        while not true():
            assert time.monotonic() < last, "nothing happened"
            self.page.wait_for_timeout(50)

    def pixels(self, tile: str) -> str:
        return str(self.page.evaluate(f"document.querySelector('canvas[data-tile={tile}]').toDataURL()"))

    def view(self, name: str) -> None:
        """Open a result by a click in the list."""
        self.page.locator(f"#results .pick[data-key='0/{name}']").click()
        self.until(
            lambda: self.page.locator("#title").inner_text() == name and self.page.evaluate("studies.length") == 1
        )
        self.page.wait_for_selector("canvas[data-tile=mean]")

    def at(self, tile: str, row: int, column: int) -> dict[str, float]:
        """The middle of a pixel on a tile."""
        box = self.page.locator(f"canvas[data-tile={tile}]").bounding_box()
        return {"x": (column + 0.5) / W * box["width"], "y": (row + 0.5) / H * box["height"]}

    def drag(self, tile: str, start: tuple[int, int], end: tuple[int, int], **options: Any) -> None:
        box = self.page.locator(f"canvas[data-tile={tile}]").bounding_box()
        (x, y), (x2, y2) = (
            (box["x"] + p["x"], box["y"] + p["y"]) for p in (self.at(tile, *start), self.at(tile, *end))
        )
        self.page.mouse.move(x, y)
        self.page.mouse.down(**options)
        self.page.mouse.move(x2, y2, steps=3)
        self.page.mouse.up(**options)

    def probe(self) -> dict[str, str]:
        names, values = (self.page.locator(f"#probe {tag}").all_inner_texts() for tag in ("dt", "dd"))
        return dict(zip(names, values, strict=True))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("app")
    small_scan(made / "scan.h5", slices=3)
    for name, method in ((TV, "tv"), (ZERO, "zero-filled")):
        reconstruct_file(made / "scan.h5", made / name, Options(method=method), Sampling(acceleration=2.0))  # type: ignore[arg-type]
        with h5py.File(made / name, "a") as file:  # sagittal, 2 mm rows, 1 mm columns
            file.attrs["affine"] = np.array([[0, 0, 5, 0], [0, -1.0, 0, 0], [-2.0, 0, 0, 0], [0, 0, 0, 1]])
    return made


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with running(folder) as found:
        yield found


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with playwright.sync_playwright() as driver, chromium(driver, tmp_path_factory.mktemp("home")) as found:
        yield found


@pytest.fixture
def app(browser: Any, address: str) -> Iterator[App]:
    """Whatever a test did, nothing was asked of another machine, and the browser complained of nothing."""
    page = browser.new_page(viewport={"width": 1280, "height": 800}, accept_downloads=True)
    page.set_default_timeout(PATIENCE)
    requests: list[str] = []
    complaints: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(address)
    page.wait_for_selector("body[data-ready]")
    yield App(page, address, requests, complaints)
    assert all(url.startswith((address, f"blob:{address[:20]}")) for url in requests), requests
    assert complaints == []
    page.close()


def test_a_scan_opens_by_its_path_and_says_what_it_is(app: App) -> None:
    app.page.fill("#path", "scan.h5")
    app.page.keyboard.press("Enter")
    app.page.wait_for_selector("#scan:not([hidden])")
    facts = app.page.locator("#scan-facts").inner_text()
    assert f"{H} × {W}" in facts
    assert "fastMRI HDF5" in facts
    app.page.fill("#path", "/etc/passwd")
    app.page.keyboard.press("Enter")
    app.until(lambda: "outside of" in app.page.locator("#trouble").inner_text())
    assert app.complaints.pop().startswith("Failed to load resource"), "the refusal itself"


def test_a_run_shows_progress_and_then_its_image(app: App, folder: Path) -> None:
    app.page.locator("#scans .pick").first.click()
    app.page.wait_for_selector("#scan:not([hidden])")
    app.page.select_option("#model", "tdv-r4")
    app.page.fill("#samples", "200")
    app.page.fill("#template", "")
    app.page.locator("#run").click()
    app.page.wait_for_selector("li[data-state=running] progress[max='600']", state="attached")
    app.page.get_by_role("button", name="Cancel").click()
    app.page.wait_for_selector("li[data-state=cancelled]")
    assert not list(folder.glob("*tdv-r4*")), "nothing is left of it"
    app.page.select_option("#model", "method:zero-filled")
    app.page.locator("#run").click()
    app.until(lambda: bool(made(folder)))
    (path,) = made(folder)
    app.until(lambda: app.page.locator("#title").inner_text() == path.name)
    path.unlink()


def made(folder: Path) -> list[Path]:
    """Results that a test made."""
    return [path for path in folder.glob("[!.]*.recon.h5") if path.name not in (TV, ZERO)]


def test_wheel_keys_and_drags_are_those_of_a_radiologist(app: App) -> None:
    app.view(TV)
    shown = app.page.locator("#slice-name")
    assert shown.inner_text() == "2 of 3"
    app.page.locator("canvas[data-tile=mean]").hover()
    app.page.mouse.wheel(0, 100)
    app.until(lambda: shown.inner_text() == "3 of 3")
    app.page.keyboard.press("Home")
    app.until(lambda: shown.inner_text() == "1 of 3")
    app.page.keyboard.press("PageDown")
    app.until(lambda: shown.inner_text() == "2 of 3")
    before = app.pixels("mean")
    app.drag("mean", (10, 10), (10, 25), button="right")
    app.until(lambda: app.page.locator("#window-name").inner_text() != "100 %")
    app.page.keyboard.press("1")
    app.until(lambda: app.page.locator("#window-name").inner_text() == "100 %")
    app.page.keyboard.press("i")
    app.until(lambda: app.pixels("mean") != before)
    app.page.keyboard.press("i")
    app.page.keyboard.press("+")
    app.until(lambda: app.page.locator("#zoom-name").inner_text() == "150 %")
    app.page.keyboard.press("f")
    app.until(lambda: app.page.locator("#zoom-name").inner_text() == "100 %")
    app.page.keyboard.press("b")
    assert not app.page.locator("#results").is_visible()


def test_ruler_and_region_measure_in_millimetres(app: App, folder: Path) -> None:
    app.view(TV)
    app.page.keyboard.press("m")
    app.drag("mean", (4, 5), (10, 5))  # six rows of 2 mm
    app.until(lambda: "Ruler 12 mm" in app.page.locator("#measures").inner_text())
    app.page.keyboard.press("o")
    app.drag("mean", (8, 8), (16, 16))
    app.until(lambda: "Region" in app.page.locator("#measures").inner_text())
    with h5py.File(folder / TV) as file:
        image = file["reconstruction"][1, 8:17, 8:17]
    rows, columns = np.mgrid[0:9, 0:9]
    inside = ((rows + 0.5) / 9 - 0.5) ** 2 + ((columns + 0.5) / 9 - 0.5) ** 2 <= 0.25
    told = app.page.locator("#measures").inner_text()
    assert f"{inside.sum()} pixels, {2 * inside.sum():g} mm²" in told
    mean = float(next(line for line in told.splitlines() if "±" in line).split(" ±")[0])
    assert mean == pytest.approx(float(image[inside].mean()), rel=0.01)
    app.page.keyboard.press("Delete")
    app.page.keyboard.press("Delete")
    app.until(lambda: app.page.locator("#measures li").count() == 0)
    letters = app.page.evaluate("studies[0].letters")
    assert letters == {"top": "S", "bottom": "I", "left": "A", "right": "P"}


def test_two_results_stand_side_by_side_with_their_difference(app: App, folder: Path) -> None:
    app.view(TV)
    app.page.get_by_role("button", name=f"Compare with {ZERO}").click()
    app.page.wait_for_selector("canvas[data-tile=a_minus_b]")
    row, column = 14, 17
    app.page.locator("canvas[data-tile=b_mean]").hover(position=app.at("b_mean", row, column))
    app.until(lambda: app.probe().get("Row, column") == f"{row + 1}, {column + 1}")
    values = []
    for name in (TV, ZERO):
        with h5py.File(folder / name) as file:
            values.append(float(file["reconstruction"][1, row, column]))
    told = app.probe()
    assert float(told["A Value"]) == pytest.approx(values[0], rel=0.01)
    assert float(told["B Value"]) == pytest.approx(values[1], rel=0.01)
    assert float(told["A − B"]) == pytest.approx(values[0] - values[1], abs=0.01 * values[0])
    before = {tile: app.pixels(tile) for tile in ("mean", "b_mean", "a_minus_b")}
    app.page.keyboard.press("ArrowDown")
    app.until(lambda: all(app.pixels(tile) != old for tile, old in before.items()))
    shown = app.pixels("mean")
    app.page.keyboard.down(" ")
    app.until(lambda: app.pixels("mean") != shown)
    app.page.keyboard.up(" ")
    app.until(lambda: app.pixels("mean") == shown)


def test_a_click_plants_and_the_page_tells_what_would_be_seen(app: App) -> None:
    app.view(TV)
    app.page.keyboard.press("l")
    app.page.locator("canvas[data-tile=mean]").click(position=app.at("mean", 15, 16))
    app.page.wait_for_selector(".answer:not(.waits)")
    told = app.page.locator("#answers").inner_text()
    assert "row 16, column 17" in told
    assert "of its contrast comes through" in told
    app.page.wait_for_selector("canvas[data-tile=whatif_change]")
    app.page.locator("#see").check()
    app.page.locator("canvas[data-tile=mean]").hover(position=app.at("mean", 15, 16))
    app.until(lambda: any(name.startswith("Seen of lesion:4") for name in app.probe()))
    app.page.keyboard.press("x")
    app.page.locator("canvas[data-tile=mean]").click(position=app.at("mean", 15, 16))
    app.until(lambda: "Erased" in app.page.locator("#answers").inner_text())


def test_everything_can_be_taken_away(app: App, folder: Path, tmp_path: Path) -> None:
    app.view(TV)
    for name, ending in (("HDF5", ".h5"), ("NIfTI", ".nii.gz"), ("Report", ".html"), ("PNG of this view", ".png")):
        with app.page.expect_download() as coming:
            app.page.locator("#downloads").get_by_text(name, exact=True).click()
        assert coming.value.suggested_filename.endswith(ending)
        coming.value.save_as(tmp_path / f"taken{ending}")
    assert (tmp_path / "taken.h5").read_bytes() == (folder / TV).read_bytes()
    with Image.open(tmp_path / "taken.png") as picture:
        assert len(set(picture.convert("L").resize((64, 32)).tobytes())) > 20, "it shows something"


def test_a_file_can_be_dropped(app: App, folder: Path) -> None:
    app.page.set_input_files("#file", folder / "scan.h5")
    app.until(lambda: app.page.locator("#scan-drop").is_visible())
    assert app.page.locator("#scan-name").inner_text() == "scan.h5"
    app.page.locator("#scan-forget").click()
    app.until(lambda: not app.page.locator("#scan").is_visible())


@pytest.mark.parametrize("width", [390, 1280])
def test_no_width_scrolls_sideways_and_everything_has_a_name(app: App, width: int) -> None:
    app.page.set_viewport_size({"width": width, "height": 800})
    app.page.locator("#scans .pick").first.click()
    app.page.wait_for_selector("#scan:not([hidden])")
    app.view(TV)
    assert app.page.evaluate("document.documentElement.scrollWidth") <= width
    nameless = app.page.evaluate(
        """() => [...document.querySelectorAll("input, select, button, canvas.picture, progress, aside, main, section")]
            .filter((node) => !(node.labels?.length || node.getAttribute("aria-label")
                || node.getAttribute("aria-labelledby") || node.textContent.trim()))
            .map((node) => node.outerHTML)"""
    )
    assert nameless == []
