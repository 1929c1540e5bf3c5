"""Models that come with the package, by name: NAME.json with NAME.safetensors beside it, in the folder weights/.

Only the JSON files are read here, so that listing and choosing need no torch.
"""

import difflib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bayesmri.bounded import cleaned, one_line, read_json
from bayesmri.errors import ModelError

FOLDER = Path(__file__).with_name("weights")
AUTO = "auto"
MAIN_FAMILY = "tdv"  # what `auto` chooses from; others are there to be compared with
CHANNELS_FAMILY = "tdv-channels"  # the paper's variant for several coils: R sees them as channels
# names of models that were shipped before, and what takes their place
FORMER = {"tdv-single-r4": "tdv-r4", "tdv-single-r8": "tdv-r8", "tdv-multi-r4": "tdv-r4", "tdv-multi-r8": "tdv-r8"}


@dataclass(frozen=True)
class Shipped:
    """One shipped model, not loaded. path: its JSON file, whose content is `record`."""

    name: str
    path: Path
    record: Mapping[str, Any] = field(repr=False)

    @property
    def card(self) -> Mapping[str, Any]:
        """Facts for people: data and licences, training, metrics, limits."""
        card: Mapping[str, Any] = self.record.get("card") or {}
        return card

    @property
    def family(self) -> str:
        """Models that differ only in the data they are for: tdv-r4 and tdv-r8 are both tdv.

        A TDV that takes several coils as its channels, as the paper does, is of a family of its own.
        """
        kind = str((self.record.get("regularizer") or {}).get("kind", self.name))
        return CHANNELS_FAMILY if kind == MAIN_FAMILY and self._coils > 1 and not self.knows_coils else kind

    @property
    def acceleration(self) -> float | None:
        """R it was trained for."""
        R = self.record.get("acceleration")
        return None if R is None else float(R)

    @property
    def accelerations(self) -> tuple[float, ...]:
        """All R it was trained for; none where that is unknown."""
        first = () if self.acceleration is None else (self.acceleration,)
        return (*first, *map(float, self.record.get("also") or ()))

    @property
    def stochastic(self) -> bool:
        """Whether it has a posterior to draw from."""
        return self.record.get("posterior") == "gaussian"

    @property
    def nbytes(self) -> int:
        """Of both files."""
        return self.path.stat().st_size + self.path.with_name(_weights_of(self.path, self.record)).stat().st_size

    @property
    def knows_coils(self) -> bool:
        """Whether sensitivities are in its forward operator, so that it takes one coil and any array."""
        return self._made_for.get("mode") == "sensitivities"

    @property
    def _made_for(self) -> Mapping[str, Any]:
        made_for: Mapping[str, Any] = self.record.get("coils") or {}
        return made_for

    @property
    def _coils(self) -> int:
        return int(self._made_for.get("Q", 1))

    def takes(self, coils: int) -> bool:
        """One coil goes to models of one coil, several to models of virtual coils or of exactly as many raw ones."""
        if self.knows_coils:
            return True
        Q = self._coils
        return Q == 1 if coils == 1 else Q > 1 and (self._made_for.get("mode") == "virtual" or coils == Q)


def shipped() -> list[Shipped]:
    """All of them, by name."""
    return [entry(path) for path in sorted(FOLDER.glob("*.json")) if is_model(path)]


def entry(path: Path) -> Shipped:
    """Any model's JSON file as a shipped one: its card is read, its weights are not."""
    record = _record(path)
    if not path.with_name(_weights_of(path, record)).is_file():
        raise ModelError(f"{one_line(path.name)} has no .safetensors file beside it: a model is both files")
    return Shipped(path.stem, path, cleaned(record))


def families() -> list[str]:
    """The families of the shipped models, the main one last, as in the paper's table."""
    return sorted({model.family for model in shipped()}, key=lambda family: (family == MAIN_FAMILY, family))


def find(name: str | Path) -> Path:
    """The file of a shipped model of that name, or else a local file or folder; `./NAME` is always the local one.

    The name is looked up in a list, never joined to a path: it cannot lead out of the folder of weights.
    """
    known = _known()
    if str(name) in known:
        return known[str(name)]
    if _exists(Path(name)):
        return Path(name)
    if str(name) == AUTO:
        raise ModelError("auto chooses a model by the data: give it where data is reconstructed, and a name here")
    shown = one_line(name, limit=200)
    raise ModelError(f"model {shown} does not exist: give a run folder, a model's .json file{_suggestion(name, known)}")


