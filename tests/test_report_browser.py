"""A page in a real browser: controls change pixels, numbers are the file's, nothing is asked of any other machine."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bayesmri.benchmarks.browser import CHROMIUM, PATIENCE, chromium
from bayesmri.recon.page import report_file
from report_files import SLICES, H, N, W, arrays, volume, write_recon
from test_report_page import hostile

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: see the extra dev")
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium found: see make oracles"),
    pytest.mark.timeout(1200),  # more than one wait of PATIENCE may be long
]


@dataclass(frozen=True)
class Opened:
    """A page as it was opened, with what the browser said meanwhile."""

    page: Any
    requests: list[str]
    complaints: list[str]

    def pixels(self, tile: str) -> str:
        """What a canvas shows, as text to compare."""
        return str(self.page.evaluate(f"document.querySelector('canvas[data-tile={tile}]').toDataURL()"))

    def changed(self, tile: str, before: str) -> None:
        """Wait until a canvas shows something else."""
        self.until(lambda: self.pixels(tile) != before)

    def becomes(self, wanted: dict[str, str]) -> None:
        """Wait until canvases show this."""
        self.until(lambda: {tile: self.pixels(tile) for tile in wanted} == wanted)

    def shows(self, slice_: int) -> None:
        """Wait until a slice is drawn."""
        self.until(lambda: self.page.locator("body").get_attribute("data-shown").startswith(f"{slice_}/"))

    def until(self, true: Callable[[], bool]) -> None:
        """Asked again and again from here: the page's policy lets nobody evaluate texts in it later."""
        last = time.monotonic() + PATIENCE / 1000
        while not true():
            assert time.monotonic() < last, "nothing happened"
            self.settle()

    def drawn(self) -> None:
        """Wait until everything is drawn and nothing moves: what is drawn first may change the sizes of the tiles."""

        looks: list[object] = []

        def still() -> bool:
            looks.append(self.page.evaluate("[...document.querySelectorAll('canvas')].map((one) => one.toDataURL())"))
            return looks[-1:] == looks[-2:-1]

        self.page.wait_for_selector("body[data-shown]")
        self.until(still)

    def settle(self) -> None:
        """Wait until what was asked for is drawn."""
        self.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def move(self, slider: str, value: float) -> None:
        self.page.locator(f"#{slider}").evaluate(
            "(node, value) => { node.value = value; node.dispatchEvent(new Event('input')); }", value
        )

    def value(self, tile: str) -> str:
        """The text beside a tile's name."""
        return str(self.page.locator(f"figure:has(canvas[data-tile={tile}]) .name output").inner_text())


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with playwright.sync_playwright() as driver, chromium(driver, tmp_path_factory.mktemp("home")) as found:
        yield found


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    report_file(write_recon(folder / "full.h5", bound=(volume(5), 0.9)), folder / "full.html")
    report_file(write_recon(folder / "alone.h5", {"reconstruction": volume(0)[:1]}), folder / "alone.html")
    report_file(hostile(folder), folder / "hostile.html")
    return folder


def opened(browser: Any, path: Path, **context: Any) -> Opened:
    page = browser.new_page(viewport={"width": 1000, "height": 800}, **context)
    page.set_default_timeout(PATIENCE)
    requests: list[str] = []
    complaints: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(dialog.message))
    page.goto(path.as_uri())
    page.wait_for_selector("body[data-ready]")
    found = Opened(page, requests, complaints)
    found.drawn()
    return found


@pytest.fixture
def full(browser: Any, written: Path) -> Iterator[Opened]:
    """The page of everything; whatever a test did with it, it asked for nothing and complained of nothing."""
    found = opened(browser, written / "full.html")
    yield found
    assert found.requests == [(written / "full.html").as_uri()]
    assert found.complaints == []
    found.page.close()


