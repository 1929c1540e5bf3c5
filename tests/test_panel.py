"""The panel shows every image in one window and true shape, and states how far the error is magnified."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from bayesmri.errors import OutputError, ShapeError
from bayesmri.metrics import Metrics
from bayesmri.report.panel import DPI, GREY, HEAD, MARGIN, TILE, PanelStyle, comparison, error_style, panel, window


def ramp(h: int, w: int, top: float = 1.0) -> NDArray[np.float64]:
    return np.linspace(0, top, h * w).reshape(h, w)


def pixels(path: Path) -> NDArray[np.uint8]:
    return np.asarray(Image.open(path).convert("RGB"))


def at(shown: NDArray[np.uint8], x: float, y: float) -> list[int]:
    """The colour at inches from the left and from the top."""
    colour: list[int] = shown[int(y * DPI), int(x * DPI)].tolist()
    return colour


def test_a_very_wide_image_makes_no_very_wide_picture(tmp_path: Path) -> None:
    panel(tmp_path / "wide.png", comparison(None, {"a": np.ones((9, 301)), "b": np.ones((9, 301))}))
    assert pixels(tmp_path / "wide.png").shape[1] < 6000


def test_images_share_the_window_of_the_first(tmp_path: Path) -> None:
    grey = [np.full((20, 20), level) for level in (4.0, 2.0, 9.0)]
    panel(tmp_path / "p.png", [("t", image, GREY) for image in grey])
    shown = pixels(tmp_path / "p.png")
    middle = MARGIN + HEAD + TILE / 2
    colours = [at(shown, MARGIN + (TILE + 0.06) * i + TILE / 2, middle)[0] for i in range(3)]
    assert colours[0] == colours[2] == 255
    assert colours[1] == pytest.approx(127, abs=1)


@pytest.mark.parametrize(("h", "w", "aspect"), [(40, 60, 1.0), (41, 33, 1.0), (40, 40, 0.5)])
def test_images_keep_their_shape(tmp_path: Path, h: int, w: int, aspect: float) -> None:
    panel(tmp_path / "p.png", [("", np.ones((h, w)), PanelStyle(cmap="winter"))], pixel_aspect=aspect)
    coloured = np.argwhere(np.ptp(pixels(tmp_path / "p.png").astype(int), axis=-1) > 30)
    (top, left), (bottom, right) = coloured.min(axis=0), coloured.max(axis=0) + 1
    assert (right - left) / (bottom - top) == pytest.approx(w / (h * aspect), rel=0.01)


def test_the_error_map_states_its_magnification() -> None:
    truth = ramp(16, 15)
    metrics = Metrics(nmse=0.1, psnr=31.234, ssim=0.9126)
    tiles = comparison(truth, {"Zero-filled": 0.5 * truth, "TV": truth + 0.03}, {"TV": metrics})
    assert [title for title, _, _ in tiles] == [
        "Truth\nfully sampled", "Zero-filled", "TV\nPSNR 31.23 dB   SSIM 0.913", "Error ×20\n|TV − truth|",
    ]  # fmt: skip
    _, error, style = tiles[-1]
    np.testing.assert_allclose(error, 0.03)
    assert style.label
    assert [image_style for _, _, image_style in tiles[:-1]] == [GREY] * 3


def test_without_a_truth_there_is_no_error_map() -> None:
    assert [title for title, _, _ in comparison(None, {"Zero-filled": ramp(8, 8)})] == ["Zero-filled"]


@pytest.mark.parametrize(("level", "scale"), [(0.0, 1000), (0.004, 200), (0.19, 5), (0.6, 1), (7.0, 1)])
def test_the_scale_is_the_largest_round_one_that_fits(level: float, scale: float) -> None:
    assert error_style(np.full((9, 9), level), 1.0).scale == scale


def test_the_window_ignores_a_few_bright_pixels_and_is_never_zero() -> None:
    image = np.ones((100, 100))
    image[0, :3] = 50
    assert window(image) == 1
    assert window(np.zeros((9, 9))) == 1
    dot = np.zeros((100, 100))
    dot[5, 5] = 3
    assert window(dot) == 3


def test_a_whole_panel_is_drawn_in_colour_and_twice_the_same(tmp_path: Path) -> None:
    tiles = comparison(ramp(32, 31), {"a $x_$ {name}": ramp(32, 31, 0.9)})
    tiles.append(("Standard deviation", 0.1 * ramp(32, 31), PanelStyle("viridis", 10, "σ, % of white")))
    for name in ("a.png", "b.png"):
        panel(tmp_path / name, tiles)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    shown = pixels(tmp_path / "a.png")
    assert np.ptp(shown[:, : shown.shape[1] // 3], axis=-1).max() == 0  # greys
    assert np.ptp(shown.astype(int)[:, shown.shape[1] // 2 :], axis=-1).max() > 100  # maps


def test_a_dark_image_is_drawn(tmp_path: Path) -> None:
    panel(tmp_path / "p.png", comparison(np.zeros((8, 8)), {"x": np.zeros((8, 8))}))
    assert (tmp_path / "p.png").stat().st_size > 0


def test_what_cannot_be_drawn_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="TV holds 1 NaN"):
        panel(tmp_path / "p.png", [("TV\nsmall", np.where(ramp(8, 8) == 1, np.nan, 1), GREY)])
    with pytest.raises(ShapeError, match=r"\(2, 8, 8\)"):
        panel(tmp_path / "p.png", [("TV", np.ones((2, 8, 8)), GREY)])
    with pytest.raises(ShapeError, match="no images"):
        panel(tmp_path / "p.png", [])
    assert list(tmp_path.iterdir()) == []
