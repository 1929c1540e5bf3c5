"""Truth | estimates | standard deviation | error in one row and one grey window; maps carry their own colour bar."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from warnings import catch_warnings, filterwarnings

import numpy as np
from numpy.typing import NDArray

from bayesmri.bounded import one_line, printable
from bayesmri.bounds.bound import percent
from bayesmri.errors import ShapeError
from bayesmri.io.atomic import atomic_path, check_values
from bayesmri.metrics import Metrics

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Image = NDArray[np.floating]

DPI = 200
TILE, GAP, MARGIN, HEAD = 3.0, 0.06, 0.08, 0.48  # inches: an image's height, space between, border, title
TITLE_WIDTH, TILE_MAX = 2.1, 6.0  # inches: narrow images grow until their titles fit, or to this height
WIDTH_MAX = 9.0  # inches: a very wide image shrinks instead of making a very wide picture
BAR, BAR_TEXT = 0.09, 0.48  # inches: a colour bar's width, its numbers and label
QUANTILE = 0.995  # of the reference image, shown white: a few bright vessels must not darken the rest
LETTER, LINE, MOST_LINES = 0.075, 0.16, 12  # inches of a caption's letter and line; of these, the most
RED = "#b00020"
ERROR = "error, % of white"
ERROR_STD = "typical error, % of white"
SCALES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


@dataclass(frozen=True)
class PanelStyle:
    """How one image of a panel is drawn.

    cmap: a matplotlib colour map.
    scale: white (the top colour) stands for 1/scale of the panel's window.
    label: what a colour bar in percent of the window measures; without a label there is none.
    """

    cmap: str = "gray"
    scale: float = 1.0
    label: str = ""


GREY = PanelStyle()

Tile = tuple[str, Image, PanelStyle]


def panel(path: Path, images: Sequence[Tile], *, pixel_aspect: float = 1.0, warnings: Sequence[str] = ()) -> None:
    """Write the images (title, (h, w), style) side by side as a PNG.

    The window runs from 0 to a high quantile of the first image. The first line of a title is bold, the rest small.

    pixel_aspect: height of a pixel over its width. warnings: sentences for a red caption below.
    """
    if not images:
        raise ShapeError("got a panel of no images, expected at least one")
    for title, image, _ in images:
        if image.ndim != 2:
            raise ShapeError(f"got an image {image.shape} for {title!r}, expected (h, w)")
        check_values(title.split("\n")[0], image)
    figure = _figure(images, window(images[0][1]), pixel_aspect, warnings)
    with atomic_path(path) as temporary, catch_warnings():
        filterwarnings("ignore", message="Glyph .* missing from font")  # of names in scripts that it has no letters of
        figure.savefig(temporary, format="png", dpi=DPI, facecolor="white")


def comparison(
    truth: Image | None,
    estimates: Mapping[str, Image],
    metrics: Mapping[str, Metrics] | None = None,
    *,
    std: tuple[Image, int] | None = None,
    predicted: bool = False,
    bound: tuple[Image, float] | None = None,
    error_std: Image | None = None,
) -> list[Tile]:
    """The tiles truth | estimates… | std | error bound | error of the last estimate, as far as they are known.

    metrics: of the whole volume, by the estimate's name, for the small line under its title.
    std: the pixelwise standard deviation, and of how many samples; predicted: from these, of many more. Of 0 samples it
        is what the network itself predicts.
    error_std: σ_total, the expected size of the error.
    bound: of the error at every pixel, and its level. Bound and error are shown in the same colours and scale.
    """
    known = metrics or {}
    tiles: list[Tile] = []
    if truth is not None:
        tiles.append(("Truth\nfully sampled", truth, GREY))
    shown = {name: one_line(name) for name in estimates}
    for name, image in estimates.items():
        tiles.append((f"{shown[name]}\n{_caption(known[name])}" if name in known else shown[name], image, GREY))
    if std is not None:
        style = std_style(std[0], window(tiles[0][1] if tiles else std[0]))
        origin = f"{'predicted from' if predicted else 'of'} {std[1]} samples" if std[1] else "predicted"
        tiles.append((f"Std ×{style.scale:g}\n{origin}", std[0], style))
    if error_std is not None:
        style = replace(bound_style(error_std, window(tiles[0][1] if tiles else error_std)), label=ERROR_STD)
        tiles.append((f"Typical error ×{style.scale:g}\nstd, learned", error_std, style))
    if bound is not None:
        style = bound_style(bound[0], window(tiles[0][1] if tiles else bound[0]))
        tiles.append((f"Error bound ×{style.scale:g}\ncalibrated at {percent(bound[1])} %", bound[0], style))
    if truth is not None and estimates:
        error = np.abs(list(estimates.values())[-1] - truth)
        style = replace(style, label=ERROR) if bound is not None else error_style(error, window(truth))
        tiles.append((f"Error ×{style.scale:g}\n|{list(shown.values())[-1]} − truth|", error, style))
    return tiles


def visibility_tiles(maps: Mapping[str, Image], first: Image) -> list[Tile]:
    """Maps in percent, by the names of their templates, beside tiles whose first image is given."""
    white = window(first)
    style = PanelStyle(cmap="cividis", label="visible, %")
    return [(f"Visibility\n{name}", image * (white / 100), style) for name, image in maps.items()]


def error_style(error: Image, white: float) -> PanelStyle:
    """The largest round scale at which nearly all of the error map still fits its colours."""
    return PanelStyle(cmap="inferno", scale=fitting_scale(error, white), label=ERROR)


def bound_style(bound: Image, white: float) -> PanelStyle:
    """The same for a bound of the error."""
    return PanelStyle(cmap="inferno", scale=fitting_scale(bound, white), label="bound, % of white")


def std_style(std: Image, white: float) -> PanelStyle:
    """The same for a standard deviation, in colours that cannot be taken for an error's."""
    return PanelStyle(cmap="viridis", scale=fitting_scale(std, white), label="std, % of white")


