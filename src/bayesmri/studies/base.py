"""What a study is: a request, an outcome of numbers, figure and text, and which options it takes; no torch here."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bayesmri.bounds.bound import check_level
from bayesmri.errors import ConfigError
from bayesmri.recon.files import Progress
from bayesmri.recon.request import check_seed

SAMPLES = 32
JOIN = "+"  # of the members of an ensemble
ISOTROPIC = "isotropic:"  # before a model: with one variance for all its weights


def members_of(text: str) -> list[str]:
    """The models that a text names: one, or the members of an ensemble, a+b+c; a file or folder is never split."""
    return [text] if Path(text).exists() else [part for part in text.split(JOIN) if part]


def named(text: str) -> str:
    """The text without folders, which may tell more than they should."""
    start = ISOTROPIC if text.startswith(ISOTROPIC) else ""
    return start + JOIN.join(Path(part).name for part in members_of(text.removeprefix(start)))


@dataclass(frozen=True)
class Request:
    """What a study is made of; None and () stand for the study's own choice.

    models: run folders or models' files. data: a folder or file of fully sampled volumes.
    slices: only so many middle slices of every volume. samples: N of every slice.
    coils, snr_db: simulated for magnitude images. iterations: of a study that searches. errors: show error maps, too.
    level: of calibrated error bounds.
    """

    models: tuple[str, ...]
    data: Path | None = None
    accelerations: tuple[float, ...] = ()
    samples: int | None = None
    slices: int | None = None
    mask: str = "random"
    center_fraction: float | None = None
    coils: int = 1
    snr_db: float | None = 30.0
    device: str = "cpu"
    seed: int = 0
    iterations: int | None = None
    errors: bool = False
    level: float | None = None

    def __post_init__(self) -> None:
        check_seed(self.seed)
        if self.slices is not None and self.slices < 1:
            raise ConfigError(f"{self.slices} slices of every volume: want at least 1, or leave it out for all")
        if self.samples is not None and self.samples < 2:
            raise ConfigError(f"{self.samples} samples: want at least 2, such as {SAMPLES}; fewer do not spread")
        if self.level is not None:
            check_level(self.level)
        if self.iterations is not None and self.iterations < 1:
            raise ConfigError(f"{self.iterations} iterations: want at least 1, or leave it out")


@dataclass(frozen=True)
class Outcome:
    """numbers: JSON values. draw: writes the figure to a path. text: what a person reads on the terminal.

    inputs: the files it was made of.
    """

    numbers: dict[str, Any]
    draw: Callable[[Path], None]
    text: str
    inputs: tuple[Path, ...]


Run = Callable[[Request, Progress | None], Outcome]


@dataclass(frozen=True)
class Kind:
    """One study.

    about: one sentence for the help. load: imports its code, torch included, only when it is asked for.
    accelerations: its own choice of R. several_accelerations, several_models: whether more than one makes sense to it.
    one_slice: it shows the middle slice of one volume, of a folder the first that can be read.
    draws: it makes samples. iterations: its own choice, of a study that searches. errors: it can show error maps.
    bounds: it has error bounds, which have a level.
    shipped_models: without models it takes those that came with the package.
    """

    about: str
    load: Callable[[], Run]
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
        raise ConfigError(f"the study {name} came without data: give --data, a folder of fully sampled volumes")
    if len(request.accelerations) > 1 and not kind.several_accelerations:
        raise ConfigError(
            f"{len(request.accelerations)} accelerations came to the study {name}: want one, as --acceleration 4"
        )
    if kind.one_slice and request.slices is not None:
        raise ConfigError(f"--slices {request.slices} came to the study {name}, which shows one slice: leave it out")
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
        want = "at least one" if kind.several_models else "one"
        raise ConfigError(f"{n} models came to the study {name}: want {want}, as --model runs/small")


def _check_extras(name: str, kind: Kind, request: Request) -> None:
    """Options that only some studies have a use for."""
    if request.samples is not None and kind.needs_data and not kind.draws:
        raise ConfigError(f"--samples {request.samples} came to the study {name}, which draws none: leave it out")
    if request.iterations is not None and kind.iterations is None:
        raise ConfigError(f"--iterations {request.iterations} came to the study {name}, which has none: leave it out")
    if request.level is not None and not kind.bounds:
        raise ConfigError(f"--level {request.level:g} came to the study {name}, which has no bounds: leave it out")
    if request.errors and not kind.errors:
        raise ConfigError(f"--errors came to the study {name}, which shows no error maps: leave it out")


def _of_the_model_alone(name: str, request: Request) -> Request:
    given = {
        "--data": request.data,
        "--acceleration": request.accelerations or None,
        "--samples": request.samples,
        "--slices": request.slices,
    }
    unused = [option for option, value in given.items() if value is not None]
    if unused:
        raise ConfigError(f"{', '.join(unused)} came to the study {name}, which looks at the model alone: leave it out")
    return request
