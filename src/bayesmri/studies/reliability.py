"""Does σ̂ tell the truth? Every volume of a folder, reconstructed with samples and compared with what it was."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from bayesmri.analysis.intervals import REGIONS, Judgement, check_judged, judge_volume, together
from bayesmri.bounds.bound import FLOOR, Calibration
from bayesmri.errors import DataError
from bayesmri.evaluation.cohort import Volumes, counted, load_stochastic, n_coils, sample_volume
from bayesmri.evaluation.request import Request
from bayesmri.evaluation.subjects import Subjects, held_out
from bayesmri.io.inputs import input_files
from bayesmri.io.provenance import sha256
from bayesmri.physics.pattern import cell_counts
from bayesmri.recon.crop import common_crop
from bayesmri.recon.files import Progress
from bayesmri.recon.reconstruct import Reconstruction
from bayesmri.report.bound_panel import bound_panel, bound_sentences
from bayesmri.report.figure_style import BLUE, GREEN, GREY, ORANGE, aligned, caption, count, figure, finish, write
from bayesmri.studies.base import Outcome

Judged = dict[str, list[Judgement]]
LEVEL = 0.9


Numbers = Mapping[str, Any]
COLOURS = {"everywhere": GREY, "foreground": BLUE}
SHOWN = 0.001  # of all pixels: emptier bins of the reliability diagram are noise


def reliability_study(request: Request, progress: Progress | None) -> Outcome:
    """Spearman's ρ, sparsification, reliability and coverage, by slice, volume and over all; bounds by subject."""
    loaded = load_stochastic(request.models[0])
    volumes = Volumes(request)
    level = LEVEL if request.level is None else request.level
    stored = [found for found in loaded.model.calibrations if found.level == level and not found.relative]
    subjects = Subjects(stored[0].floor if stored else FLOOR)
    rows: list[dict[str, Any]] = []
    everything: Judged = {region: [] for region in REGIONS}
    sized = Sized(level)
    with counted(progress, request) as advance:
        for path, full in volumes:
            result = sample_volume(full, path, request.accelerations[0], loaded, request)
            row, judged = _volume(path, result)
            rows.append(row)
            subjects.add(path, result)
            if result.error_std is not None:
                row["error_std"] = sized.add(path, result)
            stored = [found for found in stored if _holds(found, result, n_coils(full, loaded), subjects.floor)]
            for region in REGIONS:
                everything[region] += judged[region]
            advance()
    check_judged(together(everything["everywhere"]))
    numbers = {
        **loaded.facts(),
        "acceleration": request.accelerations[0],
        "samples": request.samples,
        **volumes.facts(),
        "rows": rows,
        "all": {region: together(everything[region]).full() for region in REGIONS},
        "bound": held_out(subjects, level=level, stored=stored[0] if stored else None)
        | {"stored": _stored(stored, volumes.used)},
        "error_std": sized.numbers(),
    }
    draw = partial(reliability_figure, numbers=numbers)
    return Outcome(numbers, draw, reliability_text(numbers), (*volumes.used, loaded.path))


@dataclass
class Sized:
    """The same of σ_total, where the model has a head of it. level: of its bounds."""

    level: float
    judged: Judged = field(default_factory=lambda: {region: [] for region in REGIONS})
    subjects: Subjects = field(default_factory=lambda: Subjects(spread="error"))

    def add(self, path: Path, result: Reconstruction) -> dict[str, Any]:
        """One volume; returns its row."""
        found = judge_volume(*truth_and_spread(replace(result, std=result.error_std)))
        self.subjects.add(path, result)
        for region in REGIONS:
            self.judged[region] += found[region]
        return {region: together(found[region]).brief() for region in REGIONS}

    def numbers(self) -> dict[str, Any] | None:
        """JSON values; None where there was none."""
        if not self.subjects.found:
            return None
        return {
            "all": {region: together(self.judged[region]).full() for region in REGIONS},
            "bound": held_out(self.subjects, level=self.level),
        }


def _holds(found: Calibration, result: Reconstruction, coils: int, floor: float) -> bool:
    """Whether a bound that the model came with is for such data."""
    fits = found.setting.misfit(result.mask, coils=coils, samples=result.n_samples, fast=result.fast) is None
    return fits and found.floor == floor


def _stored(stored: list[Calibration], used: list[Path]) -> dict[str, Any] | None:
    """JSON values: the model's own bound. seen: files of this study that it was calibrated with."""
    if not stored:
        return None
    known = {entry["sha256"] for entry in stored[0].provenance.get("inputs", ())}
    seen = [path.name for path in used if any(sha256(file) in known for file in input_files(path))]
    return {"factor": stored[0].factor, "region": stored[0].region, "subjects": stored[0].subjects, "seen": seen}


