"""bayesmri publish RUN NAME --out DIR."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from bayesmri.bounded import one_line
from bayesmri.cli.output import print_json, print_wrote
from bayesmri.evaluation.request import Publication


def publish(
    run: str,
    name: str,
    /,
    *,
    output: Annotated[Path, Parameter(name=["--output", "--out", "-o"])],
    results: Path | None = None,
    licence: str | None = None,
    processor: str | None = None,
    limit: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    data: Path | None = None,
    force: bool = False,
    json: bool = False,
) -> None:
    """Make a model to give away of a training run: NAME.json with a card, and NAME.safetensors.

    Parameters
    ----------
    run
        Run folder (its best checkpoint is taken), checkpoint or model; a published one keeps what its card says.
    name
        Name of the model, such as tdv-mine.
    output
        Folder to write to; models in the package's own folder of weights are shipped with it.
    results
        JSON file of `bayesmri evaluate` on this run, for the metrics on the card, in place of any it has.
    licence
        Licence of training files that do not state their own.
    processor
        Processor that the model was trained on, in place of what the run says.
    limit
        A further sentence for the limits on the card; may be repeated.
    data
        Folder of the training data, to record how it looks, as `familiarise` does; else what the model records is kept.
    force
        Overwrite outputs that are there.
    json
        Print JSON instead of text.
    """
    wanted = Publication(run, name, output, results, licence, processor, limit, force, data)
    from bayesmri.evaluation.publish import publish as run_publish

    made = run_publish(wanted)
    if json:
        print_json(made)
        return
    print_wrote(made["outputs"])
    print(f"{made['bytes'] / 1e6:.2f} MB of weights; read the card with bayesmri models {one_line(made['outputs'][0])}")