def test_the_browser_unpacks_what_the_file_holds(full: Opened) -> None:
    stored = arrays()
    for s in range(SLICES):
        mean, std, error = full.page.evaluate(
            f"studies[0].planes({s})"
            ".then((planes) => [planes.mean, planes.std, planes.error].map((plane) => [...plane]))"
        )
        step = float(stored["reconstruction"][s].max()) / 4095
        np.testing.assert_allclose(np.reshape(mean, (H, W)), stored["reconstruction"][s], atol=step)
        np.testing.assert_allclose(np.reshape(std, (H, W)), stored["uncertainty_std"][s], atol=step)
        wrong = np.abs(stored["reconstruction"][s] - stored["target"][s])
        np.testing.assert_allclose(np.reshape(error, (H, W)), wrong, atol=2 * step)
    samples = full.page.evaluate(
        "studies[0].planes(1).then((planes) => studies[0].sampleImages(1, planes))"
        ".then((all) => all.map((plane) => [...plane]))"
    )
    differences = np.abs(stored["samples"][1] - stored["reconstruction"][1])
    np.testing.assert_allclose(np.reshape(samples, (N, H, W)), stored["samples"][1], atol=differences.max() / 200)


def test_the_slider_and_the_arrows_change_the_slice(full: Opened) -> None:
    before = {tile: full.pixels(tile) for tile in ("mean", "truth", "std", "kspace_mean")}
    assert full.page.locator("#slice-name").inner_text() == f"2 of {SLICES}", "the middle one is shown first"
    full.move("slice", 0)
    for tile, old in before.items():
        full.changed(tile, old)
    assert full.page.locator("tr.current").get_attribute("data-slice") == "0"
    full.page.keyboard.press("ArrowRight")
    full.shows(1)
    assert {tile: full.pixels(tile) for tile in before} == before, "back again"
    full.page.locator("button[data-slice='2']").click()
    full.shows(2)
    full.page.locator("canvas[data-tile=mean]").focus()
    full.page.keyboard.press("ArrowUp")
    full.shows(1)


def test_opacity_changes_the_overlay_and_nothing_else(full: Opened) -> None:
    overlay, mean = full.pixels("overlay"), full.pixels("mean")
    full.move("opacity", 20)
    full.changed("overlay", overlay)
    full.move("opacity", 0)
    full.becomes({"overlay": mean, "mean": mean})  # without colour it is the mean
    full.move("opacity", 70)
    full.becomes({"overlay": overlay, "mean": mean})
    full.page.select_option("#overlay", "bound")
    full.changed("overlay", overlay)


def test_samples_flicker_while_they_play(full: Opened) -> None:
    mean, seen = full.pixels("mean"), {full.pixels("samples")}
    full.move("speed", 12)
    full.page.locator("#play").click()
    for _ in range(50):  # on a busy machine several frames pass between two looks, and the same one may come again
        full.changed("samples", full.pixels("samples"))
        seen.add(full.pixels("samples"))
        if len(seen) >= 3:
            break
    assert len(seen) >= 3
    full.page.locator("#play").click()
    full.drawn()
    still = full.pixels("samples")
    full.page.wait_for_timeout(300)
    assert full.pixels("samples") == still, "paused"
    assert full.pixels("mean") == mean
    full.page.locator("#difference").check()
    full.changed("samples", still)


def test_window_and_level_change_the_greys(full: Opened) -> None:
    mean, std = full.pixels("mean"), full.pixels("std")
    full.move("window", 30)
    full.changed("mean", mean)
    assert full.pixels("std") == std, "maps have their own range"
    grey = full.page.evaluate(
        "() => [...document.querySelector('canvas[data-tile=mean]').getContext('2d').getImageData(0, 0, 1, 1).data]"
    )
    assert grey == [0, 0, 0, 255], "the background lies below the window"
    full.page.locator("#reset").click()
    full.becomes({"mean": mean, "std": std})


def test_zoom_shows_a_part_of_every_image_but_not_of_kspace(full: Opened) -> None:
    before = {tile: full.pixels(tile) for tile in ("mean", "std", "kspace_mean")}
    full.page.keyboard.press("+")
    full.changed("mean", before["mean"])
    assert full.pixels("std") != before["std"]
    assert full.pixels("kspace_mean") == before["kspace_mean"]
    assert full.page.locator("#zoom-name").inner_text() == "150 %"
    full.page.keyboard.press("0")
    full.becomes(before)


