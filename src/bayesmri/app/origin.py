"""How a result was made, from what it records of itself: enough to ask the same scan by the same method."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from bayesmri.errors import ConfigError, DataError
from bayesmri.io.guard import one_line
from bayesmri.recon.acquisition import RULES, Sampling
from bayesmri.recon.request import Options

METHOD = ("model", "method", "tv_weight", "coils", "single_coil", "full_fov", "scale")


@dataclass(frozen=True)
class Origin:
    """scan: names of the input's files; sums: their sha256. sampling: how it was undersampled first, if it was.

    others: sha256 of what else was read: the model, and maybe sensitivities.
    """

    scan: tuple[str, ...]
    sums: tuple[str, ...]
    options: Options
    sampling: Sampling | None
    others: frozenset[str]


def origin_of(provenance: Mapping[str, Any]) -> Origin:
    """Refused where something besides file, model and mask made the image."""
    config, inputs = provenance.get("config"), provenance.get("inputs")
    if provenance.get("command") != "recon" or not isinstance(config, dict) or not isinstance(inputs, list):
        raise DataError("the result does not record how it was made, expected one of bayesmri recon; reconstruct again")
    if config.get("tuned") or config.get("tune"):
        raise DataError("the result was tuned to its scan, and cannot be asked; reconstruct it without --tune")
    if config.get("reading"):
        raise DataError(
            "the scan of this result was read in a way that was told by hand (axes, an image of several), and cannot "
            "be asked here; use bayesmri whatif"
        )
    named = _named(inputs)
    scan = named[:2] if named[0][0].endswith(".hdr") and len(named) > 1 else named[:1]
    others = frozenset(total for _, total in named[len(scan) :])
    try:
        options = Options(**{name: config[name] for name in METHOD if config.get(name) is not None})
        sampling = _sampling(config.get("sampling"))
    except (TypeError, ConfigError) as error:
        raise DataError(
            f"the result records settings that are not known here ({one_line(error, limit=120)})"
        ) from error
    return Origin(tuple(name for name, _ in scan), tuple(total for _, total in scan), options, sampling, others)


def _named(inputs: list[Any]) -> list[tuple[str, str]]:
    """Name and sha256 of every file, that of the scan, or both halves of a BART pair, first."""
    named = [(str(one.get("name", "")), str(one.get("sha256", ""))) for one in inputs if isinstance(one, dict)]
    if not named:
        raise DataError("the result does not record its scan, expected one of bayesmri recon; reconstruct again")
    return named


def _sampling(told: Any) -> Sampling | None:
    if told is None:
        return None
    known = {field.name for field in fields(Sampling)}
    sampling = Sampling(**{name: value for name, value in dict(told).items() if name in known})
    if sampling.mask not in RULES:
        raise ConfigError(f"the mask {one_line(sampling.mask, limit=60)} was a file, which is not at hand")
    return sampling
