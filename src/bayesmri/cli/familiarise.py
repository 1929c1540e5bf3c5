"""bayesmri familiarise MODEL --data DIR -o OUT.json."""

from functools import partial
from pathlib import Path

from bayesmri.cli.options import Out, Whole
from bayesmri.cli.output import print_json, print_wrote
from bayesmri.cli.progress import progress


def familiarise(
    model: str,
    /,
    *,
    data: Path,
    output: Out,
    slices: Whole = 60,
    seed: Whole = 0,
    force: bool = False,
    json: bool = False,
) -> None:
    """Record with MODEL how its training data looks, so that `recon` can warn of data that is unlike it.

    Slices are simulated and undersampled as in training; of their zero-filled images a few numbers are kept.

    Parameters
    ----------
    model
        A model's .json file, a run folder or a shipped name.
    data
        Folder of the training data.
    output
        The model's .json file to write, with its weights beside it.
    slices
        Slices of every file, at most.
    seed
        Seed of coils, phase, noise and masks.
    force
        Overwrite outputs that are there.
    json
        Print JSON instead of text.
    """
    from bayesmri.evaluation.familiarise import familiarise_file

    shown = partial(progress, title="familiarise", unit="files")
    made = familiarise_file(model, data, output, slices=slices, seed=seed, force=force, progress=shown)
    if json:
        print_json(made)
        return
    print(
        f"{made['slices']} slices of {made['files']} files, sides of {made['sizes'][0]} to {made['sizes'][1]} pixels; "
        f"outside beyond a distance of {made['threshold']:.2f}"
    )
    print_wrote(made["outputs"])
