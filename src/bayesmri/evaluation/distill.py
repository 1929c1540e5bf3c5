"""Make a model's fast route: exact maps of training data, a predictor of them, a model file that holds both."""

import json
import time
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from bayesmri.checkpoint import load_model, save_model
from bayesmri.config import parse, read_toml
from bayesmri.data.dataset import Dataset
from bayesmri.errors import ConfigError
from bayesmri.io.atomic import check_target
from bayesmri.machine.devices import check_device
from bayesmri.recon.files import Progress
from bayesmri.regularizers.compiled import compiled
from bayesmri.runs import locate
from bayesmri.training.distill import DistillConfig, distill, exact_maps, with_predictor
from bayesmri.training.settings import TrainConfig


def distill_file(
    run: Path,
    out: Path,
    config: "DistillConfig",
    *,
    recipe: Path | None = None,
    device: str = "cpu",
    force: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Reads the model of a run, writes it with a predictor to `out` (.json, weights beside it).

    recipe: the training configuration that says where data come from; the run's own unless given.
    device: auto, cpu, cuda or cuda:N. force: `out` may be there, and is overwritten.
    """
    if out.suffix != ".json":
        raise ConfigError(f"got the output {out.name}, expected a name that ends in .json, with the weights beside it")
    for file in (out, out.with_suffix(".safetensors")):
        check_target(file, force=force)
    recipe = recipe or run / "config.toml"
    if not recipe.is_file():
        raise ConfigError(f"{run} has no config.toml that says where its data are: give one with --config")

    place = check_device(device)
    path = locate(run)
    model = load_model(path)
    settings = parse(TrainConfig, read_toml(recipe))
    matched = replace(settings, mask=replace(settings.mask, acceleration=model.acceleration or 4.0))
    dataset = Dataset(matched.data, matched.recipe(), seed=config.seed)
    began = time.perf_counter()
    with progress(config.elements) if progress else nullcontext(_nothing) as advance:
        maps = []
        # one shape for all: the graph is built once; with whole slices of many sizes it would never pay
        one_shape = matched.data.patch_rows is not None and matched.data.patch_cols is not None
        for found in exact_maps(model, dataset, config, compiled if one_shape else _as_it_is, device=place):
            maps.append(found)
            for _ in found.at_mean:
                advance()
    errors: list[float] = []
    with progress(config.iterations) if progress else nullcontext(_nothing) as advance:

        def on_step(error: float) -> None:
            errors.append(error)
            advance()

        predictor = distill(maps, config, on_step, device=place)
    last = errors[-max(1, len(errors) // 10) :]
    facts: dict[str, object] = {
        **asdict(config),
        "kappa": predictor.config.kappa,
        "parameters": sum(w.numel() for w in predictor.parameters()),
        "training_error": sum(last) / len(last),
        "seconds": time.perf_counter() - began,
        "device": str(place),
        "origin": json.loads(path.read_text(encoding="utf-8"))["files"]["weights"]["sha256"],
    }
    save_model(out, with_predictor(model, predictor, facts))
    return {"model": str(path), "outputs": [str(out), str(out.with_suffix(".safetensors"))], **facts}


def _nothing() -> None:
    """No progress to show."""


def _as_it_is(reg: Any) -> Any:
    return reg
