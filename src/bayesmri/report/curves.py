"""The figure and the table of `curves`: how trainings went."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib import colormaps

from bayesmri.report.figure_style import aligned, figure, finish, write

Numbers = Mapping[str, Any]
SMOOTH = 0.8  # of the loss, which is noisy: the share of the past in a moving average


def curves_figure(path: Path, *, numbers: Numbers) -> None:
    """Loss | gain over zero filling on held-out slices, both over hours; dotted lines part the runs of a training."""
    made = figure(11, 4.4)
    left, right = made.subplots(1, 2)
    colours = colormaps["tab10"].colors  # type: ignore[attr-defined]
    for i, curve in enumerate(numbers["curves"]):
        colour = colours[i % len(colours)]
        hours, values = [p["hours"] for p in curve["loss"]], _smooth([p["loss"] for p in curve["loss"]])
        left.plot(hours, values, color=colour, linewidth=1.2, label=curve["name"])
        points = curve["validation"]
        gains = [p["psnr"] - p["psnr_zero_filled"] for p in points]
        right.plot([p["hours"] for p in points], gains, ".-", color=colour, linewidth=1.4, label=curve["name"])
        end = 0.0
        for run in curve["runs"][:-1]:
            end += run["hours"]
            left.axvline(end, color=colour, linewidth=0.5, linestyle=":")
            right.axvline(end, color=colour, linewidth=0.5, linestyle=":")
    finish(left, title="Loss in training, smoothed", x="hours", y="J", legend=False)
    finish(right, title="Gain over zero filling, held-out subjects", x="hours", y="dB")
    write(made, path)


def curves_text(numbers: Numbers) -> str:
    """One line per training; the best validation and when it was."""
    rows = [["training", "runs", "updates", "hours", "zero-filled", "PSNR/dB", "best", "after hours"]]
    for curve in numbers["curves"]:
        runs, points = curve["runs"], curve["validation"]
        judged = ["none"] * 4
        if points:
            best = max(points, key=lambda point: point["psnr"])
            judged = [f"{v:.2f}" for v in (points[-1]["psnr_zero_filled"], points[-1]["psnr"], best["psnr"])]
            judged.append(f"{best['hours']:.2f}")
        updates, hours = sum(run["updates"] for run in runs), sum(run["hours"] for run in runs)
        rows.append([curve["name"], str(len(runs)), f"{updates:,}", f"{hours:.2f}", *judged])
    return aligned(rows)


def _smooth(values: list[float]) -> list[float]:
    made: list[float] = []
    for value in values:
        made.append(value if not made else SMOOTH * made[-1] + (1 - SMOOTH) * value)
    return made
