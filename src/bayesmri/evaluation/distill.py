"""Make a model's fast route, or the size of its error: elements with draws, a network of them, a model file with it."""

import json
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch

from bayesmri.checkpoint import load_model, save_model
from bayesmri.config import parse, read_toml
from bayesmri.data.dataset import Dataset
from bayesmri.errors import ConfigError
from bayesmri.io.atomic import check_target
from bayesmri.machine.devices import check_device
from bayesmri.model import Model
from bayesmri.recon.files import Progress
from bayesmri.runs import locate
from bayesmri.training.distill import DistillConfig as DistillConfig
from bayesmri.training.distill import distill, with_predictor
from bayesmri.training.drawn import Drawn, drawn
from bayesmri.training.error_head import ErrorConfig, train_head, with_error_head
from bayesmri.training.settings import TrainConfig

What = Literal["spread", "error"]


@dataclass(frozen=True)
class Lesson:
    """What is learned, and from what.

    what: spread, σ̂ of many samples from a few; error, the size of the error.
    recipes: training configurations that say where data come from; the run's own unless given. Elements are shared
        evenly among them, and a head is judged by those of the first.
    keep: a folder for the elements, filled where it lacks some and read where it has them.
    """

    what: What = "spread"
    recipes: tuple[Path, ...] = ()
    keep: Path | None = None
    device: str = "cpu"


def distill_file(
    run: Path,
    out: Path,
    config: DistillConfig,
    lesson: Lesson,
    *,
    force: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Reads the model of a run, writes it with a predictor or an error head to `out` (.json, weights beside it).

    A head learns from the subjects that the recipe validates with, which are not those of training.

    force: `out` may be there, and is overwritten.
    """
    if out.suffix != ".json":
        raise ConfigError(f"got the output {out.name}, expected a name that ends in .json, with the weights beside it")
    for file in (out, out.with_suffix(".safetensors")):
        check_target(file, force=force)
    recipes = lesson.recipes or (run / "config.toml",)
    for recipe in recipes:
        if not recipe.is_file():
            raise ConfigError(f"got {recipe} to say where data are, expected a file: give one with --config")
    place = check_device(lesson.device)
    path = locate(run)
    model = load_model(path)
    began = time.perf_counter()
    with progress(config.elements) if progress else nullcontext(_nothing) as advance:
        share = [len(range(k, config.elements, len(recipes))) for k in range(len(recipes))]
        elements = [
            _elements(model, recipe, replace(config, elements=n), lesson, place, advance)
            for recipe, n in zip(recipes, share, strict=True)
        ]
    losses: list[float] = []
    with progress(config.iterations) if progress else nullcontext(_nothing) as advance:

        def on_step(loss: float) -> None:
            losses.append(loss)
            advance()

        finish, facts = _learned(model, elements, config, lesson.what, place, on_step)
    last = losses[-max(1, len(losses) // 10) :]
    facts |= {
        "loss": sum(last) / len(last),
        "seconds": time.perf_counter() - began,
        "device": str(place),
        "origin": json.loads(path.read_text(encoding="utf-8"))["files"]["weights"]["sha256"],
    }
    save_model(out, finish(facts))
    return {"model": str(path), "outputs": [str(out), str(out.with_suffix(".safetensors"))], **facts}


def _elements(
    model: Model,
    recipe: Path,
    config: DistillConfig,
    lesson: Lesson,
    place: torch.device,
    advance: Callable[[], None],
) -> list[Drawn]:
    """Of one recipe; a folder keeps them under its name."""
    settings = parse(TrainConfig, read_toml(recipe))
    matched = replace(settings, mask=replace(settings.mask, acceleration=model.acceleration or 4.0))
    side: Literal["train", "val"] = "val" if lesson.what == "error" else "train"
    dataset = Dataset(matched.data, matched.recipe(), seed=config.seed, side=side)
    folder = None if lesson.keep is None else lesson.keep / recipe.stem
    numbers, found = range(config.elements), []
    for one in drawn(model, dataset, numbers, config.samples, seed=config.seed, device=place, folder=folder):
        found.append(one)
        advance()
    return found


def _learned(
    model: Model, elements: list[list[Drawn]], config: DistillConfig, what: What, place: torch.device, on_step: Any
) -> tuple[Callable[[dict[str, object]], Model], dict[str, object]]:
    """What makes the model with what it learned and all facts for its card, and the first of these."""
    if what == "spread":
        predictor = distill([one for part in elements for one in part], config, on_step, device=place)
        facts: dict[str, object] = {**asdict(config), "kappa": predictor.config.kappa}
        facts["parameters"] = sum(w.numel() for w in predictor.parameters())
        return partial(with_predictor, model, predictor), facts
    wanted = ErrorConfig(config.iterations, config.batch, config.lr, config.features, seed=config.seed)
    head, reached = train_head(elements, wanted, on_step, device=place)
    facts = {**asdict(wanted), "elements": sum(map(len, elements)), "samples": config.samples, **reached}
    facts |= {"scale": head.config.scale, "parameters": sum(w.numel() for w in head.parameters())}
    return partial(with_error_head, model, head), facts


def _nothing() -> None:
    """No progress to show."""
