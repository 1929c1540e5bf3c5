"""bayesmri study NAME --model MODEL --data DIR -o DIR."""

import sys
from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from bayesmri.cli.options import SCAN, WORKERS, Out, Scan, Whole, Workers
from bayesmri.cli.output import print_json, print_wrote_together
from bayesmri.cli.progress import progress
from bayesmri.errors import ConfigError
from bayesmri.evaluation.request import Request
from bayesmri.studies.registry import FORMER, STUDIES


def study(
    name: str,
    /,
    *,
    output: Out,
    model: Annotated[
        tuple[str, ...],
        Parameter(name=["--model", "--models"], consume_multiple=True, negative=(), show_default=False),
    ] = (),
    data: Path | None = None,
    acceleration: Annotated[tuple[float, ...], Parameter(consume_multiple=True, negative=(), show_default=False)] = (),
    samples: Whole | None = None,
    iterations: Whole | None = None,
    errors: Annotated[bool, Parameter(negative=())] = False,
    level: float | None = None,
    numbers: Path | None = None,
    scan: Scan = SCAN,
    workers: Workers = WORKERS,
    force: bool = False,
    json: bool = False,
) -> None:
    """Make one of the studies: numbers in DIR/NAME.json, with their origin, and a figure in DIR/NAME.png.

    Parameters
    ----------
    name
        Which study; they are listed below.
    model
        Trained model, or several for a study that compares them: run folders, models' .json files or shipped names;
        a+b+c is an ensemble, isotropic:MODEL a model with one variance for all its weights,
        error:MODEL one with its typical error in the place of σ̂ (compare, hallucination).
        The overview takes the shipped ones unless told.
    output
        Folder to write to.
    data
        Folder (or file) of fully sampled k-space or magnitude images, of any known format. A model of one coil takes
        coil arrays combined into one emulated coil.
    acceleration
        R, 4 unless given; the study of accelerations takes several, 8 6 4 2 1 unless given.
    samples
        Draws N from the posterior for every slice; 32 unless given.
    iterations
        Iterations of the search for eigenfunctions; 300 unless given.
    errors
        Show error maps in the overview, too.
    level
        Level of the error bounds in the study of reliability; 0.9 unless given.
    numbers
        The .json file of a study made before: draw its figure again, of the numbers alone. Studies whose figures show
        images have to be made again instead.
    force
        Overwrite outputs that are there.
    json
        Print the numbers as JSON instead of text.
    """
    if numbers is not None:
        _redraw(name, numbers, output, given=bool(model) or data is not None, force=force, as_json=json)
        return
    request = Request(
        models=model,
        data=data,
        accelerations=acceleration,
        samples=samples,
        **scan.values(),
        iterations=iterations,
        errors=errors,
        level=level,
    )
    if name in FORMER:
        print(f"the study {name} is called {FORMER[name]} now", file=sys.stderr)
    searches = name in STUDIES and STUDIES[name].iterations is not None
    shown = partial(progress, title=name, unit="iterations" if searches else "reconstructions")
    from bayesmri.studies.run import run_study

    with workers.at_work():
        record, outcome = run_study(name, request, output, force=force, progress=shown)
    if json:
        print_json(record)
        return
    print(outcome.text)
    for line in record.get("skipped", []):
        print(f"skipped {line}", file=sys.stderr)
    print_wrote_together([output / f"{name}.json", output / f"{name}.png"])


def _redraw(name: str, numbers: Path, output: Path, *, given: bool, force: bool, as_json: bool) -> None:
    if given:
        raise ConfigError("got --numbers with models or data, but the figure is of the numbers alone; leave them out")
    from bayesmri.studies.redraw import redraw_study

    record, text = redraw_study(name, numbers, output, force=force)
    if as_json:
        print_json(record)
    else:
        print(text)
        print_wrote_together([output / f"{name}.png"])


def listed() -> str:
    """The studies with what they show, for the end of the help."""
    width = max(map(len, STUDIES))
    lines = (f"  {name:<{width}}  {kind.about}" for name, kind in STUDIES.items())
    example = "bayesmri study reliability --model runs/bayes --data val/ -o studies"
    return "\n".join(["Studies:", *lines, "", f"Example: {example}"])
