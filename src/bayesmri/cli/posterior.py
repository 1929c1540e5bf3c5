"""bayesmri posterior MODEL --beta 1e-8 -o OUT."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from bayesmri.bounded import one_line
from bayesmri.cli.options import Whole
from bayesmri.cli.output import print_json
from bayesmri.cli.progress import progress


def posterior(
    model: str,
    /,
    *,
    beta: tuple[float, ...],
    output: Annotated[Path, Parameter(name=["--output", "-o"])],
    config: Path | None = None,
    alpha: float = 10.0,
    probes: Whole = 300,
    checks: Whole = 40,
    seed: Whole = 1,
    force: bool = False,
    json: bool = False,
) -> None:
    """Give MODEL the posterior of another β without training: L in closed form from the curvature of J around μ.

    One curvature serves all β, so that a sweep takes minutes. Predictor, expected error and bounds of MODEL were of
    other draws and stay behind.

    Parameters
    ----------
    model
        A shipped name, a run folder or a model's .json file, with a posterior or without.
    beta
        β of the penalty, beside a mean of J over pixels where the configuration says so; may be repeated.
    output
        A .json file for one β, a folder for several.
    config
        Training configuration whose data and loss are used; the run's own unless given.
    alpha
        α: the prior of L is α^(−1/2) Id.
    probes
        Elements, each with one backward pass.
    checks
        Further elements, on which every L is asked whether it is at its optimum: v is 1 there, above 1 where L is too
        wide, below 1 where it is too narrow. Four reconstructions each for every L; 0 leaves it out.
    seed
        Seed of elements and probes.
    force
        Overwrite outputs that are there.
    json
        Print JSON instead of text.
    """
    from bayesmri.evaluation.posterior import Sweep, posterior_file

    sweep = Sweep(beta, alpha, probes, config, seed, checks)
    made = posterior_file(
        model, output, sweep, force=force, progress=partial(progress, title="posterior", unit="probes")
    )
    if json:
        print_json(made)
        return
    print(f"{probes} probes in {made['seconds']:.0f} s, trace of the curvature {made['curvature']:.3g}")
    if made["own"] is not None:
        known = made["own"]["beta"]
        print(
            f"trained{'' if known is None else f' at beta {known:g}'}: mean entropy {made['own']['entropy']:.2f}"
            f"{_balance(made['own'])}"
        )
    for row in made["rows"]:
        print(
            f"beta {row['beta']:g}: mean entropy {row['entropy']:.2f}{_balance(row)}, wrote {one_line(row['output'])}"
        )


def _balance(row: Mapping[str, Any]) -> str:
    return f", v = {row['v']:.2f} (1 at {row['entropy_at_balance']:.2f})" if "v" in row else ""
