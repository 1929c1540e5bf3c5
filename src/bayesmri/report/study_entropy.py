"""The figure and the table of the study `entropy`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib import colormaps
from matplotlib.axes import Axes

from bayesmri.report.figure_style import aligned, count, figure, finish, write

Numbers = Mapping[str, Any]
Row = Mapping[str, Any]


def entropy_figure(path: Path, *, numbers: Numbers) -> None:
    """PSNR over H̄: for every n the span over subsets as a band, its mean as a line; −∞ stands at the left."""
    made = figure(7.2, 4.8)
    axes = made.subplots()
    drawn = sorted((row for row in numbers["rows"] if row["entropy"] is not None), key=lambda row: row["entropy"])
    fixed = [row for row in numbers["rows"] if row["entropy"] is None]
    sizes = sorted({row["n"] for row in drawn})
    for i, n in enumerate(sizes):
        colour = colormaps["viridis"](0.9 * i / max(1, len(sizes) - 1))
        _band(axes, [row for row in drawn if row["n"] == n], colour, f"mean of {n} samples" if n > 1 else "one sample")
    at_mean = {row["entropy"]: row["psnr_deterministic"] for row in drawn}
    axes.plot(list(at_mean), list(at_mean.values()), "k--", marker="x", linewidth=1, markersize=5, label="at μ")
    _deterministic(axes, fixed, list(at_mean))
    shown = f"R = {numbers['acceleration']:g}, {count(len(numbers['volumes']), 'volume')}"
    finish(axes, title="PSNR against mean entropy", x=f"H̄ ({shown})", y="PSNR, dB")
    write(made, path)


def _band(axes: Axes, rows: list[Row], colour: Any, label: str) -> None:
    x = [row["entropy"] for row in rows]
    low, mean, high = ([row[f"psnr_{key}"] for row in rows] for key in ("low", "mean", "high"))
    axes.fill_between(x, low, high, color=colour, alpha=0.25, linewidth=0)
    axes.vlines(x, low, high, color=colour, linewidth=3, alpha=0.5)  # a band of one model has no width
    axes.plot(x, mean, "o-", color=colour, markersize=4, linewidth=1.4, label=label)


def _deterministic(axes: Axes, rows: list[Row], entropies: list[float]) -> None:
    """Models that draw nothing, left of the others at a place that is named −∞."""
    if not rows:
        return
    if not entropies:
        axes.plot([0.0] * len(rows), [row["psnr_mean"] for row in rows], "ks", markersize=5, label="deterministic")
        axes.set_xticks([0.0], ["−∞"])
        return
    low, high = min(entropies), max(entropies)
    place = low - max(1.0, 0.2 * (high - low))
    axes.plot([place] * len(rows), [row["psnr_mean"] for row in rows], "ks", markersize=5, label="deterministic")
    ticks = [t for t in axes.get_xticks() if low - 0.3 * (low - place) <= t <= high + 0.1 * (high - low)]
    axes.axvline((low + place) / 2, color="0.8", linewidth=0.8, linestyle=":")
    axes.set_xticks([place, *ticks], ["−∞", *(f"{t:g}".replace("-", "−") for t in ticks)])


def entropy_text(numbers: Numbers) -> str:
    """One line per model and n."""
    heads = ["model", "beta", "entropy", "n", "PSNR/dB", "low", "high", "at μ"]
    rows = [heads]
    for row in numbers["rows"]:
        beta = "" if row["beta"] is None else f"{row['beta']:g}"
        entropy = "−∞" if row["entropy"] is None else f"{row['entropy']:.2f}"
        scores = [f"{row[key]:.2f}" for key in ("psnr_mean", "psnr_low", "psnr_high", "psnr_deterministic")]
        rows.append([row["model"], beta, entropy, str(row["n"]), *scores])
    return aligned(rows)