def _volume(path: Path, result: Reconstruction) -> tuple[dict[str, Any], Judged]:
    judged = judge_volume(*truth_and_spread(result))
    row = {
        "file": path.name,
        "slices": len(result.mean),
        **cell_counts(result.mask),
        "psnr": result.metrics().psnr,
        "psnr_deterministic": result.deterministic_metrics().psnr,
        "psnr_zero_filled": result.zero_filled_metrics().psnr,
        "seconds": result.seconds,
        **{region: together(judged[region]).brief() for region in REGIONS},
        "of_slices": [{region: judged[region][s].brief() for region in REGIONS} for s in range(len(result.mean))],
    }
    return row, judged


def truth_and_spread(result: Reconstruction) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X̄, σ̂ and Y, cut to the centre they share."""
    if result.std is None or result.truth is None:
        raise DataError("got a reconstruction without samples or truth, expected both, to judge one by the other")
    std, truth = common_crop(result.std, result.truth)
    return common_crop(result.mean, result.truth)[0], std, truth


def reliability_figure(path: Path, *, numbers: Numbers) -> None:
    """Reliability | sparsification; rank correlation of every slice | held-out coverage of every subject."""
    regions = {name: found for name, found in reversed(numbers["all"].items()) if found["slices"]}
    bound = numbers.get("bound")  # studies from before there were bounds have none
    made = figure(13.5, 4.3) if bound is None else figure(10.5, 8.4)
    panels = made.subplots(1, 3).tolist() if bound is None else made.subplots(2, 2).ravel().tolist()
    sized = numbers.get("error_std")
    _reliability(panels[0], regions, sized["all"]["foreground"] if sized else None)
    _sparsification(panels[1], regions)
    _correlations(panels[2], regions)
    if bound is not None:
        bound_panel(panels[3], bound)
    made_of = f"{count(numbers['samples'], 'sample')}, {count(len(numbers['rows']), 'volume')}"
    caption(made, f"{numbers['model']}, R = {numbers['acceleration']:g}, {made_of}")
    write(made, path)


def _reliability(axes: Axes, regions: Numbers, sized: Numbers | None) -> None:
    seen: list[float] = []
    for name, found in regions.items():
        rows = [r for r in found["reliability"] if r["pixels"] >= SHOWN * found["pixels"] and r["std"] > 0]
        std, rms = ([100 * r[key] for r in rows] for key in ("std", "rms_error"))
        axes.loglog(std, rms, "o-", color=COLOURS[name], markersize=3.5, linewidth=1.3, label=name)
        seen += [v for v in (*std, *rms) if v > 0]
    if sized is not None and sized["slices"]:
        rows = [r for r in sized["reliability"] if r["pixels"] >= SHOWN * sized["pixels"] and r["std"] > 0]
        std, rms = ([100 * r[key] for r in rows] for key in ("std", "rms_error"))
        axes.loglog(std, rms, "s-", color=ORANGE, markersize=3.5, linewidth=1.3, label="typical error, foreground")
        seen += [v for v in (*std, *rms) if v > 0]
    if seen:
        ends = [min(seen) / 1.3, max(seen) * 1.3]
        axes.loglog(ends, ends, "--", color="0.2", linewidth=1, label="RMS error = σ̂")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda v, _: f"{v:g}")
    finish(axes, title="Reliability", x="σ̂, % of the truth's maximum", y="RMS error, % of the truth's maximum")


def _sparsification(axes: Axes, regions: Numbers) -> None:
    """The foreground's curves strong, those of all pixels thin: oracle and σ̂ in their own colours."""
    for name, found in regions.items():
        curves = found["sparsification"]
        removed, mae = 100 * np.asarray(curves["removed"]), curves["mae"]
        main = name == "foreground" or len(regions) == 1
        width, style = (1.8, "-") if main else (1.0, ":")
        for key, colour, word in (
            ("random", GREY, "random order"),
            ("std", BLUE, "by σ̂"),
            ("oracle", GREEN, "by error"),
        ):
            area = f", AUSE {found['ause']['mae']:.2f}" if key == "std" else ""
            label = f"{word}, {name}{area}" if key != "random" else word if main else None
            axes.plot(removed, mae[key], style, color=colour, linewidth=width, label=label)
    axes.set_ylim(bottom=0)
    axes.set_xlim(0, 100)
    finish(axes, title="Sparsification", x="most uncertain pixels removed, %", y="remaining mean |error|, relative")


