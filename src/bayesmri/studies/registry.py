"""Studies by name: each leaves NAME.json and NAME.png in a folder, both or neither.

A study is the module of its name, with NAME_study, NAME_figure and NAME_text, and a line here.
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bayesmri.errors import ConfigError
from bayesmri.evaluation.request import ISOTROPIC, Request, members_of, named
from bayesmri.evaluation.table import data_files
from bayesmri.io.atomic import atomic_paths, check_target
from bayesmri.recon.files import Progress
from bayesmri.studies.base import Kind, Outcome, settled, study_module

STUDIES: dict[str, Kind] = {
    "overview": Kind(
        "truth, zero filling, at μ, mean and standard deviation of a slice, by coils and R",
        accelerations=(),
        several_accelerations=True,
        several_models=True,
        one_slice=True,
        errors=True,
        shipped_models=True,
    ),
    "calibration": Kind(
        "does the standard deviation tell where the error is, and its size?",
        bounds=True,
    ),
    "hallucination": Kind(
        "structures planted and erased: is the standard deviation large where they come out wrong?",
        several_models=True,
    ),
    "compare": Kind(
        "posterior, dropout, predicted variance and ensembles at equal compute",
        several_models=True,
    ),
    "entropy": Kind(
        "PSNR against the entropy of several models, by samples averaged",
        several_models=True,
    ),
    "acceleration": Kind(
        "the standard deviation as R falls to 1, in image and k-space",
        accelerations=(8.0, 6.0, 4.0, 2.0, 1.0),
        several_accelerations=True,
    ),
    "kspace": Kind("mask, data, mean and standard deviation of a slice in k-space", one_slice=True),
    "samples": Kind("single samples of a slice, where they differ most", one_slice=True),
    "covariance": Kind("covariances of the kernels, by depth in the network", needs_data=False),
    "eigenfunctions": Kind(
        "patterns that the regularizer keeps in shape, from reconstructions of a slice",
        several_models=True,
        one_slice=True,
        draws=False,
        iterations=300,
    ),
}


def run_study(
    name: str, request: Request, folder: Path, *, progress: Progress | None = None
) -> tuple[dict[str, Any], Outcome]:
    """Run it and write folder/NAME.json and folder/NAME.png; returns the record written and the outcome."""
    if name not in STUDIES:
        raise ConfigError(f"no study is called {name!r}: want one of {', '.join(STUDIES)}")
    request = settled(name, STUDIES[name], request)
    target, picture = folder / f"{name}.json", folder / f"{name}.png"
    sources = [Path(part) for model in request.models for part in members_of(model.removeprefix(ISOTROPIC))]
    sources += data_files(request.data) if request.data else []
    for path in (target, picture):
        check_target(path, *sources)
    outcome: Outcome = study_module(name, "study")(request, progress)
    record = {"study": name, **outcome.numbers, "provenance": _provenance(name, request, outcome)}
    text = json.dumps(record, indent=1, allow_nan=False) + "\n"
    with atomic_paths([target, picture]) as (json_file, png_file):
        outcome.draw(png_file)
        json_file.write_text(text, encoding="utf-8")
    return record, outcome


def _provenance(name: str, request: Request, outcome: Outcome) -> dict[str, Any]:
    import torch

    from bayesmri.io.provenance import provenance

    names = [named(model) for model in request.models]
    return provenance(
        command=f"study {name}",
        config={**asdict(request), "models": names},
        seed=request.seed,
        inputs=outcome.inputs,
        threads=torch.get_num_threads(),
    )
