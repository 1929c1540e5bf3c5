"""bayesmri curves RUN … -o FIGURE.png."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from bayesmri.cli.output import print_json, print_wrote_together


def curves(
    *runs: str,
    output: Annotated[Path, Parameter(name=["--output", "-o"])] = Path("curves.png"),
    force: bool = False,
    json: bool = False,
) -> None:
    """Draw how trainings went: loss, and the gain over zero filling on held-out slices, over hours.

    Parameters
    ----------
    runs
        Folders that `train --out` wrote, also of runs that are still going on. Join those that went on from one another
        with +, such as runs/r4+runs/r4-bayes, to draw them as one training; it is called like the last of them, or as
        NAME= before them says. A .json that an earlier figure left is drawn again, and NAME=FIGURE.json+runs/more goes
        on with its curve NAME.
    output
        Figure to write; the numbers go to a .json of the same name.
    force
        Overwrite outputs that are there.
    json
        Print JSON instead of text.
    """
    from bayesmri.evaluation.curves import draw_curves

    numbers, text = draw_curves(runs, output, force=force)
    if json:
        print_json(numbers)
        return
    print(text)
    print_wrote_together([output.with_suffix(".png"), output.with_suffix(".json")])
