"""Nonlinear eigenfunctions of R at the mean of θ, started at a reconstruction and at the fully sampled image."""

from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bayesmri.analysis.eigenfunctions import Eigenfunction, eigenfunction
from bayesmri.baselines.network import Network
from bayesmri.complexes import norm, rss
from bayesmri.errors import ModelError
from bayesmri.evaluation.table import sampling_of
from bayesmri.io.geometry import center_window
from bayesmri.kspace import KSpace
from bayesmri.machine.devices import check_device
from bayesmri.model import solve
from bayesmri.physics.fourier import ifft2c
from bayesmri.recon.acquisition import draw_mask
from bayesmri.recon.files import Progress
from bayesmri.recon.outputs import pixel_aspect
from bayesmri.regularizers.base import Bound
from bayesmri.report.study_eigenfunctions import EigenTiles, eigenfunctions_figure, eigenfunctions_text
from bayesmri.studies.base import Outcome, Request
from bayesmri.studies.entropy import named
from bayesmri.studies.volumes import Loaded, Volumes, first_volume, load, rules, taken


def eigenfunctions_study(request: Request, progress: Progress | None) -> Outcome:
    """The middle slice of one volume, two starts for every model: x_S(z, T, μ), and F⁻¹u of the fully sampled data."""
    models = named([load(text) for text in request.models], request.models)
    device = check_device(request.device)
    regs = [_regularizer(loaded, device) for loaded in models]
    volumes = Volumes(request)
    path, full = first_volume(volumes)
    mask = draw_mask(full.z.shape[-1], sampling_of(path, request.accelerations[0], rules(request)))
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
    if isinstance(owner, Network):
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
