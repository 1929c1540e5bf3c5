"""The figure and the table of the study `compare`."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator

from bayesmri.report.figure_style import GREY, aligned, caption, count, figure, finish, write
from bayesmri.report.study_methods import area_text, colours, key_line, label, percent_axes, roc_axes, short_names

Numbers = Mapping[str, Any]
Value = Callable[[Numbers], float | None]
SHOWN = 0.001  # of all pixels: emptier bins of the reliability diagram are noise


def compare_figure(path: Path, *, numbers: Numbers) -> None:
    """Against compute: rank correlation, sparsification, PSNR; below: reliability and both ROC curves."""
    methods = numbers["methods"]
    made = figure(15.5, 8.8)
    upper, lower = made.subplots(2, 3)
    _against_compute(upper[0], methods, lambda row: row["spearman"])
    finish(
        upper[0], title="Rank correlation of σ̂ and |error|", x=COMPUTE, y="Spearman's ρ, mean of slices", legend=False
    )
    _against_compute(upper[1], methods, way)
    percent_axes(upper[1], x=False)
    finish(upper[1], title="Sparsification", x=COMPUTE, y="way from random (0) to oracle", legend=False)
    _against_compute(upper[2], methods, lambda row: row["psnr"])
    finish(upper[2], title="Quality of the image", x=COMPUTE, y="PSNR, dB")
    _reliability(lower[0], methods)
    roc_axes(lower[1], methods, "structures", "Planted structures: ROC of σ̂")
    roc_axes(lower[2], methods, "pixels", "Their pixels: ROC of σ̂")
    made_of = f"{count(numbers['slices'], 'slice')} of {count(numbers['volumes'], 'volume')}"
    caption(made, f"R = {numbers['acceleration']:g}, {made_of}, foreground. {key_line(methods)}")
    write(made, path)


COMPUTE = "compute of a slice of 256 x 256, GFLOP"


def way(row: Numbers) -> float | None:
    """1 − AUSE / AUSE of a random order."""
    if row["ause"] is None or not row["ause_random"]["mae"] > 0:
        return None
    return float(1 - row["ause"]["mae"] / row["ause_random"]["mae"])


def _against_compute(axes: Axes, methods: Sequence[Numbers], value: Value) -> None:
    """A line over the number of samples, its last point strong; a point where there is no such number."""
    for method, name, colour in zip(methods, short_names(methods), colours(methods), strict=True):
        known = [(row["gflop"], v) for row in method["ladder"] if (v := value(row)) is not None]
        if not known:
            continue
        x, y = zip(*known, strict=True)
        axes.plot(x, y, "-", color=colour, linewidth=1.5, alpha=0.8)
        axes.plot(x[:-1], y[:-1], "o", color=colour, markersize=3)
        passes = count(method["passes"], "pass") if method["passes"] == 1 else f"{method['passes']} passes"
        axes.plot(x[-1], y[-1], "o", color=colour, markersize=8, label=f"{name}, {passes}")
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(lambda v, _: f"{v:g}")
    axes.minorticks_off()


def _reliability(axes: Axes, methods: Sequence[Numbers]) -> None:
    seen: list[float] = []
    for method, name, colour in zip(methods, short_names(methods), colours(methods), strict=True):
        found = method["foreground"]
        rows = [r for r in found["reliability"] if r["pixels"] >= SHOWN * found["pixels"] and r["std"] > 0]
        std, rms = ([100 * r[key] for r in rows] for key in ("std", "rms_error"))
        ratio = found["rms_error_over_rms_std"]
        text = f"{name}: error {'∞' if ratio is None else f'{ratio:.2g}'} σ̂"
        axes.loglog(std, rms, "o-", color=colour, markersize=3, linewidth=1.4, label=text)
        seen += [v for v in (*std, *rms) if v > 0]
    if seen:
        ends = [min(seen) / 1.3, max(seen) * 1.3]
        axes.loglog(ends, ends, "--", color=GREY, linewidth=1, label="honest")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda v, _: f"{v:g}")
    finish(axes, title="Reliability", x="σ̂, % of the truth's maximum", y="RMS error, % of the truth's maximum")


def compare_text(numbers: Numbers) -> str:
    """One row per method: cost, quality, and how well σ̂ knows the error."""
    heads = ["method", "weights", "passes", "GFLOP", "s/slice", "PSNR/dB", "ρ", "AUSE", "random", "error/σ̂", "in ±2σ̂"]
    heads += ["area by structure", "area by pixel"]
    rows = [[label(method), *_cells(method)] for method in numbers["methods"]]
    first = numbers["methods"][0]
    return "\n".join(
        [
            aligned([heads, *rows]),
            f"Equal compute: what draws has as many passes as cost what {first['passes']} of {first['method']} "
            "do, counted in convolutions on a slice of 256 x 256; the others have the passes they have.",
        ]
    )


def _cells(method: Numbers) -> list[str]:
    found = method["foreground"]
    ratio, rho = found["rms_error_over_rms_std"], found["spearman"]
    within = next(row["share"] for row in found["coverage"] if row["k"] == 2)
    return [
        f"{method['parameters'] / 1e6:.2f} M",
        str(method["passes"]),
        f"{method['gflop']:.0f}",
        f"{method['seconds_per_slice']:.2f}",
        f"{method['psnr']:.2f}",
        "none" if rho is None else f"{rho:.3f}",
        f"{found['ause']['mae']:.3f}",
        f"{found['ause_random']['mae']:.3f}",
        "∞" if ratio is None else f"{ratio:.2f}",
        f"{100 * within:.0f} %",
        area_text(method["structures"]),
        area_text(method["pixels"]),
    ]
