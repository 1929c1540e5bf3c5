"""Nonlinear eigenfunctions of R at the mean of θ, started at a reconstruction and at the fully sampled image."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from numpy.typing import NDArray
from torch import Tensor

from bayesmri.analysis.eigenfunctions import Eigenfunction, eigenfunction
from bayesmri.complexes import norm, rss
from bayesmri.errors import ModelError
from bayesmri.evaluation.cohort import Loaded, Volumes, first_volume, load, rules, taken
from bayesmri.evaluation.request import Request
from bayesmri.evaluation.table import sampling_of
from bayesmri.io.geometry import center_window
from bayesmri.kspace import KSpace
from bayesmri.machine.devices import check_device
from bayesmri.model import solve
from bayesmri.physics.fourier import ifft2c
from bayesmri.recon.files import Progress
from bayesmri.recon.outputs import pixel_aspect
from bayesmri.recon.undersample import draw_mask
from bayesmri.regularizers.base import Bound, ParametricRegularizer
from bayesmri.report.figure_style import BLUE, GREEN, GREY, ORANGE, aligned, caption, figure, finish, write
from bayesmri.report.panel import window
from bayesmri.studies.base import Outcome
from bayesmri.studies.entropy import named

Numbers = Mapping[str, Any]
Image = NDArray[np.float64]
COLOURS = (BLUE, ORANGE, GREEN, GREY, "#8a4fa3", "#b03a5b")
TILE = 3.3  # inches: the width of an image


@dataclass(frozen=True, eq=False)
class EigenTiles:
    """Root-sum-of-squares images (h, w) of the start and of the eigenfunction found from it, in one unit."""

    start: Image
    end: Image


def eigenfunctions_study(request: Request, progress: Progress | None) -> Outcome:
    """The middle slice of one volume, two starts for every model: x_S(z, T, μ), and F⁻¹u of the fully sampled data."""
    models = named([load(text) for text in request.models], request.models)
    device = check_device(request.device)
    regs = [_regularizer(loaded, device) for loaded in models]
    volumes = Volumes(request)
    path, full = first_volume(volumes)
    mask = draw_mask((full.z.shape[-2], full.z.shape[-1]), sampling_of(path, request.accelerations[0], rules(request)))
    rows: list[dict[str, Any]] = []
    tiles: list[EigenTiles] = []
    iterations = request.iterations or 1
    with progress(2 * len(models) * iterations) if progress else nullcontext(lambda: None) as advance:
        for loaded, reg in zip(models, regs, strict=True):
            for name, start in _starts(loaded, reg, full, mask, device).items():
                found = eigenfunction(reg, start, iterations=iterations, on_step=advance)
                rows.append({"model": loaded.name, "start": name, **_facts(found, reg)})
                tiles.append(_tiles(found, full, loaded.model.scaling.gain))
    numbers = {
        "models": [loaded.facts() for loaded in models],
        "file": path.name,
        "slice": "middle",
        "acceleration": request.accelerations[0],
        "iterations": iterations,
        "unit": "residuals: the norm of ∇R at the start; eigenvalues and energies: as the model takes images",
        "skipped": volumes.skipped,
        "rows": rows,
    }
    draw = partial(eigenfunctions_figure, tiles=tiles, numbers=numbers, pixel_aspect=pixel_aspect(full.header))
    inputs = (path, *(loaded.path for loaded in models))
    return Outcome(numbers, draw, eigenfunctions_text(numbers), inputs)


def _regularizer(loaded: Loaded, device: torch.device) -> Bound:
    """R(·, μ); a network without a regularizer is refused by its name."""
    owner = loaded.model.regularizer
    if not isinstance(owner, ParametricRegularizer):
        raise ModelError(
            f"{loaded.name} is a network without a regularizer, so it has no eigenfunctions: give a TDV or FoE model"
        )
    theta = loaded.model.distribution().to(device).mean()
    return owner.bind({name: w.detach() for name, w in theta.items()})


def _starts(
    loaded: Loaded, reg: Bound, full: KSpace, mask: NDArray[np.bool_], device: torch.device
) -> dict[str, Tensor]:
    """Coil images (Q, H, W) as the model takes them, both divided by the number that the undersampled data gives."""
    model = loaded.model
    u = torch.from_numpy(taken(full, loaded).z).to(device)
    lines = torch.from_numpy(mask).to(device)
    z = model.coils.prepare(u * lines)
    factor = model.scaling.factor(z)
    with torch.no_grad():
        x = solve(z / factor, lines, reg, model.scheme)[0]
    return {"reconstruction": x, "fully sampled": ifft2c(model.coils.prepare(u))[0] / factor}


def _facts(found: Eigenfunction, reg: Bound) -> dict[str, Any]:
    """JSON values. change: ‖v − v₀‖ / ‖v₀‖."""
    unit = found.unit or 1.0
    with torch.no_grad():
        energies = [float(reg.energy(state.v)) for state in (found.start, found.end)]
    return {
        "eigenvalue_start": found.start.eigenvalue,
        "eigenvalue": found.end.eigenvalue,
        "residual_start": found.start.residual / unit,
        "residual": found.end.residual / unit,
        "energy_start": energies[0],
        "energy": energies[1],
        "change": float(norm(found.end.v - found.start.v) / norm(found.start.v)),
        "iterations": len(found.residuals) - 1,
        "residuals": [residual / unit for residual in found.residuals],
        "eigenvalues": list(found.eigenvalues),
    }


def _tiles(found: Eigenfunction, full: KSpace, gain: float) -> EigenTiles:
    """Root-sum-of-squares images; 1 is about the start's maximum."""
    start, end = (_image(state.v, full) / gain for state in (found.start, found.end))
    return EigenTiles(start, end)


