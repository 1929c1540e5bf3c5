"""`whatif` on a file: undersample, ask, write."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bayesmri.io.atomic import atomic_paths
from bayesmri.io.inspect import data_messages
from bayesmri.io.provenance import provenance
from bayesmri.io.write_h5 import write_reconstruction
from bayesmri.kspace import KSpace
from bayesmri.recon.acquisition import Sampling
from bayesmri.recon.choice import chosen
from bayesmri.recon.intervention import Intervention
from bayesmri.recon.method import model_name
from bayesmri.recon.outputs import pixel_aspect
from bayesmri.recon.request import Options
from bayesmri.recon.undersample import single_coil, undersample
from bayesmri.recon.whatif import WhatIf, whatif
from bayesmri.report.panel import ERROR, GREY, PanelStyle, fitting_scale, panel, window
from bayesmri.runs import locate

VERBS = {"erase": "taken out", "plant": "put in"}


def whatif_to(
    kspace: KSpace,
    path: Path,
    targets: dict[str, Path],
    asked: Intervention,
    options: Options,
    sampling: Sampling | None,
) -> dict[str, Any]:
    """Ask and write; returns JSON values."""
    said = data_messages(kspace)
    if options.single_coil:
        kspace = single_coil(kspace)
    if sampling is not None:
        kspace = undersample(kspace, sampling, otherwise=f"leave {sampling.given} out to take it as it is")
    options, choice = chosen(options, kspace)
    found = whatif(kspace, asked, options)
    facts = whatif_facts(found, asked)
    named = options if options.model is None else replace(options, model=model_name(options.model))
    config = {"model": named.model, "method": None if named.model else named.method, **asdict(asked)}
    config |= {"sampling": None if sampling is None else asdict(sampling)}
    model = [locate(Path(options.model))] if isinstance(options.model, str) else []
    seed = None if sampling is None else sampling.seed
    origin = provenance(
        command="whatif", config=config, seed=seed, inputs=[path, *model], threads=torch.get_num_threads()
    )
    with atomic_paths(list(targets.values())) as paths:
        made = dict(zip(targets, paths, strict=True))
        images = {"before": found.before[None], "after": found.after[None], "change": found.change[None]}
        told = {"after": {key: value for key, value in facts.items() if value is not None}}
        write_reconstruction(made["h5"], images, header=kspace.header, provenance=origin, about=told)
        if "png" in made:
            write_picture(made["png"], found, pixel_aspect(kspace.header))
    return {
        "file": path.name,
        **({} if choice is None else {"chosen": choice}),
        **facts,
        "seconds": found.seconds,
        "outputs": [str(target) for target in targets.values()],
        **said.as_json(),
    }


def whatif_facts(found: WhatIf, asked: Intervention) -> dict[str, Any]:
    """JSON values."""
    return {
        "kind": found.kind,
        "slice": found.slice,
        "x": asked.x,
        "y": asked.y,
        "r": asked.r,
        "contrast": asked.contrast,
        "method": found.method,
        "carried": found.carried,
        "came_back": found.came_back,
        "kept": found.kept,
        "noise_units": found.noise_units,
        "verdict": found.verdict,
    }


def write_picture(path: Path, found: WhatIf, aspect: float) -> None:
    """Before | as asked | after | the change asked for | the change seen, both in one scale."""
    asked, seen = np.abs(found.change), np.abs(found.after - found.before)
    scale = fitting_scale(np.maximum(asked, seen), window(found.before))
    style = PanelStyle(cmap="inferno", scale=scale, label=ERROR.replace("error", "change"))
    tiles = [
        ("Before\n" + found.method, found.before, GREY),
        (f"{VERBS[found.kind].capitalize()}\nas asked for", np.maximum(found.before + found.change, 0), GREY),
        ("After\nscanned and reconstructed again", found.after, GREY),
        (f"Asked ×{scale:g}\n{100 * found.kept:.0f} % of its energy measured", asked, style),
        (f"Seen ×{scale:g}\n{100 * found.carried:.0f} % of its contrast", seen, style),
    ]
    panel(path, tiles, pixel_aspect=aspect)
