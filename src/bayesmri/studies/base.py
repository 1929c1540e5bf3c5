"""What a study is: a request, an outcome of numbers, figure and text, and which options it takes; no torch here."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bayesmri.errors import ConfigError
from bayesmri.evaluation.request import SAMPLES, Request


@dataclass(frozen=True)
class Outcome:
    """numbers: JSON values. draw: writes the figure to a path. text: what a person reads on the terminal.

    inputs: the files it was made of.
    """

    numbers: dict[str, Any]
    draw: Callable[[Path], None]
    text: str
    inputs: tuple[Path, ...]


def study_module(name: str, part: str) -> Callable[..., Any]:
    """NAME_study, NAME_figure or NAME_text of the study's own module, imported with torch and all when it is asked for.

    study: (request, progress) → Outcome. figure: (path, numbers=…) draws. text: numbers → what a person reads.
    """
    found: Callable[..., Any] = getattr(importlib.import_module(f"bayesmri.studies.{name}"), f"{name}_{part}")
    return found


@dataclass(frozen=True)
class Kind:
    """One study.

    about: one sentence for the help.
    accelerations: its own choice of R. several_accelerations, several_models: whether more than one makes sense to it.
    one_slice: it shows the middle slice of one volume, of a folder the first that can be read.
    draws: it makes samples. iterations: its own choice, of a study that searches. errors: it can show error maps.
    bounds: it has error bounds, which have a level.
    shipped_models: without models it takes those that came with the package.
    """

    about: str
    accelerations: tuple[float, ...] = (4.0,)
    several_accelerations: bool = False
    several_models: bool = False
    needs_data: bool = True
    one_slice: bool = False
    draws: bool = True
    iterations: int | None = None
    errors: bool = False
    shipped_models: bool = False
    bounds: bool = False


def settled(name: str, kind: Kind, request: Request) -> Request:
    """The request with the study's own choices filled in; what it would ignore is refused."""
    _check_models(name, kind, request)
    _check_extras(name, kind, request)
    if not kind.needs_data:
        return _of_the_model_alone(name, request)
    if request.data is None:
        raise ConfigError(f"got the study {name} without data; give --data, a folder of fully sampled volumes")
    if len(request.accelerations) > 1 and not kind.several_accelerations:
        raise ConfigError(
            f"got {len(request.accelerations)} accelerations for the study {name}, expected one, as --acceleration 4"
        )
    if kind.one_slice and request.slices is not None:
        raise ConfigError(f"got --slices {request.slices} for the study {name}, which shows one slice; leave it out")
    samples = SAMPLES if request.samples is None and kind.draws else request.samples
    return replace(
        request,
        slices=1 if kind.one_slice else request.slices,
        samples=samples,
        accelerations=request.accelerations or kind.accelerations,
        iterations=request.iterations or kind.iterations,
    )


def _check_models(name: str, kind: Kind, request: Request) -> None:
    n = len(request.models)
    if (n == 0 and not kind.shipped_models) or (n > 1 and not kind.several_models):
        expected = "at least one" if kind.several_models else "one"
        raise ConfigError(f"got {n} models for the study {name}, expected {expected}, as --model runs/small")


def _check_extras(name: str, kind: Kind, request: Request) -> None:
    """Options that only some studies have a use for."""
    if request.samples is not None and kind.needs_data and not kind.draws:
        raise ConfigError(f"got --samples {request.samples} for the study {name}, which draws none; leave it out")
    if request.iterations is not None and kind.iterations is None:
        raise ConfigError(f"got --iterations {request.iterations} for the study {name}, which has none; leave it out")
    if request.level is not None and not kind.bounds:
        raise ConfigError(f"got --level {request.level:g} for the study {name}, which has no bounds; leave it out")
    if request.errors and not kind.errors:
        raise ConfigError(f"got --errors for the study {name}, which shows no error maps; leave it out")


def _of_the_model_alone(name: str, request: Request) -> Request:
    given = {
        "--data": request.data,
        "--acceleration": request.accelerations or None,
        "--samples": request.samples,
        "--slices": request.slices,
    }
    unused = [option for option, value in given.items() if value is not None]
    if unused:
        raise ConfigError(f"got {', '.join(unused)} for the study {name}, which looks at the model alone; leave it out")
    return request