def _image(v: Tensor, full: KSpace) -> NDArray[np.float64]:
    H, W = v.shape[-2:]
    rows, columns = center_window((H, W), full.header.recon_shape or (H, W))
    image: NDArray[np.float64] = rss(v)[rows, columns].cpu().double().numpy()
    return image


def eigenfunctions_figure(
    path: Path, *, tiles: Sequence[EigenTiles], numbers: Numbers, pixel_aspect: float = 1.0
) -> None:
    """A row per start: start | eigenfunction | difference; beside them the residuals and Λ over the iterations."""
    h, w = tiles[0].start.shape
    tall = TILE * h * pixel_aspect / w + 0.45
    made = figure(3 * TILE + 0.6 + 4.2, max(len(tiles) * tall + 0.4, 5.2))
    halves = made.add_gridspec(1, 2, width_ratios=[3 * TILE + 0.6, 4.2])
    left, right = made.add_subfigure(halves[0]), made.add_subfigure(halves[1])
    several = len(numbers["models"]) > 1
    names = [f"{row['model']}, {row['start']}" if several else str(row["start"]) for row in numbers["rows"]]
    grid = left.subplots(len(tiles), 3, squeeze=False)
    for line, tile, row, name in zip(grid, tiles, numbers["rows"], names, strict=True):
        _row(line, tile, row, name=name, aspect=pixel_aspect)
    upper, lower = right.subplots(2, 1)
    for row, name, colour in zip(numbers["rows"], names, _cycle(len(names)), strict=True):
        upper.semilogy(row["residuals"], color=colour, linewidth=1.6, label=name)
        lower.plot(row["eigenvalues"], color=colour, linewidth=1.6, label=name)
    for axis in (upper.yaxis.set_major_formatter, upper.yaxis.set_minor_formatter):
        axis(lambda v, _: f"{v:g}")
    finish(upper, title="Residual ‖∇R(v) − Λ(v)v‖", x="iteration", y="relative to ‖∇R‖ at the start")
    finish(lower, title="Rayleigh quotient Λ(v)", x="iteration", y="Λ", legend=False)
    lower.ticklabel_format(axis="y", style="sci", scilimits=(-2, 3), useMathText=True)
    model = "" if several else f"{numbers['rows'][0]['model']}, "
    caption(made, f"{model}{numbers['file']}, R = {numbers['acceleration']:g}; root-sum-of-squares of v, ‖v‖ kept")
    write(made, path)


def _row(line: Sequence[Axes], tile: EigenTiles, row: Numbers, *, name: str, aspect: float) -> None:
    white = window(tile.start)
    change = tile.end - tile.start
    size = float(np.quantile(np.abs(change), 0.995)) or 1.0
    shown = (
        (f"Start: {name}", f"Λ = {row['eigenvalue_start']:.3g}", tile.start, "gray", 0.0, white),
        ("Eigenfunction", f"Λ = {row['eigenvalue']:.3g}", tile.end, "gray", 0.0, white),
        ("Eigenfunction − start", f"±{100 * size / white:.0f} % of white", change, "RdBu_r", -size, size),
    )
    for axes, (title, small, image, cmap, low, high) in zip(line, shown, strict=True):
        axes.imshow(image, cmap=cmap, vmin=low, vmax=high, aspect=aspect, interpolation="nearest")
        axes.set_title(title, fontsize=10, loc="left", weight="bold", parse_math=False)
        axes.set_title(small, fontsize=8.5, loc="right", color="0.3")
        axes.set_axis_off()


def _cycle(n: int) -> list[str]:
    return [COLOURS[i % len(COLOURS)] for i in range(n)]


def eigenfunctions_text(numbers: Numbers) -> str:
    """One line per start: Λ, the residual and the energy there and where the search ended."""
    rows = [["model", "start", "iterations", "Λ at start", "Λ", "residual at start", "residual", "R at start", "R"]]
    for row in numbers["rows"]:
        pairs = [f"{row[key]:.4g}" for name in ("eigenvalue", "residual", "energy") for key in (f"{name}_start", name)]
        rows.append([row["model"], row["start"], str(row["iterations"]), *pairs])
    return f"{numbers['file']}, middle slice, R = {numbers['acceleration']:g}\n{aligned(rows)}"
