"""The paper's ablation: PSNR against the mean entropy H̄ of models trained with different β, by the samples averaged."""

import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from matplotlib import colormaps
from matplotlib.axes import Axes

from bayesmri.analysis.averaging import Span, Volume, over_volumes, spans
from bayesmri.errors import ConfigError
from bayesmri.evaluation.cohort import Loaded, Volumes, counted, load, sample_volume
from bayesmri.evaluation.request import Request
from bayesmri.metrics import volume_metrics
from bayesmri.recon.crop import common_crop
from bayesmri.recon.files import Progress
from bayesmri.recon.reconstruct import Reconstruction
from bayesmri.report.figure_style import aligned, count, figure, finish, write
from bayesmri.studies.base import Outcome

Numbers = Mapping[str, Any]
Row = Mapping[str, Any]


def entropy_study(request: Request, progress: Progress | None) -> Outcome:
    """Every model on the same volumes and masks. A model without a posterior is the limiting case H̄ = −∞."""
    models = named([load(text) for text in request.models], request.models)
    volumes = Volumes(request)
    at_mean: dict[str, list[float]] = {loaded.name: [] for loaded in models}
    parts: dict[str, list[list[Span]]] = {loaded.name: [] for loaded in models}
    with counted(progress, request) as advance:
        for path, full in volumes:
            for loaded in models:
                result = sample_volume(full, path, request.accelerations[0], loaded, request, keep=True)
                at_mean[loaded.name].append(result.deterministic_metrics().psnr)
                if result.samples is not None:
                    parts[loaded.name].append(spans(result.samples, partial(_psnr, result)))
                advance()
    rows = [row for m in models for row in _rows(m, at_mean[m.name], parts[m.name])]
    numbers = {
        "acceleration": request.accelerations[0],
        "samples": request.samples,
        "volumes": [path.name for path in volumes.used],
        **volumes.facts(),
        "models": [m.facts() for m in models],
        "rows": rows,
    }
    inputs = (*volumes.used, *(m.path for m in models))
    return Outcome(numbers, partial(entropy_figure, numbers=numbers), entropy_text(numbers), inputs)


def _psnr(result: Reconstruction, image: Volume) -> float:
    assert result.truth is not None
    return volume_metrics(*common_crop(image, result.truth)).psnr


def _rows(loaded: Loaded, at_mean: list[float], parts: list[list[Span]]) -> list[dict[str, Any]]:
    """One for every n; of a model without a posterior one with n = 0. PSNR: the mean over volumes."""
    facts = loaded.facts()
    deterministic = math.fsum(at_mean) / len(at_mean)
    known = {"model": loaded.name, "beta": facts["beta"], "entropy": facts["entropy"]}
    if not parts:
        only = {"psnr_mean": deterministic, "psnr_low": deterministic, "psnr_high": deterministic}
        return [{**known, "n": 0, "subsets": 1, **only, "psnr_deterministic": deterministic}]
    return [
        {
            **known,
            "n": span.n,
            "subsets": len(span.scores),
            "psnr_mean": span.mean,
            "psnr_low": span.low,
            "psnr_high": span.high,
            "psnr_deterministic": deterministic,
        }
        for span in over_volumes(parts)
    ]


def named(models: list[Loaded], given: tuple[str, ...]) -> list[Loaded]:
    """Each under a name of its own: the last part of its path, or all of it where two would share one."""
    if len({loaded.path for loaded in models}) < len(models):
        raise ConfigError("got the same model twice; give each once")
    names = [loaded.name for loaded in models]
    if len(set(names)) == len(names):
        return models
    return [Loaded(str(Path(text)), m.path, m.model) for m, text in zip(models, given, strict=True)]


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
