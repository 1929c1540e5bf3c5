"""What the card of a published model says: gathered from its run and from the files it was trained on."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bayesmri.errors import BayesMRIError, ModelError
from bayesmri.io.formats import volume_paths
from bayesmri.io.safe_h5 import open_h5, text_attribute
from bayesmri.model import Model
from bayesmri.physics.pattern import center_share
from bayesmri.posterior.kl import entropy
from bayesmri.runs import locate

RESEARCH = "For research use only: not a medical device; nothing it shows may guide diagnosis or treatment."
KINDS = {
    "tdv": "Total deep variation",
    "foe": "Fields of experts",
    "unet": "U-Net",
    "varnet": "E2E-VarNet",
    "irim": "i-RIM",
    "sigmanet": "Σ-Net",
}


def make_card(
    name: str, record: Mapping[str, Any], model: Model, *, licence: str | None, processor: str | None
) -> dict[str, Any]:
    """JSON values.

    record: of the run's checkpoint, or of a published model, whose results, limits and predictor stay on the card.
    licence: of training files that state none.
    processor: in place of what the run states.
    """
    run = record.get("card") or {}
    provenance = run.get("provenance") or {}
    config = provenance.get("config") or {}
    data = _data(run, licence)
    return {
        "name": name,
        "summary": _summary(record),
        "parameters": _parameters(model),
        "entropy": float(entropy(model.distribution().blocks)) if model.stochastic else None,
        "step": run.get("step"),
        **{key: run[key] for key in ("posterior", "predictor", "results") if key in run},
        "training": _training(record, run, processor),
        "data": data,
        "validation": record.get("metrics") or run.get("validation"),
        "limits": list(run.get("limits") or [RESEARCH, *_limits(record, config, data)]),
        "provenance": {**provenance, "config": _without_folders(config)},
    }


def _summary(record: Mapping[str, Any]) -> str:
    kind, coils = record["regularizer"]["kind"], record["coils"]
    array = "single-coil" if coils["Q"] == 1 else f"multi-coil ({coils['Q']} {coils['mode']} coils)"
    if coils["mode"] == "sensitivities":
        array = "one coil and any array, by sensitivities"
    several = [R for R in (record["acceleration"], *record.get("also", ())) if R is not None]
    R = f", R = {' and '.join(f'{R:g}' for R in several)}" if several else ""
    weights = ", weights with a posterior" if record.get("posterior") == "gaussian" else ""
    return f"{KINDS.get(kind, kind)}, {array}{R}{weights}"


def _parameters(model: Model) -> dict[str, int]:
    """reconstruction: what one reconstruction uses, weights and T. total: with L."""
    weights = sum(weight.numel() for weight in model.regularizer.weights().values())
    drawn = 0 if model.posterior is None else model.posterior.n_parameters - weights
    return {"reconstruction": model.n_parameters - drawn, "total": model.n_parameters}


def _training(record: Mapping[str, Any], run_card: Mapping[str, Any], processor: str | None) -> dict[str, Any]:
    """Iterations, seed and hours of the run and of those it went on from, as far as they can still be found."""
    if "training" in run_card:
        return {**run_card["training"], **({"processor": processor} if processor else {})}
    facts, provenance = record.get("facts") or {}, run_card.get("provenance") or {}
    config = facts.get("config") or provenance.get("config") or {}
    stages = _stages((config.get("train") or {}).get("init_from"), own=_weights(record))
    own = None if facts.get("elapsed") is None else facts["elapsed"] / 3600
    known = [own, *(stage["hours"] for stage in stages)]
    return {
        "iterations": record.get("step", run_card.get("step", 0)),
        "seed": provenance.get("seed"),
        "hours": None if any(h is None for h in known) else sum(known),
        "threads": facts.get("threads", provenance.get("threads")),
        "processor": processor or provenance.get("processor") or provenance.get("machine"),
        "stages": stages,
    }


def _stages(origin: str | None, depth: int = 8, *, own: str | None = None) -> list[dict[str, Any]]:
    """The runs before, the first of them first; one that is gone is named without its numbers.

    own: checksum of the run's weights. A run that was published in the place of its origin is not its own origin.
    """
    if origin is None or depth == 0:
        return []
    name = Path(origin).name
    try:
        record = json.loads(locate(Path(origin)).read_text(encoding="utf-8"))
    except (BayesMRIError, OSError, ValueError):
        return [{"name": name, "iterations": None, "hours": None}]
    card, facts = record.get("card") or {}, record.get("facts") or {}
    if "training" in card:  # a published model, whose hours are those of its stages, too
        done = card["training"]
        if own is not None and own == _weights(record):
            return list(done["stages"])
        known = [done["hours"], *(stage["hours"] for stage in done["stages"])]
        own = None if any(h is None for h in known) else known[0] - sum(known[1:])
        return [*done["stages"], {"name": name, "iterations": done["iterations"], "hours": own}]
    before = _stages(((facts.get("config") or {}).get("train") or {}).get("init_from"), depth - 1)
    hours = None if facts.get("elapsed") is None else facts["elapsed"] / 3600
    return [*before, {"name": name, "iterations": record.get("step"), "hours": hours}]


def _weights(record: Mapping[str, Any]) -> str | None:
    digest: str | None = ((record.get("files") or {}).get("weights") or {}).get("sha256")
    return digest


def _data(run_card: Mapping[str, Any], licence: str | None) -> dict[str, Any]:
    """What the run recorded, with the licence, origin and anatomy that every file states about itself."""
    data = dict(run_card.get("data") or {})
    if "files" in data:
        return data
    config = (run_card.get("provenance") or {}).get("config") or {}
    sources = (config.get("data") or {}).get("sources") or []
    places = _places([source["path"] for source in sources if source.get("path")])
    used = [(name, side) for side in ("train", "validation") for name in (data.get(side) or {}).get("sources", ())]
    files = [{"name": name, "use": side, **_stated(places.get(name))} for name, side in used]
    unknown = [file["name"] for file in files if not file["licence"]]
    if unknown and licence is None:
        raise ModelError(
            f"the licence of {len(unknown)} training files ({', '.join(unknown[:3])}, …) is not stated in them, or "
            "they are not where the run found them: give it with --licence"
        )
    phantoms = [{"kind": s["phantom"], "subjects": s["count"]} for s in sources if s.get("phantom")]
    return data | {
        "files": [file | {"licence": file["licence"] or str(licence)} for file in files],
        "phantoms": phantoms,
    }


def _places(folders: Sequence[str]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for folder in map(Path, folders):
        files = [folder] if folder.is_file() else volume_paths(folder) if folder.is_dir() else ()
        found |= {file.name: file for file in files}
    return found


def _stated(path: Path | None) -> dict[str, str]:
    """What an HDF5 file says of itself in its attributes; empty for other formats and files that are gone."""
    keys = {"licence": ("licence", "license"), "source": ("source",), "anatomy": ("anatomy", "acquisition")}
    if path is None:
        return dict.fromkeys(keys, "")
    try:
        with open_h5(path) as file:
            return {key: next(filter(None, (text_attribute(file, n) for n in ns)), "") for key, ns in keys.items()}
    except BayesMRIError:
        return dict.fromkeys(keys, "")


def _limits(record: Mapping[str, Any], config: Mapping[str, Any], data: Mapping[str, Any]) -> list[str]:
    """What the model has seen, since it can be trusted with nothing else."""
    seen = sorted({f["anatomy"] for f in data["files"] if f["use"] == "train" and f["anatomy"]})
    seen += sorted({f"{p['kind']} phantom" for p in data["phantoms"]})
    mask, simulation, coils = config.get("mask") or {}, config.get("simulation") or {}, record["coils"]
    lines = [f"Anatomies and contrasts seen in training: {'; '.join(seen)}. Others were not."] if seen else []
    if mask:
        several = [
            f"R = {R:g} with {100 * center_share(R, mask.get('center_fraction')):.3g} % of the lines in the centre"
            for R in (mask["acceleration"], *mask.get("also", ()))
        ]
        shares = [kind for kind in ("equispaced", "poisson") if mask.get(f"{kind}_share")]
        kinds = " and ".join([mask["kind"], *shares])
        around = f" (R from {_ends(mask)})" if mask.get("around") else ""
        lines.append(
            f"Trained on {kinds} masks at {' and '.join(several)}{around}: other accelerations and patterns are "
            "extrapolation."
        )
    if coils["Q"] > 1 and simulation.get("coils"):
        low, high = simulation["coils"]
        lines.append(
            f"Arrays of any number of coils are compressed to {coils['Q']}; simulated ones of {low} to {high} "
            "coils were seen in training."
        )
    if simulation.get("snr_db"):
        low, high = simulation["snr_db"]
        lines.append(f"Magnitude images were given simulated phase and noise ({low:g} to {high:g} dB).")
    if record.get("posterior") == "gaussian":
        lines.append(
            "The standard deviation tells how the weights' uncertainty shows in the image: where all draws make the "
            "same mistake it is small, and the mistake remains."
        )
    return lines


def _ends(mask: Mapping[str, Any]) -> str:
    """ "3 to 5.4", what R was drawn between."""
    R, width = mask["acceleration"], math.exp(mask["around"])
    return f"{R / width:.2g} to {R * width:.2g}"


def _without_folders(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with the last two parts of every path: folders above may tell more than they should."""

    def short(path: Any) -> Any:
        return "/".join(Path(path).parts[-2:]) if isinstance(path, str) else path

    shown = json.loads(json.dumps(config))
    for source in (shown.get("data") or {}).get("sources") or ():
        source["path"] = short(source.get("path"))
    for key in ("init_from", "init_L_from"):
        if (shown.get("train") or {}).get(key):
            shown["train"][key] = short(shown["train"][key])
    return dict(shown)
