"""Methods with a standard deviation at equal compute: do they know where they err, how much, and what they invent?"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator
from numpy.typing import NDArray

from bayesmri.analysis.hallucination import MULTIPLE, SHARE
from bayesmri.analysis.intervals import Judgement, check_judged, judge, judge_volume, together
from bayesmri.analysis.quality import foreground
from bayesmri.evaluation.cohort import Volumes, rules, taken
from bayesmri.evaluation.request import SAMPLES, Request
from bayesmri.evaluation.table import sampling_of
from bayesmri.metrics import volume_metrics
from bayesmri.recon.files import Progress
from bayesmri.recon.reconstruct import Reconstruction
from bayesmri.recon.undersample import undersample
from bayesmri.report.figure_style import GREY, aligned, caption, count, figure, finish, write
from bayesmri.report.method_axes import area_text, colours, key_line, label, percent_axes, roc_axes, short_names
from bayesmri.studies.base import Outcome
from bayesmri.studies.hallucination import Tally, check_names, reconstructed, steps
from bayesmri.studies.plant import plant_volume
from bayesmri.studies.reliability import truth_and_spread
from bayesmri.studies.spreads import Spread, equal_samples, same_coils, spread

GRID = (256, 256)  # of the slice that costs are counted on
REGION = "foreground"  # air is easy and would flatter all
Images = NDArray[np.float32]


Numbers = Mapping[str, Any]
Value = Callable[[Numbers], float | None]
SHOWN = 0.001  # of all pixels: emptier bins of the reliability diagram are noise
COMPUTE = "compute of a slice of 256 x 256, GFLOP"


@dataclass(eq=False)
class Entry:
    """One method. planted: what it made of structures. ladder: by n, of its first n samples alone."""

    spread: Spread
    samples: int
    planted: Tally
    judged: list[Judgement] = field(default_factory=list)
    psnr: list[float] = field(default_factory=list)
    ladder: dict[int, tuple[list[Judgement], list[float]]] = field(default_factory=dict)
    seconds: float = 0.0
    slices: int = 0

    def add(self, result: Reconstruction) -> None:
        """A volume without planted structures."""
        mean, std, truth = truth_and_spread(result)
        self.judged += judge_volume(mean, std, truth)[REGION]
        self.psnr.append(volume_metrics(mean, truth).psnr)
        self.seconds += result.seconds
        self.slices += len(mean)
        for n, first, spread_of in _subsets(result):
            judgements, scores = self.ladder.setdefault(n, ([], []))
            judgements += _foreground(first, spread_of, truth)
            scores.append(volume_metrics(first, truth).psnr)

    def numbers(self, *, seed: int) -> dict[str, Any]:
        """JSON values; gflop: of the convolutions of one slice of 256 x 256."""
        cost = self.spread.cost(GRID) / 1e9
        passes = self.spread.passes(self.samples)
        found = together(self.judged)
        check_judged(found)
        own = {"n": passes, "gflop": passes * cost, **_brief(found), "psnr": float(np.mean(self.psnr))}
        rows = [
            {"n": n, "gflop": n * cost, **_brief(together(judged)), "psnr": float(np.mean(psnr))}
            for n, (judged, psnr) in sorted(self.ladder.items())
        ]
        planted = self.planted.numbers(seed=seed)
        kept = ("structures", "structures_over_contrast", "pixels", "kinds", "alarms", "bound")
        return {
            **self.spread.facts(),
            "samples": self.samples if self.spread.draws else 0,
            "passes": passes,
            "gflop": passes * cost,
            "seconds_per_slice": self.seconds / self.slices,
            "psnr": own["psnr"],
            REGION: found.full(),
            "ladder": [*rows, own],
            **{key: planted[key] for key in kept},
        }


def compare_study(request: Request, progress: Progress | None) -> Outcome:
    """The questions of `reliability` and `hallucination` to all methods, on the same data."""
    spreads = [spread(text) for text in request.models]
    check_names(spreads)
    taker = same_coils(spreads)
    samples = equal_samples(spreads, request.samples or SAMPLES, GRID)
    entries = [Entry(s, n, Tally(s, n)) for s, n in zip(spreads, samples, strict=True)]
    volumes = Volumes(request)
    with steps(progress, request, times=2) as advance:
        for path, full in volumes:
            own = taken(full, taker)
            lines = sampling_of(path, request.accelerations[0], rules(request))
            plain = undersample(own, lines)
            planted, structures = plant_volume(own, seed=request.seed, name=path.name)
            planted = undersample(planted, lines)
            for entry in entries:
                entry.add(
                    entry.spread(
                        plain,
                        samples=entry.samples,
                        seed=request.seed,
                        device=request.device,
                        keep=True,
                    )
                )
                advance()
                entry.planted.add(reconstructed(entry.planted, planted, request), structures)
                advance()
    numbers = {
        "acceleration": request.accelerations[0],
        "samples": request.samples,
        **volumes.facts(),
        "volumes": len(volumes.used),
        "slices": entries[0].slices,
        "wrong_structure_share": SHARE,
        "wrong_pixel_multiple": MULTIPLE,
        "methods": [entry.numbers(seed=request.seed) for entry in entries],
    }
    inputs = (*volumes.used, *(member.path for s in spreads for member in s.members))
    return Outcome(numbers, partial(compare_figure, numbers=numbers), compare_text(numbers), inputs)


def _subsets(result: Reconstruction) -> Iterator[tuple[int, Images, Images]]:
    """n, mean and standard deviation of the first n = 2, 4, 8, … samples, fewer than all."""
    if result.samples is None:
        return
    n = 2
    while n < result.samples.shape[1]:
        first = result.samples[:, :n]
        yield n, first.mean(axis=1), first.std(axis=1)
        n *= 2


def _foreground(mean: Images, std: Images, truth: Images) -> list[Judgement]:
    """As `judge_volume`, of one region."""
    peak = float(truth.max())
    inside = foreground(truth)
    return [judge(s[w] / peak, (X[w] - Y[w]) / peak) for X, s, Y, w in zip(mean, std, truth, inside, strict=True)]


def _brief(found: Judgement) -> dict[str, Any]:
    brief = found.brief()
    return {key: brief.get(key) for key in ("spearman", "ause", "ause_random", "rms_error_over_rms_std")}


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