def test_the_value_under_the_cursor_is_the_files(full: Opened) -> None:
    canvas = full.page.locator("canvas[data-tile=truth]")
    box = canvas.bounding_box()
    row, column = 12, 5
    canvas.hover(position={"x": (column + 0.5) / W * box["width"], "y": (row + 0.5) / H * box["height"]})
    where, place = full.page.locator("#where"), f"Row {row + 1}, column {column + 1}"
    full.until(lambda: where.inner_text() == place and full.value("truth") != "")
    stored = arrays()
    for tile, name in {"truth": "target", "mean": "reconstruction", "std": "uncertainty_std"}.items():
        assert float(full.value(tile)) == pytest.approx(stored[name][1, row, column], rel=0.01, abs=1e-3)


def test_tiles_can_be_hidden_and_shown(full: Opened) -> None:
    tile = full.page.locator("canvas[data-tile=deterministic]")
    assert not tile.is_visible()
    full.page.get_by_role("checkbox", name="Deterministic").check()
    tile.wait_for(state="visible")
    full.page.get_by_role("checkbox", name="Truth").uncheck()
    full.page.locator("canvas[data-tile=truth]").wait_for(state="hidden")


def test_everything_that_can_be_operated_has_a_name(full: Opened) -> None:
    nameless = full.page.evaluate(
        """() => [...document.querySelectorAll("input, select, button, canvas.picture")]
            .filter((node) => !(node.labels?.length || node.getAttribute("aria-label") || node.textContent.trim()))
            .map((node) => node.outerHTML)"""
    )
    assert nameless == []


@pytest.mark.parametrize("width", [360, 1400])
def test_no_width_makes_the_page_scroll_sideways(browser: Any, written: Path, width: int) -> None:
    found = opened(browser, written / "full.html")
    found.page.set_viewport_size({"width": width, "height": 700})
    found.settle()
    assert found.page.evaluate("document.documentElement.scrollWidth") <= width
    found.page.close()


def test_light_and_dark_follow_the_system(browser: Any, written: Path) -> None:
    papers = []
    for scheme in ("light", "dark"):
        found = opened(browser, written / "full.html", color_scheme=scheme)
        colour = found.page.evaluate("getComputedStyle(document.body).backgroundColor")
        papers.append(sum(int(part) for part in colour.strip("rgb()").split(",")))
        found.page.close()
    assert papers[0] > 600
    assert papers[1] < 150


def test_an_image_alone_is_shown_without_controls_for_what_is_not_there(browser: Any, written: Path) -> None:
    found = opened(browser, written / "alone.html")
    assert found.complaints == []
    assert found.page.locator("#tiles canvas.picture").count() == 1
    assert not found.page.locator("#opacity").is_visible()
    assert found.page.locator("#slice").is_disabled()
    found.page.close()


def test_slices_without_samples_show_none(browser: Any, tmp_path: Path) -> None:
    """Where samples of the middle slices alone fit."""
    rng = np.random.default_rng(1)
    big = {"reconstruction": rng.random((10, 64, 64)), "samples": rng.random((10, 20, 64, 64))}
    made = report_file(write_recon(tmp_path / "a.h5", big), tmp_path / "a.html", megabytes=0.2)
    assert made["samples_shown"] == 6
    found = opened(browser, tmp_path / "a.html")
    filled = found.pixels("samples")
    found.move("slice", 0)
    found.changed("samples", filled)
    colours = found.page.evaluate(
        """() => { const canvas = document.querySelector("canvas[data-tile=samples]");
            return [...new Set(canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data)]; }"""
    )
    assert sorted(colours) == [0, 255], "black"
    assert found.complaints == []
    found.page.close()


def test_a_hostile_file_runs_nothing(browser: Any, written: Path) -> None:
    found = opened(browser, written / "hostile.html")
    assert found.requests == [(written / "hostile.html").as_uri()]
    assert found.complaints == []
    assert found.page.locator("script").count() == 2
    assert found.page.locator("img, b").count() == 0
    about = found.page.locator("figure:has(canvas[data-tile=mean]) .about").inner_text()
    assert "</script><script>alert(1)</script><img src=x" in about
    found.page.close()


def test_the_policy_holds_even_where_a_script_got_in(browser: Any, written: Path) -> None:
    """As if escaping had failed: the browser itself refuses what is not the page's own."""
    text = (written / "full.html").read_text().replace("</main>", "<script>document.title = 'broken'</script></main>")
    (written / "broken.html").write_text(text)
    found = opened(browser, written / "broken.html")
    assert found.page.title() != "broken"
    assert any("Content Security Policy" in complaint for complaint in found.complaints)
    found.page.close()