def fitting_scale(image: Image, white: float) -> float:
    """The largest of the round scales at which nearly all of a map stays below the window's white."""
    level = float(np.quantile(image, QUANTILE)) / white
    fitting = [scale for scale in SCALES if level * scale <= 1]
    return fitting[-1] if fitting else 1


def window(image: Image) -> float:
    """The grey level shown white: a high quantile, or the maximum where nearly all is dark; never 0."""
    return float(np.quantile(image, QUANTILE)) or float(image.max()) or 1.0


def _caption(metrics: Metrics) -> str:
    return f"PSNR {metrics.psnr:.2f} dB   SSIM {metrics.ssim:.3f}"


def _figure(images: Sequence[Tile], white: float, pixel_aspect: float, warnings: Sequence[str]) -> "Figure":
    """Every axes placed by hand, in inches from the lower left corner: no layout engine leaves so little space."""
    aspects = [image.shape[1] / (image.shape[0] * pixel_aspect) for _, image, _ in images]
    tile = min(TILE_MAX, max(TILE, TITLE_WIDTH / min(aspects)), WIDTH_MAX / max(aspects))
    widths = [tile * aspect for aspect in aspects]
    bars = [GAP + BAR + BAR_TEXT if style.label else 0.0 for _, _, style in images]
    total = 2 * MARGIN + sum(widths) + sum(bars) + GAP * (len(images) - 1)
    lines = caption_lines(list(map(printable, warnings)), round((total - 2 * MARGIN) / LETTER))
    foot = MARGIN + LINE * len(lines)
    height = MARGIN + tile + HEAD + foot
    from matplotlib.figure import Figure  # it costs 0.3 s, which results without pictures need not pay

    figure = Figure(figsize=(total, height))
    if lines:
        where = (MARGIN / total, MARGIN / 2 / height)
        figure.text(*where, "\n".join(lines), fontsize=9, color=RED, va="bottom", linespacing=1.2, parse_math=False)
    left = MARGIN
    for (title, image, style), width, bar in zip(images, widths, bars, strict=True):
        axes = figure.add_axes((left / total, foot / height, width / total, tile / height))
        axes.imshow(image, cmap=style.cmap, vmin=0, vmax=white / style.scale, aspect="auto")
        axes.set_axis_off()
        _title(axes, title, HEAD / tile)
        if style.label:
            place = ((left + width + GAP) / total, foot / height, BAR / total, tile / height)
            _colour_bar(figure.add_axes(place), style)
        left += width + bar + GAP
    return figure


def caption_lines(warnings: Sequence[str], width: int) -> list[str]:
    """ "Warning: …", wrapped to `width` letters; what is too much for a caption is counted."""
    wrapped = [textwrap.wrap(f"Warning: {text}", max(20, width)) for text in warnings]
    kept: list[str] = []
    for i, lines in enumerate(wrapped):
        if kept and len(kept) + len(lines) > MOST_LINES:
            return [*kept, f"Warning: {len(wrapped) - i} more, in the HDF5 file"]
        kept += lines[:MOST_LINES]
    return kept


def _title(axes: "Axes", title: str, up: float) -> None:
    """Bold first line, small second, in the space `up` (in heights of the image) above it."""
    first, _, rest = printable(title).partition("\n")
    inside = axes.transAxes
    # parse_math: names of files may hold a $
    axes.text(0, 1 + 0.66 * up, first, transform=inside, fontsize=12, weight="bold", va="center", parse_math=False)
    axes.text(0, 1 + 0.23 * up, rest, transform=inside, fontsize=9.5, color="0.3", va="center", parse_math=False)


def _colour_bar(axes: "Axes", style: PanelStyle) -> None:
    """From 0 to the top of the style's range, in percent of the window."""
    top = 100 / style.scale
    ramp = np.linspace(0, 1, 256)[:, None]
    axes.imshow(ramp, cmap=style.cmap, origin="lower", aspect="auto", extent=(0, 1, 0, top))
    axes.set_xticks([])
    axes.yaxis.tick_right()
    axes.yaxis.set_label_position("right")
    axes.locator_params(axis="y", nbins=5)
    axes.tick_params(labelsize=8.5, length=2, pad=2)
    axes.set_ylabel(style.label, fontsize=8.5, labelpad=3)
    for spine in axes.spines.values():
        spine.set_linewidth(0.5)
