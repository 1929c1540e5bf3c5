"""How the training data of a model looks, to be stored with it: slices simulated and undersampled as in training."""

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bayesmri.bounds.familiar import Familiar, fitted, slice_features
from bayesmri.checkpoint import annotate, model_of
from bayesmri.config import parse
from bayesmri.data.dataset import Simulation
from bayesmri.data.simulate import Scanner, acquire
from bayesmri.errors import BayesMRIError, ConfigError, DataError
from bayesmri.evaluation.table import data_files, derived_seed
from bayesmri.io.atomic import check_target
from bayesmri.io.formats import read
from bayesmri.io.provenance import provenance
from bayesmri.kspace import Images, KSpace
from bayesmri.model import Model
from bayesmri.physics.coils import emulate_single_coil
from bayesmri.physics.fourier import fft2c, ifft2c
from bayesmri.physics.mask import MaskSpec
from bayesmri.physics.scene import loop_sensitivities
from bayesmri.recon.files import Progress
from bayesmri.recon.method import training_of
from bayesmri.runs import locate, opened

SLICES = 60  # of every file, at most
DARK = 0.02  # of a volume's maximum: slices that do not reach it show nothing


def familiarise_file(
    model: str,
    data: Path,
    out: Path,
    *,
    slices: int = SLICES,
    seed: int = 0,
    force: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Writes the model of one file with a record of its training data to `out` (.json, weights beside it)."""
    if out.suffix != ".json":
        raise ConfigError(f"got the output {out.name}, expected a name that ends in .json, with the weights beside it")
    for file in (out, out.with_suffix(".safetensors")):
        check_target(file, force=force)
    stored = opened(locate(model))
    found = familiar_of(model_of(stored), data, slices=slices, seed=seed, progress=progress)
    outputs = [str(out), str(annotate(stored, out, familiar=found))]
    names = ("slices", "files", "sizes", "threshold", "flattest")
    return {"model": stored.path.stem, **{name: getattr(found, name) for name in names}, "outputs": outputs}


def familiar_of(
    model: Model, data: Path, *, slices: int = SLICES, seed: int = 0, progress: Progress | None = None
) -> Familiar:
    """How the slices of a folder look when they are simulated and undersampled as the model's training records."""
    training = training_of(model)
    if "mask" not in training:
        raise DataError("the model does not record its training, expected one that bayesmri train made")
    masks = parse(MaskSpec, training["mask"], where="mask")
    simulation = parse(Simulation, training.get("simulation", {}), where="simulation")
    arrays = model.coils.mode != "raw"
    features: list[NDArray[np.float64]] = []
    numbers: list[int] = []
    sides: list[int] = []
    used: list[Path] = []
    files = data_files(data)
    with progress(len(files)) if progress else nullcontext(lambda: None) as advance:
        for path in files:
            rng = torch.Generator().manual_seed(derived_seed(seed, path.name, "familiar"))
            for y in _slices(path, slices, simulation, arrays, rng):
                mask = masks.draw(y.shape[-1], rng)
                features.append(slice_features((fft2c(y) * mask).numpy(), mask.numpy()))
                numbers.append(len(used))
                sides += y.shape[-2:]
            used.append(path)
            advance()
    if not features:
        raise DataError(f"no slice in {data} can be looked at: give the folder of the training data")
    found = fitted(np.array(features), np.array(numbers), sizes=(min(sides), max(sides)), seed=seed)
    config = {"data": data.name, "slices": slices, "seed": seed}
    return replace(found, provenance=provenance(command="familiarise", config=config, seed=seed, inputs=used))


def _slices(path: Path, most: int, simulation: Simulation, arrays: bool, rng: torch.Generator) -> Iterator[Tensor]:
    """Coil images (Q, H, W) of slices spread over a file, turned half of the time, seen by one coil or an array."""
    try:
        volume = read(path)
    except BayesMRIError:
        return
    measured = isinstance(volume, KSpace)
    if isinstance(volume, KSpace) and not volume.fully_sampled:
        return
    parts = volume.magnitude if isinstance(volume, Images) else volume.z
    peak = float(np.abs(parts).max())
    for i in np.unique(np.linspace(0, len(parts) - 1, most).round().astype(int)):
        part = torch.from_numpy(np.ascontiguousarray(parts[i]))
        if float(part.abs().max()) < DARK * peak:
            continue
        turned, single, place, level = torch.rand(4, generator=rng, dtype=torch.float64).tolist()
        low, high = simulation.coils
        n = 1 if not arrays or single < simulation.single else round(low * (high / low) ** place)
        y = ifft2c(part) if measured else part
        y = y.transpose(-1, -2).contiguous() if turned < 0.5 else y
        if measured:
            yield _seen_by(y, n, rng)
        else:
            noise = simulation.snr_db[0] + level * (simulation.snr_db[1] - simulation.snr_db[0])
            yield ifft2c(acquire(y[None] / max(peak, 1e-30), Scanner(n, noise, simulation.phase), rng=rng))[0]


def _seen_by(y: Tensor, n: int, rng: torch.Generator) -> Tensor:
    """Measured coil images by n coils: simulated ones for one coil, and one emulated coil for an array."""
    if len(y) > 1:
        return emulate_single_coil(y) if n == 1 else y
    return y if n == 1 else y * loop_sensitivities(n, (y.shape[-2], y.shape[-1]), rng=rng)
