"""bayesmri distill RUN -o MODEL.json."""

from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from bayesmri.cli.options import Whole
from bayesmri.cli.output import print_json
from bayesmri.cli.progress import progress


def distill(
    run: Path,
    /,
    *,
    output: Annotated[Path, Parameter(name=["--output", "-o"])],
    config: Path | None = None,
    elements: Whole = 320,
    samples: Whole = 40,
    iterations: Whole = 1200,
    features: Whole = 16,
    seed: Whole = 1,
    device: str = "cpu",
    force: bool = False,
    json: bool = False,
) -> None:
    """Teach a model of RUN the fast route of `recon --fast`, and write it with its predictor.

    Exact samples of training data are drawn first; a small network then learns to make of a few what many would give.

    Parameters
    ----------
    run
        A run folder of `bayesmri train` with a posterior, or a model's .json file together with --config.
    output
        The model's .json file to write, with its weights beside it.
    config
        Training configuration whose data are used; the run's own unless given.
    elements
        Training slices to draw exact samples of.
    samples
        Exact samples of each.
    iterations
        Updates of the network.
    features
        Features of the network's finest scale.
    seed
        Seed of slices, masks, samples and updates.
    device
        auto, cpu, cuda or cuda:N; auto takes CUDA where there is any.
    force
        Overwrite outputs that are there.
    json
        Print JSON instead of text.
    """
    from bayesmri.evaluation.distill import distill_file
    from bayesmri.training.distill import DistillConfig

    wanted = DistillConfig(elements=elements, samples=samples, iterations=iterations, features=features, seed=seed)
    shown = partial(progress, title="distill", unit="steps")
    made = distill_file(run, output, wanted, recipe=config, device=device, force=force, progress=shown)
    if json:
        print_json(made)
        return
    took = f"{made['seconds']:.0f} s on {made['device']}"
    print(f"{made['parameters']} parameters in {took}, relative error {made['training_error']:.3f}")
    for path in made["outputs"]:
        print(f"wrote {path}")
