"""What the studies share: models with their facts, volumes of a folder, and samples of one volume at one R."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bayesmri.checkpoint import model_of
from bayesmri.errors import BayesMRIError, DataError, ModelError
from bayesmri.evaluation.request import SAMPLES, Request, Study
from bayesmri.evaluation.table import data_files, fully_sampled, middle_slices, sampling_of
from bayesmri.kspace import KSpace
from bayesmri.model import Model
from bayesmri.posterior.kl import entropy
from bayesmri.recon.files import Progress
from bayesmri.recon.method import model_name
from bayesmri.recon.reconstruct import Reconstruction, reconstruct
from bayesmri.recon.request import Options
from bayesmri.recon.undersample import single_coil, undersample
from bayesmri.runs import FOLDER, Stored, locate, opened


@dataclass(frozen=True, eq=False)
class Loaded:
    """A model of a study. path: its JSON file; files: as they were read, None where it was not loaded from any."""

    name: str
    path: Path
    model: Model
    files: Stored | None = field(default=None, repr=False)

    @property
    def stored(self) -> Stored:
        """What was loaded, so that what is recorded, or written again, is just that."""
        if self.files is None:
            raise ModelError(f"{self.name} was not loaded from a file: give the name of one")
        return self.files

    @property
    def stochastic(self) -> bool:
        return self.model.stochastic

    def facts(self) -> dict[str, Any]:
        """JSON values: what tells it apart from other models. entropy: H̄; None (−∞) where nothing is drawn."""
        drawn = self.stochastic
        return {
            "model": self.name,
            "beta": beta_of(self.model.card) if drawn else None,
            "entropy": float(entropy(self.model.distribution().blocks)) if drawn else None,
            "trained_for": self.model.acceleration,
            "coils": self.model.coils.Q,
            "S": self.model.S,
            "T": self.model.T,
            "step": self.model.card.get("step"),
            "parameters": self.model.n_parameters,
        }


def load(text: str) -> Loaded:
    """A model by its path; a checkpoint that was picked out of a run carries the run's name too."""
    stored = opened(locate(text))
    path = stored.path
    picked = path.parent.name == FOLDER and not Path(text).is_dir()
    name = f"{path.parent.parent.name}/{path.stem}" if picked else model_name(text)
    return Loaded(name, path, model_of(stored), stored)


def load_stochastic(text: str) -> Loaded:
    """A model with a posterior, refused by its name otherwise."""
    loaded = load(text)
    if not loaded.stochastic:
        raise ModelError(
            f"{loaded.name} has no posterior, so there is no standard deviation to study: give a model trained with "
            "one (configs/*-bayes.toml)"
        )
    return loaded


def beta_of(card: Any) -> float | None:
    """β that the model was trained with, from the configuration on its card."""
    for keys in (("posterior",), ("provenance", "config", "posterior")):
        part = card
        for key in keys:
            part = part.get(key, {}) if hasattr(part, "get") else {}
        if hasattr(part, "get") and isinstance(part.get("beta"), int | float):
            return float(part["beta"])
    return None


@dataclass
class Volumes:
    """The fully sampled volumes of a request, read one at a time.

    skipped: what could not be judged, one line each; used: what could. Both fill while the volumes are read.
    """

    request: Request
    skipped: list[str] = field(default_factory=list)
    used: list[Path] = field(default_factory=list)

    def __iter__(self) -> Iterator[tuple[Path, KSpace]]:
        assert self.request.data is not None
        for path in data_files(self.request.data):
            try:
                full = fully_sampled(path, rules(self.request))
            except BayesMRIError as error:
                self.skipped.append(f"{path.name}: {error}")
                continue
            self.used.append(path)
            yield path, middle_slices(full, self.request.slices)
        if not self.used:
            raise DataError(f"no fully sampled volume in {self.request.data}: {'; '.join(self.skipped[:3])}")

    def facts(self) -> dict[str, Any]:
        """What was left out, in numbers and words."""
        K = self.request.slices
        return {"slices_of_every_volume": "all" if K is None else f"{K} in the middle", "skipped": self.skipped}


def rules(request: Request) -> Study:
    """As evaluations read and undersample: the same masks for the same seed and file."""
    assert request.data is not None
    return Study(data=request.data, **{**request.scan(), "slices": None}).track(request.track)


def first_volume(volumes: Volumes) -> tuple[Path, KSpace]:
    """For a study that shows one slice of one volume."""
    return next(iter(volumes))


def slice_facts(loaded: Loaded, path: Path, volumes: Volumes) -> dict[str, Any]:
    """JSON values: what a study of one slice was made of."""
    request = volumes.request
    return {
        **loaded.facts(),
        "file": path.name,
        "slice": "middle",
        "acceleration": request.accelerations[0],
        "samples": request.samples,
        "skipped": volumes.skipped,
    }


def taken(full: KSpace, loaded: Loaded) -> KSpace:
    """As the model takes it: a model of one raw coil takes several as one emulated coil."""
    coils = loaded.model.coils
    return single_coil(full) if coils.mode == "raw" and coils.Q == 1 else full


def n_coils(full: KSpace, loaded: Loaded) -> int:
    """Of the data as the model takes it."""
    coils = loaded.model.coils
    return 1 if coils.mode == "raw" and coils.Q == 1 else full.z.shape[1]


def sample_volume(
    full: KSpace,
    path: Path,
    R: float,
    loaded: Loaded,
    request: Request,
    *,
    keep: bool = False,
    fast: bool = False,
    check: bool = False,
    draws: bool = True,
) -> Reconstruction:
    """N samples of every slice at R, with the truth; a model without a posterior reconstructs once.

    check: with the error that left-out lines tell. draws: False reconstructs once in any case. keep: the samples, too.
    fast: mean and standard deviation are what the model's predictor makes of them.
    """
    sampled = undersample(taken(full, loaded), sampling_of(path, R, rules(request)))
    samples = (request.samples or SAMPLES) if loaded.stochastic and draws else 0
    options = Options(
        model=loaded.model,
        samples=samples,
        seed=request.seed,
        keep_samples=keep and samples > 0,
        fast=fast,
        check=check,
        device=request.device,
    )
    return reconstruct(sampled, options)


def counted(
    progress: Progress | None, request: Request, *, one_volume: bool = False
) -> AbstractContextManager[Callable[[], None]]:
    """Its value is to be called after every reconstruction of a volume."""
    assert request.data is not None
    files = 1 if one_volume else len(data_files(request.data))
    total = files * len(request.accelerations) * len(request.models)
    return progress(total) if progress else nullcontext(lambda: None)
