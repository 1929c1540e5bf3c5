"""k-space as in the paper: mask, zero-filled, fully sampled, mean and standard deviation of the samples."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from bayesmri.errors import ConfigError
from bayesmri.evaluation.cohort import (
    Volumes,
    counted,
    first_volume,
    load_stochastic,
    sample_volume,
    slice_facts,
    taken,
)
from bayesmri.evaluation.request import Request
from bayesmri.physics.pattern import POINTS
from bayesmri.recon.files import Progress
from bayesmri.recon.reconstruct import Reconstruction
from bayesmri.recon.samples import column_std
from bayesmri.report.figure_style import BLUE, GREY, ORANGE, caption, count, figure, finish, write
from bayesmri.studies.base import Outcome

Numbers = Mapping[str, Any]
DECADES = 4.5  # shown below the maximum: the noise of k-space lies there


@dataclass(frozen=True, eq=False)
class KSpaceTiles:
    """Magnitudes (H, W) relative to the largest of the truth; mask: bool (W,)."""

    mask: NDArray[np.bool_]
    truth: NDArray[np.float64]
    mean: NDArray[np.float64]
    std: NDArray[np.float64]


def kspace_study(request: Request, progress: Progress | None) -> Outcome:
    """The middle slice of one volume; coils are combined to the root-sum-of-squares at every point of k-space."""
    if request.mask in POINTS:
        raise ConfigError(
            f"got --mask {request.mask} for the study kspace, which shows columns; give random or equispaced"
        )
    loaded = load_stochastic(request.models[0])
    volumes = Volumes(request)
    with counted(progress, request, one_volume=True) as advance:
        path, full = first_volume(volumes)
        result = sample_volume(full, path, request.accelerations[0], loaded, request)
        advance()
    measured = _rss(taken(full, loaded).z[0])
    mean, std = _found(result)
    unit = float(measured.max())
    acquired, missing = column_std(result.kspace_std, result.mask) if result.kspace_std is not None else (0.0, None)
    numbers = {
        **slice_facts(loaded, path, volumes),
        "acquired": np.flatnonzero(result.mask).tolist(),
        "lines": len(result.mask),
        "unit": "the largest magnitude of the fully sampled k-space",
        "std_acquired": acquired / unit,
        "std_missing": None if missing is None else missing / unit,
        "columns": {"std": _columns(std / unit), "mean": _columns(mean / unit), "truth": _columns(measured / unit)},
    }
    tiles = KSpaceTiles(result.mask, measured / unit, mean / unit, std / unit)
    draw = partial(kspace_figure, tiles=tiles, numbers=numbers)
    return Outcome(numbers, draw, kspace_text(numbers), (path, loaded.path))


def _found(result: Reconstruction) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    assert result.kspace_mean is not None
    assert result.kspace_std is not None
    return _rss(result.kspace_mean[0]), _rss(result.kspace_std[0])


def _rss(u: NDArray[np.generic]) -> NDArray[np.float64]:
    """(Σ_q |u_q|²)^{1/2}: (Q, H, W) → (H, W)."""
    power: NDArray[np.float64] = np.sum(np.square(np.abs(u), dtype=np.float64), axis=0)
    return np.sqrt(power)


def _columns(magnitude: NDArray[np.float64]) -> list[float]:
    """The root mean square of every column."""
    found: list[float] = np.sqrt(np.mean(np.square(magnitude), axis=0)).tolist()
    return found


def kspace_figure(path: Path, *, tiles: KSpaceTiles, numbers: Numbers) -> None:
    """Mask | zero-filled | full | mean | standard deviation on logarithmic scales, and the columns' RMS below."""
    H, W = tiles.truth.shape
    made = figure(15, 15 / 5 * H / W * 0.92 + 3.0)
    grid = made.add_gridspec(2, 5, height_ratios=[15 / 5 * H / W * 0.92, 2.4])
    top = [made.add_subplot(grid[0, i]) for i in range(5)]
    stripes = np.broadcast_to(tiles.mask, (H, W)).astype(float)
    top[0].imshow(stripes, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    _name(top[0], f"Mask, {int(tiles.mask.sum())} of {W} lines")
    for axes, title, u in (
        (top[1], "Zero-filled", tiles.truth * tiles.mask),
        (top[2], "Fully sampled", tiles.truth),
        (top[3], "Mean of samples", tiles.mean),
    ):
        shown = axes.imshow(_log(u), cmap="gray", vmin=-DECADES, vmax=0, interpolation="nearest")
        _name(axes, title)
    made.colorbar(shown, ax=top[3], shrink=0.75, pad=0.02).ax.tick_params(labelsize=8)
    logs = _log(tiles.std)
    low, high = np.quantile(logs, 0.01), logs.max()
    spread = top[4].imshow(logs, cmap="jet", vmin=low, vmax=max(high, low + 1e-3), interpolation="nearest")
    _name(top[4], "Standard deviation")
    made.colorbar(spread, ax=top[4], shrink=0.75, pad=0.02).ax.tick_params(labelsize=8)
    _profile(made.add_subplot(grid[1, :]), tiles.mask, numbers["columns"])
    caption(
        made,
        f"{numbers['model']}, {numbers['file']}, R = {numbers['acceleration']:g}, "
        f"{count(numbers['samples'], 'sample')}; log₁₀ of the magnitude over its maximum",
    )
    write(made, path)


def _profile(axes: Axes, mask: NDArray[np.bool_], columns: Numbers) -> None:
    x = np.arange(len(mask))
    std = np.asarray(columns["std"])
    axes.semilogy(x, columns["truth"], color=GREY, linewidth=1, label="fully sampled")
    axes.semilogy(x, columns["mean"], color="k", linewidth=1, label="mean of samples")
    axes.semilogy(x[mask], std[mask], "o", color=BLUE, markersize=3, label="std, acquired columns")
    axes.semilogy(x[~mask], std[~mask], "o", color=ORANGE, markersize=3, label="std, missing columns")
    axes.set_xlim(-1, len(mask))
    # columns that a scanner filled with zeros would stretch the axis to the rounding error of their transform
    axes.set_ylim(bottom=max(axes.get_ylim()[0], 10.0 ** (-DECADES - 2)))
    finish(axes, title="RMS of every column", x="column (phase encoding)", y="relative magnitude")
    axes.legend(fontsize=8.5, frameon=False, ncols=4, loc="upper center", bbox_to_anchor=(0.6, 1.16))


def _name(axes: Axes, title: str) -> None:
    axes.set_title(title, fontsize=10.5, loc="left", weight="bold")
    axes.set_axis_off()


def _log(u: NDArray[np.float64]) -> NDArray[np.float64]:
    """log₁₀, with what is exactly 0 at the bottom of the scale."""
    found: NDArray[np.float64] = np.log10(np.maximum(u, 10.0 ** (-DECADES - 3)))
    return found


def kspace_text(numbers: Numbers) -> str:
    lines = f"{len(numbers['acquired'])} of {numbers['lines']} lines"
    first = f"{numbers['file']}, middle slice, {lines}: std relative to the largest magnitude of k-space"
    if numbers["std_missing"] is None:
        return f"{first}\nacquired columns {numbers['std_acquired']:.3g}; no column is missing"
    acquired, missing = numbers["std_acquired"], numbers["std_missing"]
    times = f", {missing / acquired:.1f} times as large" if acquired > 0 else ""
    return f"{first}\nacquired columns {acquired:.3g}; missing columns {missing:.3g}{times}"
