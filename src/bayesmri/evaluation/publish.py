"""A model to give away, made of a run: its weights without the training state, and a card that says what it is."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bayesmri.errors import ConfigError, DataError, ModelError
from bayesmri.evaluation.reuse import why
from bayesmri.io.atomic import check_target
from bayesmri.recon.request import BASELINES
from bayesmri.zoo import AUTO, FOLDER

NAME = re.compile(r"[a-z0-9]+(-[a-z0-9.]+)*")


@dataclass(frozen=True)
class Publication:
    """What is given away, and what its card says besides the run's own facts.

    run: a run folder or a model's file; one that was published keeps the results, limits and predictor of its card.
    name: of the published model. out: the folder for NAME.json and its weights.
    results: of `bayesmri evaluate` on this model. licence: of training files that do not state their own.
    processor: that it was trained on, in place of what the run says. limits: further sentences for its users.
    """

    run: Path
    name: str
    out: Path = FOLDER
    results: Path | None = None
    licence: str | None = None
    processor: str | None = None
    limits: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name) or len(self.name) > 64:
            raise ConfigError(f"the name {self.name!r}: want small letters, digits and dashes, such as tdv-mine")
        if self.name in (AUTO, *BASELINES):
            raise ConfigError(f"the name {self.name} already means something else: give another, such as tdv-mine")


def publish(wanted: Publication) -> dict[str, Any]:
    """Writes NAME.json and NAME.safetensors; returns the card and the files."""
    target = wanted.out / f"{wanted.name}.json"
    for file in (target, target.with_suffix(".safetensors")):
        check_target(file)
    results = None if wanted.results is None else _read_results(wanted.results)

    from bayesmri.checkpoint import load_model, save_model
    from bayesmri.evaluation.card import make_card
    from bayesmri.recon.method import model_name
    from bayesmri.runs import locate

    path = locate(wanted.run)
    model = load_model(path)
    record = json.loads(path.read_text(encoding="utf-8"))
    digest = record["files"]["weights"]["sha256"]
    card = make_card(wanted.name, record, model, licence=wanted.licence, processor=wanted.processor)
    card["limits"] += [limit for limit in wanted.limits if limit not in card["limits"]]
    if results is not None:
        card["results"] = own_results(results, digest=digest, name=model_name(str(wanted.run)))
    save_model(target, replace(model, card=card))
    weights = target.with_suffix(".safetensors")
    weights.chmod(target.stat().st_mode)  # safetensors writes files that only their owner may read
    return {"name": wanted.name, "outputs": [str(target), str(weights)], "bytes": weights.stat().st_size, "card": card}


def own_results(results: Mapping[str, Any], *, digest: str, name: str) -> dict[str, Any]:
    """The means of this model's rows and of zero filling on the same volumes, with the command that printed them."""
    from bayesmri.evaluation.table import means

    rows = results["rows"]
    own = [row for row in rows if row.get("weights") == digest]
    if not own:
        raise ModelError(
            f"the results hold no row of {name}: evaluate the model itself, with --methods zero-filled,{name}"
        )
    settings = {(row["track"], row["acceleration"]) for row in own}
    zero = [r for r in rows if r["method"] == "zero-filled" and (r["track"], r["acceleration"]) in settings]
    keep = ("track", "acceleration", "samples", "volumes", "psnr", "nmse", "ssim", "seconds")
    return {
        "command": results["command"],
        "time": results["provenance"]["time"],
        "rows": [{key: row[key] for key in keep} for row in means(own)],
        "zero_filled": [{key: row[key] for key in keep} for row in means(zero)],
    }


def _read_results(path: Path) -> dict[str, Any]:
    try:
        results = json.loads(path.read_text(encoding="utf-8"))
        rows, _, _ = results["rows"], results["command"], results["provenance"]["time"]
        if not all(isinstance(row, dict) and {"method", "weights", "track"} <= set(row) for row in rows):
            raise ValueError("rows without method, weights and track")
    except OSError as error:
        raise DataError(f"cannot read {path} ({error.strerror}): give the JSON file of bayesmri evaluate") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(
            f"{path.name} is not a result of this version's bayesmri evaluate ({why(error)}): give its JSON file"
        ) from error
    return dict(results)
