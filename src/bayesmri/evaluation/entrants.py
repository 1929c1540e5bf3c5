"""Who takes part in an evaluation: methods, models, and families of shipped models that follow the data."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bayesmri import zoo
from bayesmri.checkpoint import model_of
from bayesmri.errors import MissingExtraError
from bayesmri.kspace import KSpace
from bayesmri.model import Model
from bayesmri.recon.method import Method, make_method, model_name
from bayesmri.recon.reconstruct import Reconstruction, reconstruct
from bayesmri.recon.request import BASELINES, Options
from bayesmri.runs import locate, opened

ALL = "all"


@dataclass(frozen=True, eq=False)
class Player:
    """What reconstructs a volume.

    method: ready. model, weights: its model and the sha256 of that model's weights; None for methods without any.
    """

    method: Method
    model: Model | None = None
    weights: str | None = None

    def parameters(self, samples: int) -> int:
        """Learned numbers in use: without samples L is not among them."""
        if self.model is None or self.model.posterior is None or samples:
            return self.method.parameters
        weights = sum(weight.numel() for weight in self.model.regularizer.weights().values())
        return self.method.parameters - self.model.posterior.n_parameters + weights


@dataclass(frozen=True, eq=False)
class Entrant:
    """One row of the table.

    pick: the player for a volume; a family raises a ModelError where none of its models fits.
    stochastic: whether it has a posterior. samples: N, 0 for the reconstruction at its mean.
    """

    name: str
    pick: Callable[[KSpace], Player]
    stochastic: bool = False
    samples: int = 0

    def run(self, kspace: KSpace, *, seed: int, device: str) -> Reconstruction:
        """By the player for that volume."""
        player = self.pick(kspace)
        drawn = Options(model=player.model, samples=self.samples, seed=seed, device=device) if self.samples else None
        return reconstruct(kspace, drawn or player.method)

    def facts(self, kspace: KSpace) -> dict[str, Any]:
        """What a row says of the player."""
        player = self.pick(kspace)
        return {
            "parameters": player.parameters(self.samples),
            "samples": self.samples,
            "model": None if player.model is None else player.method.name,
            "weights": player.weights,
        }


@dataclass(frozen=True, eq=False)
class Family:
    """The shipped models of a family, each loaded when it is first needed."""

    name: str
    device: str
    loaded: dict[str, Player] = field(default_factory=dict, repr=False)

    def pick(self, kspace: KSpace) -> Player:
        """By coils and acceleration, as `recon --model auto` does."""
        model = zoo.choose(coils=kspace.z.shape[1], acceleration=kspace.acceleration, family=self.name)
        if model.name not in self.loaded:
            self.loaded[model.name] = load_player(model.path, model.name, self.device)
        return self.loaded[model.name]


def entrants(texts: Sequence[str], *, samples: int, device: str) -> tuple[list[Entrant], list[str]]:
    """Each once, in their order, each with a posterior followed by its mean of N samples; and who had to stay away.

    texts: zero-filled, tv, …; auto or the name of a family of shipped models, which follow coils and acceleration; a
        model's name, folder or file; all: every method and every family.
    """
    given: dict[str, Entrant] = {}
    absent: list[str] = []
    for text in texts:
        for name in (*BASELINES, *zoo.families()) if text == ALL else (text,):
            try:
                given[name] = _entrant(name, device)
            except MissingExtraError as error:
                if text != ALL:
                    raise
                absent.append(f"{name}: {error}")
    count = Counter(entrant.name for entrant in given.values())
    named = [e if count[e.name] == 1 else replace(e, name=text) for text, e in given.items()]
    return [row for entrant in named for row in _with_samples(entrant, samples)], absent


def load_player(path: Path, name: str, device: str) -> Player:
    """A model from its JSON file, under a name."""
    stored = opened(path)
    model = model_of(stored)
    return Player(replace(make_method(Options(model=model, device=device)), name=name), model, stored.weights)


def _entrant(text: str, device: str) -> Entrant:
    if text in BASELINES:
        method = Player(make_method(replace(Options(device=device), method=text)))  # type: ignore[arg-type]
        return Entrant(text, lambda kspace: method)
    if text == zoo.AUTO or (text in zoo.families()):
        family = zoo.MAIN_FAMILY if text == zoo.AUTO else text
        stochastic = any(model.stochastic for model in zoo.shipped() if model.family == family)
        return Entrant(text, Family(family, device).pick, stochastic)
    model = load_player(locate(text), model_name(text), device)
    return Entrant(model.method.name, lambda kspace: model, model.method.sampler is not None)


def _with_samples(entrant: Entrant, samples: int) -> list[Entrant]:
    if not (samples and entrant.stochastic):
        return [entrant]
    return [entrant, replace(entrant, name=f"{entrant.name}, mean of {samples}", samples=samples)]
