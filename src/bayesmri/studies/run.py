"""A study made and written: NAME.json and NAME.png in a folder, both or neither."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from bayesmri.errors import ConfigError
from bayesmri.evaluation.request import Request, members_of, named, prefixed
from bayesmri.evaluation.table import data_files
from bayesmri.io.atomic import atomic_paths, check_target
from bayesmri.io.provenance import provenance
from bayesmri.recon.files import Progress
from bayesmri.studies.base import Outcome, settled, study_module
from bayesmri.studies.registry import FORMER, STUDIES


def run_study(
    name: str, request: Request, folder: Path, *, force: bool = False, progress: Progress | None = None
) -> tuple[dict[str, Any], Outcome]:
    """Run it and write folder/NAME.json and folder/NAME.png; returns the record written and the outcome.

    force: these may be there, and are overwritten.
    """
    target, picture = folder / f"{name}.json", folder / f"{name}.png"
    name = FORMER.get(name, name)
    if name not in STUDIES:
        raise ConfigError(f"no study is called {name!r}, expected one of {', '.join(STUDIES)}")
    request = settled(name, STUDIES[name], request)
    sources = [Path(part) for model in request.models for part in members_of(prefixed(model)[1])]
    sources += data_files(request.data) if request.data else []
    for path in (target, picture):
        check_target(path, *sources, force=force)
    outcome: Outcome = study_module(name, "study")(request, progress)
    record = {"study": name, **outcome.numbers, "provenance": _provenance(name, request, outcome)}
    text = json.dumps(record, indent=1, allow_nan=False) + "\n"
    with atomic_paths([target, picture]) as (json_file, png_file):
        outcome.draw(png_file)
        json_file.write_text(text, encoding="utf-8")
    return record, outcome


def _provenance(name: str, request: Request, outcome: Outcome) -> dict[str, Any]:

    names = [named(model) for model in request.models]
    return provenance(
        command=f"study {name}",
        config={**asdict(request), "models": names},
        seed=request.seed,
        inputs=outcome.inputs,
        threads=torch.get_num_threads(),
    )
