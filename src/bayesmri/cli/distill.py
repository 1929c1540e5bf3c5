"""bayesmri distill RUN -o MODEL.json."""

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from bayesmri.cli.options import WORKERS, Whole, Workers
from bayesmri.cli.output import print_json, print_wrote
from bayesmri.cli.progress import progress

FEATURES = {"spread": 16, "error": 9}


def distill(
    run: str,
    /,
    *,
    output: Annotated[Path, Parameter(name=["--output", "-o"])],
    what: Literal["spread", "error"] = "spread",
    config: tuple[Path, ...] = (),
    elements: tuple[Whole, ...] = (480,),
    judge: Path | None = None,
    samples: Whole = 6,
    few: Whole = 4,
    iterations: Whole = 2000,
    features: Whole | None = None,
    keep: Path | None = None,
    seed: Whole = 1,
    device: str = "cpu",
    workers: Workers = WORKERS,
    force: bool = False,
    json: bool = False,
) -> None:
    """Teach a model of RUN the fast route of `recon --fast`, or the size of its error; write it with what it learned.

    Slices are reconstructed with a few draws first; a small network then learns from them. Of spread: to make of a few
    draws the standard deviation that many would give; draws that it does not see are its target. Of error: how far the
    image is from the truth at every pixel; `recon` then writes `error_std`.

    Parameters
    ----------
    run
        A run folder of `bayesmri train` with a posterior, or a model's .json file together with --config.
    output
        The model's .json file to write, with its weights beside it.
    what
        spread or error.
    config
        Training configuration whose data are used; the run's own unless given. May be repeated. Spread is
        learned on all subjects, error on those that validate, which the model has not learned from.
    elements
        Slices to reconstruct; repeated, of every configuration.
    judge
        Configuration whose validation volumes give the typical error its scale, such as the one that the model was
        trained with; elements that are kept out do unless given.
    samples
        Draws of each, for spread; of error there are two.
    few
        Draws that the fast route may be asked for, at most; at least two fewer than --samples.
    iterations
        Updates of the network.
    features
        Features of the network's finest scale; 16 for spread and 9 for error unless given.
    keep
        Folder that keeps the reconstructed slices: a second run reads them, and adds what is missing.
    seed
        Seed of slices, masks, samples and updates.
    device
        auto, cpu, cuda or cuda:N; auto takes CUDA where there is any.
    force
        Overwrite outputs that are there.
    json
        Print JSON instead of text.
    """
    from bayesmri.evaluation.distill import DistillConfig, Lesson, distill_file

    wanted = DistillConfig(
        elements=sum(elements),
        samples=samples,
        few=few,
        iterations=iterations,
        features=FEATURES[what] if features is None else features,
        seed=seed,
    )
    lesson, shown = (
        Lesson(what, config, elements, judge, keep, device),
        partial(progress, title="distill", unit="steps"),
    )
    with workers.at_work():
        made = distill_file(run, output, wanted, lesson, force=force, progress=shown)
    if json:
        print_json(made)
        return
    print(f"{made['parameters']} parameters in {made['seconds']:.0f} s on {made['device']}, loss {made['loss']:.3f}")
    if what == "error":
        print(
            f"on {made['judged']:.0f} slices kept out: error {made['ratio']:.2f} times what is expected, "
            f"rank correlation {made['rho']:.2f} (std of the draws: {made['rho_std']:.2f})"
        )
    print_wrote(made["outputs"])
