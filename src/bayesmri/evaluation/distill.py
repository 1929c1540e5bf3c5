"""Make a model's fast route, or the size of its error: elements with draws, a network of them, a model file with it."""

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch

from bayesmri.checkpoint import model_of, save_model
from bayesmri.config import parse, read_toml
from bayesmri.data.dataset import Dataset, Side
from bayesmri.errors import ConfigError
from bayesmri.io.atomic import check_target
from bayesmri.machine.devices import check_device
from bayesmri.model import Model
from bayesmri.recon.files import Progress
from bayesmri.runs import locate, opened
from bayesmri.training.distill import TARGET, distill, with_predictor
from bayesmri.training.distill import DistillConfig as DistillConfig
from bayesmri.training.drawn import Drawn, drawn, validating
from bayesmri.training.error_head import ErrorConfig, train_head, with_error_head
from bayesmri.training.settings import TrainConfig

What = Literal["spread", "error"]
SCANS = 3  # of every validation volume


@dataclass(frozen=True)
class Lesson:
    """What is learned, and from what.

    what: spread, σ̂ of many samples from a few; error, the size of the error.
    recipes: training configurations that say where data come from; the run's own unless given.
    elements: of each of them; one number is for all.
    judge: a configuration whose validation volumes, whole as they would be scanned, give a head its scale; without one
        it is judged by elements of the first recipe.
    keep: a folder for the elements, filled where it lacks some and read where it has them.
    """

    what: What = "spread"
    recipes: tuple[Path, ...] = ()
    elements: tuple[int, ...] = (480,)
    judge: Path | None = None
    keep: Path | None = None
    device: str = "cpu"

    def __post_init__(self) -> None:
        if len(self.elements) not in (1, max(1, len(self.recipes))) or min(self.elements, default=0) < 1:
            raise ConfigError(
                f"got {len(self.elements)} numbers of elements for {max(1, len(self.recipes))} configurations, "
                "expected one for all or one for each, of at least 1"
            )

    def counts(self) -> tuple[int, ...]:
        """By recipe."""
        n = max(1, len(self.recipes))
        return self.elements if len(self.elements) == n else self.elements * n


def distill_file(
    run: str | Path,
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
    recipes = lesson.recipes or (Path(run) / "config.toml",)
    for recipe in recipes:
        if not recipe.is_file():
            raise ConfigError(f"got {recipe} to say where data are, expected a file: give one with --config")
    place = check_device(lesson.device)
    stored = opened(locate(run))
    model = model_of(stored)
    began = time.perf_counter()
    with progress(sum(lesson.counts())) if progress else nullcontext(_nothing) as advance:
        elements = [
            _elements(model, recipe, replace(config, elements=n), lesson, place, advance)
            for recipe, n in zip(recipes, lesson.counts(), strict=True)
        ]
    judges = [] if lesson.judge is None else _judges(model, lesson.judge, config, lesson, place)
    losses: list[float] = []
    with progress(config.iterations) if progress else nullcontext(_nothing) as advance:

        def on_step(loss: float) -> None:
            losses.append(loss)
            advance()

        finish, facts = _learned(model, elements, judges, config, lesson.what, place, on_step)
    last = losses[-max(1, len(losses) // 10) :]
    facts |= {
        "loss": sum(last) / len(last),
        "seconds": time.perf_counter() - began,
        "device": str(place),
        "origin": stored.weights,
    }
    weights = save_model(out, finish(facts))
    return {"model": str(stored.path), "outputs": [str(out), str(weights)], **facts}


def _elements(
    model: Model,
    recipe: Path,
    config: DistillConfig,
    lesson: Lesson,
    place: torch.device,
    advance: Callable[[], None],
) -> list[Drawn]:
    """Of one recipe; a folder keeps them under its name."""
    matched = _matched(model, recipe)
    side: Side = "val" if lesson.what == "error" else "both"
    N = config.samples if lesson.what == "spread" else TARGET
    dataset = Dataset(matched.data, matched.recipe(), seed=config.seed, side=side)
    folder = None if lesson.keep is None else lesson.keep / recipe.stem
    numbers, found = range(config.elements), []
    again = lesson.what == "error"
    for one in drawn(model, dataset, numbers, N, seed=config.seed, device=place, folder=folder, again=again):
        found.append(one)
        advance()
    return found


def _judges(model: Model, recipe: Path, config: DistillConfig, lesson: Lesson, place: torch.device) -> list[Drawn]:
    """The validation volumes of a recipe under several masks, coils and noises."""
    matched, folder = _matched(model, recipe), None if lesson.keep is None else lesson.keep / recipe.stem
    found: list[Drawn] = []
    for seed in range(config.seed, config.seed + SCANS):
        dataset = Dataset(matched.data, matched.recipe(), seed=seed)
        found += validating(model, dataset, TARGET, seed=seed, device=place, folder=folder, again=True)
    return found


def _matched(model: Model, recipe: Path) -> TrainConfig:
    settings = parse(TrainConfig, read_toml(recipe))
    return replace(settings, mask=replace(settings.mask, acceleration=model.acceleration or 4.0))


def _learned(
    model: Model,
    elements: list[list[Drawn]],
    judges: list[Drawn],
    config: DistillConfig,
    what: What,
    place: torch.device,
    on_step: Callable[[float], None],
) -> tuple[Callable[[dict[str, object]], Model], dict[str, object]]:
    """What makes the model with what it learned and all facts for its card, and the first of these."""
    if what == "spread":
        predictor = distill([one for part in elements for one in part], config, on_step, device=place)
        facts: dict[str, object] = {**asdict(config), "kappa": predictor.config.kappa}
        facts["parameters"] = sum(w.numel() for w in predictor.parameters())
        return partial(with_predictor, model, predictor), facts
    wanted = ErrorConfig(config.iterations, config.batch, config.lr, config.features, seed=config.seed)
    head, reached = train_head(elements, wanted, on_step, judges=judges, device=place)
    facts = {**asdict(wanted), "elements": sum(map(len, elements)), "samples": TARGET, **reached}
    facts |= {"scale": head.config.scale, "scale_again": head.config.scale_again}
    facts["parameters"] = sum(w.numel() for w in head.parameters())
    return partial(with_error_head, model, head), facts


def _nothing() -> None:
    """No progress to show."""