def _correlations(axes: Axes, regions: Numbers) -> None:
    values = {n: [v for v in found["spearman_of_slices"] if v is not None] for n, found in regions.items()}
    everything = [v for part in values.values() for v in part]
    low = min(0.0, np.floor(10 * min(everything, default=0.0)) / 10)
    bins = np.arange(round(20 * (1 - low)) + 1) / 20 + low
    shown = {name: part for name, part in values.items() if part}
    means = {name: float(np.mean(part)) for name, part in shown.items()}
    if shown:
        labels = [f"{name}: mean {mean:.2f}" for name, mean in means.items()]
        colours = [COLOURS[name] for name in shown]
        axes.hist(list(shown.values()), bins=bins.tolist(), color=colours, alpha=0.7, label=labels)
    for name, mean in means.items():
        axes.axvline(mean, color=COLOURS[name], linewidth=1.5)
    axes.axvline(0, color=ORANGE, linewidth=1, linestyle="--", label="chance")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    finish(axes, title="Rank correlation of σ̂ and |error|", x="Spearman's ρ of a slice", y="slices")


def reliability_text(numbers: Numbers) -> str:
    """One row per volume and one over all: ρ and AUSE (of mean |e|) beside those of a random order; oracle is 0."""
    heads = ["volume", "slices", "PSNR/dB"]
    for region in numbers["all"]:
        heads += [f"ρ {region}", "AUSE", "random"]
    lines = [[row["file"], str(row["slices"]), f"{row['psnr']:.2f}", *_cells(row, numbers)] for row in numbers["rows"]]
    total = sum(row["slices"] for row in numbers["rows"])
    mean = float(np.mean([row["psnr"] for row in numbers["rows"]]))
    lines.append(["all", str(total), f"{mean:.2f}", *_cells(numbers["all"], numbers)])
    told = [aligned([heads, *lines]), *_sentences(numbers), *bound_sentences(numbers.get("bound"))]
    return "\n".join([*told, *_sized_sentences(numbers)])


def _sized_sentences(numbers: Numbers) -> list[str]:
    """The typical error beside σ̂, in the foreground."""
    found = numbers.get("error_std")
    if not found or not found["all"]["foreground"]["slices"]:
        return []
    own, std = found["all"]["foreground"], numbers["all"]["foreground"]
    lines = [
        "typical error (error_std), foreground: the error is "
        f"{own['rms_error_over_rms_std']:.2f} times it (σ̂: {std['rms_error_over_rms_std']:.2f}), "
        f"ρ {own['spearman']:.3f} (σ̂: {std['spearman']:.3f}), "
        f"AUSE {own['ause']['mae']:.3f} (σ̂: {std['ause']['mae']:.3f})"
    ]
    bound = found["bound"]["foreground"]
    if bound:
        shares = [row["coverage"] for row in bound["of_subjects"]]
        lines.append(
            f"its bounds at {100 * found['bound']['level']:g} %, every subject left out in turn: "
            f"{100 * bound['coverage']:.1f} % on average, {100 * min(shares):.1f} to {100 * max(shares):.1f} % by "
            f"subject, ±{100 * bound['mean_bound']:.1f} % of the maximum"
        )
    return lines


def _cells(found: Numbers, numbers: Numbers) -> list[str]:
    cells = []
    for region in numbers["all"]:
        part = found[region]
        if not part["slices"]:
            cells += ["", "", ""]
            continue
        rho = part["spearman"]
        cells += [
            "none" if rho is None else f"{rho:.3f}",
            f"{part['ause']['mae']:.3f}",
            f"{part['ause_random']['mae']:.3f}",
        ]
    return cells


def _sentences(numbers: Numbers) -> list[str]:
    """How far σ̂ is from random and oracle, and whether it has the right size."""
    lines = ["AUSE: 0 is the oracle's order, `random` that of chance."]
    for region, found in numbers["all"].items():
        if not found["slices"]:
            continue
        chance = found["ause_random"]["mae"]
        way = 100 * (1 - found["ause"]["mae"] / chance) if chance > 0 else 0.0
        ratio = found["rms_error_over_rms_std"]
        size = "σ̂ is 0" if ratio is None else f"the error is {ratio:.2g} times σ̂"
        covered = ", ".join(
            f"±{c['k']:g}σ̂ {100 * c['share']:.0f} % ({100 * c['normal']:.0f})" for c in found["coverage"]
        )
        lines.append(f"{region}: {way:.0f} % of the way from random to oracle; {size}; covered (if normal): {covered}")
    return lines
