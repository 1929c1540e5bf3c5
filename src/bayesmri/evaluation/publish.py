"""A model to give away, made of a run: its weights without the training state, and a card that says what it is."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from bayesmri.checkpoint import model_of, save_model
from bayesmri.errors import DataError, ModelError
from bayesmri.evaluation.card import make_card
from bayesmri.evaluation.familiarise import familiar_of
from bayesmri.evaluation.request import Publication
from bayesmri.evaluation.reuse import why
from bayesmri.evaluation.table import means
from bayesmri.io.atomic import check_target
from bayesmri.recon.method import model_name
from bayesmri.runs import locate, opened


def publish(wanted: Publication) -> dict[str, Any]:
    """Writes NAME.json and NAME.safetensors; returns the card and the files."""
    target = wanted.out / f"{wanted.name}.json"
    for file in (target, target.with_suffix(".safetensors")):
        check_target(file, force=wanted.force)
    results = None if wanted.results is None else _read_results(wanted.results)

    stored = opened(locate(wanted.run))
    model, digest = model_of(stored), stored.weights
    card = make_card(wanted.name, dict(stored.record), model, licence=wanted.licence, processor=wanted.processor)
    card["limits"] += [limit for limit in wanted.limits if limit not in card["limits"]]
    if results is not None:
        card["results"] = own_results(results, digest=digest, name=model_name(str(wanted.run)))
    if wanted.data is not None:
        model = replace(model, familiar=familiar_of(model, wanted.data))
    weights = save_model(target, replace(model, card=card))
    return {"name": wanted.name, "outputs": [str(target), str(weights)], "bytes": weights.stat().st_size, "card": card}


def own_results(results: Mapping[str, Any], *, digest: str, name: str) -> dict[str, Any]:
    """The means of this model's rows and of zero filling on the same volumes, with the command that printed them."""

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