def shadowed(name: str | Path) -> str | None:
    """A sentence where a shipped model was taken and a local file or folder has the same name."""
    if str(name) not in _known() or not _exists(Path(name)):
        return None
    return f"the shipped model {name} was taken; for the local one of that name write ./{name}"


def own_files(name: str | Path) -> list[Path]:
    """The files of a local model or run, which no output may overwrite; none for a shipped name."""
    path = Path(name)
    if str(name) in _known() or not _exists(path):
        return []
    if path.is_dir():
        return sorted(p for p in path.rglob("*") if p.suffix in (".json", ".safetensors", ".toml", ".jsonl"))
    path = without_digest(path).with_suffix(".json")
    return [path, *{path.with_name(weights_name(path)): 0, path.with_suffix(".safetensors"): 0}]


def is_model(path: Path) -> bool:
    """Whether the weights of a JSON file are beside it."""
    return path.with_suffix(".safetensors").is_file() or path.with_name(weights_name(path)).is_file()


def weights_name(path: Path) -> str:
    """Of the weights of a model's JSON file; NAME.safetensors where it does not say."""
    try:
        return _weights_of(path, read_json(path))
    except (OSError, ValueError):
        return path.with_suffix(".safetensors").name


def without_digest(path: Path) -> Path:
    """model.0123456789ab.safetensors → model.safetensors; any other path as it is."""
    return path.with_name(re.sub(r"\.[0-9a-f]{12}(?=\.safetensors$)", "", path.name))


def choose(*, coils: int, acceleration: float, family: str = MAIN_FAMILY, samples: int = 0) -> Shipped:
    """argmin |log(R / R_model)| among the family's models for that many coils.

    acceleration: R of the data at hand. samples: more than 0 asks for a posterior.
    """
    everything = shipped()
    if not everything:
        raise ModelError(
            "no model came with this installation, so none can be chosen: give a run folder of bayesmri train as the "
            "model, or take the method tv"
        )
    fitting = [
        (min(abs(math.log(acceleration / R)) for R in model.accelerations), not model.stochastic, model.name, model)
        for model in everything
        if model.family == family and model.takes(coils) and model.accelerations and (model.stochastic or not samples)
    ]
    if not fitting:
        wanted = f"{_counted(coils)}{' and has a posterior' if samples else ''}"
        raise ModelError(
            f"no shipped model of the family {family} takes {wanted}: shipped are "
            f"{', '.join(model.name for model in everything)}; see bayesmri models"
        )
    return min(fitting, key=lambda entry: entry[:3])[3]


def reason(model: Shipped, *, coils: int, acceleration: float) -> str:
    """What a choice was made by, for people and for provenance."""
    return f"{model.name} (trained for {trained_for(model)}) for {_counted(coils)} at R = {acceleration:.3g}"


def trained_for(model: Shipped) -> str:
    """ "R = 4", "R = 4, 8", or that nothing is known."""
    listed = ", ".join(f"{R:g}" for R in model.accelerations)
    return f"R = {listed}" if listed else "no acceleration"


def _known() -> dict[str, Path]:
    """Shipped models by all their names."""
    now = {model.name: model.path for model in shipped()}
    return now | {former: now[name] for former, name in FORMER.items() if name in now and former not in now}


def _weights_of(path: Path, record: Any) -> str:
    try:
        return Path(str(record["files"]["weights"]["name"])).name or path.with_suffix(".safetensors").name
    except (KeyError, TypeError):
        return path.with_suffix(".safetensors").name


def _record(path: Path) -> dict[str, Any]:
    shown = one_line(path.name)
    try:
        record = read_json(path)
    except (OSError, ValueError) as error:
        said = one_line((isinstance(error, OSError) and error.strerror) or error, limit=120)
        raise ModelError(f"the model {shown} is damaged ({said}): install or copy it again") from error
    if not (isinstance(record, dict) and isinstance(record.get("regularizer"), dict)):
        raise ModelError(f"{shown} is not a bayesmri model, expected the .json file that training or publish writes")
    return record


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a name longer than any file's, or with a null byte
        return False


def _suggestion(name: str | Path, known: Mapping[str, Path] | Sequence[str]) -> str:
    """ ", or a shipped model: closest are …"."""
    if not known:
        return "; no models came with this installation (bayesmri models)"
    close = difflib.get_close_matches(Path(name).name[:200], [AUTO, *known], n=3, cutoff=0.3) or list(known)[:3]
    return f" or a shipped name; closest: {', '.join(close)} (bayesmri models lists all)"


def _counted(coils: int) -> str:
    return "1 coil" if coils == 1 else f"{coils} coils"
