"""How figures and tables of studies look: one size of text, few colours, light axes, aligned columns."""

import warnings
from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

DPI = 160
BLUE, ORANGE, GREEN, GREY = "#1f5fa8", "#d9722b", "#3a8f5c", "0.55"


def figure(width: float, height: float) -> Figure:
    """In inches, with a layout that keeps labels apart."""
    return Figure(figsize=(width, height), layout="constrained")


def finish(axes: Axes, *, title: str = "", x: str = "", y: str = "", legend: bool = True) -> None:
    """Title, labels, a light grid and, where lines have names, a legend."""
    axes.set_title(title, fontsize=11, loc="left", weight="bold")
    axes.set_xlabel(x, fontsize=9.5)
    axes.set_ylabel(y, fontsize=9.5)
    axes.tick_params(labelsize=8.5)
    axes.grid(color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    if legend and axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=8.5, frameon=False)


def write(made: Figure, path: Path) -> None:
    """As PNG, whatever the path is called."""
    with warnings.catch_warnings():
        # matplotlib looks at the clock: on a busy machine the best place of a legend takes it a second
        warnings.filterwarnings("ignore", message='Creating legend with loc="best" can be slow')
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")  # of names in other scripts
        made.savefig(path, format="png", dpi=DPI, facecolor="white")


def caption(made: Figure, text: str) -> None:
    """A small line above all axes; names of files in it may hold a $."""
    made.suptitle(text, fontsize=10, x=0.01, ha="left", color="0.3", parse_math=False)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Cells in columns for a terminal, the first to the left, the others to the right."""
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    lines = ([r[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(r[1:], widths[1:], strict=True))] for r in rows)
    return "\n".join("  ".join(line).rstrip() for line in lines)


def count(n: int, noun: str) -> str:
    """ "1 volume", "8 volumes"."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
