"""bayesmri evaluate --data DIR --methods zero-filled,tv,MODEL --acceleration 4 8."""

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from bayesmri.bounded import one_line
from bayesmri.cli.options import SCAN, WORKERS, Out, Scan, Whole, Workers
from bayesmri.cli.output import count, print_json, print_messages
from bayesmri.cli.progress import progress
from bayesmri.errors import ConfigError
from bayesmri.evaluation.request import Study, Track, setting_name


def evaluate(
    *,
    data: Path,
    methods: str = "zero-filled,tv",
    track: Annotated[tuple[Track, ...], Parameter(consume_multiple=True, negative="")] = (),
    samples: Whole = 0,
    masks: Whole = 1,
    acceleration: Annotated[tuple[float, ...], Parameter(consume_multiple=True)] = (4.0,),
    output: Out = Path("results.json"),
    reuse: Annotated[tuple[Path, ...], Parameter(consume_multiple=True, negative="")] = (),
    single_coil: bool = False,
    scan: Scan = SCAN,
    workers: Workers = WORKERS,
    force: bool = False,
    json: bool = False,
) -> None:
    """Compare methods on every volume of a folder: the same coil images and masks for each; one row per volume.

    A volume that has too few lines, or that one of the methods cannot do, is left out for all of them, and named.

    Parameters
    ----------
    data
        Folder (or file) of fully sampled k-space or magnitude images, of any known format.
    methods
        Separated by commas: zero-filled, tv, sense, l1-wavelet, bart-l1, bart-tv; auto or a family of shipped models,
        such as tdv, whose model for the coils and the acceleration of each volume is taken; models by name, run folder
        or .json file; all: every method and every family.
    track
        single, every volume as one coil; multi, every volume as an array of coils (simulated unless it was measured);
        or both, for the paper's table. Without it volumes are taken as they are.
    samples
        Judge models with a posterior by the mean of that many samples, too.
    masks
        How many are drawn for every volume and R; results are means over them. One mask alone moves an array by
        several decibels: three tell more.
    acceleration
        One R or several.
    output
        JSON file to write; a Markdown page and a LaTeX table of the means are written beside it.
    reuse
        Results (.json) of earlier evaluations with the same settings and version: what they hold of the same weights
        and files, by content and name, is taken from there. So a long evaluation can be done in parts, and a method
        joins a finished table.
    single_coil
        Combine measured coil arrays into one emulated coil first.
    force
        Overwrite outputs that are there.
    json
        Print the rows as JSON instead of a table of means.
    """
    if "multi" in track and scan.coils is not None and scan.coils < 2:
        raise ConfigError(
            f"got --coils {scan.coils} with the multi-coil track, expected at least 2; give more, or leave "
            "one of them out"
        )
    names = tuple(name.strip() for name in methods.split(",") if name.strip())
    study = Study(
        data=data,
        methods=names,
        accelerations=acceleration,
        **scan.values(),
        single_coil=single_coil,
        tracks=track,
        samples=samples,
        masks=masks,
    )
    from bayesmri.evaluation.table import ENDINGS, evaluate_to, means, text

    with workers.at_work():
        result = evaluate_to(
            study,
            output,
            reuse=reuse,
            force=force,
            progress=partial(progress, title="evaluate", unit="reconstructions"),
        )
    print_messages(result)
    for line in result["skipped"]:
        print("skipped", " ".join(line.split()), file=sys.stderr)
    if json:
        print_json(result)
        return
    table = means(result["rows"])
    print(text(table))
    print(volumes_line(table))
    written = ", ".join(one_line(output.with_suffix(ending), limit=4096) for ending in ENDINGS)
    print(f"wrote {written}: {len(result['rows'])} rows")


def volumes_line(table: Sequence[Mapping[str, Any]]) -> str:
    """ "means over 4 volumes", or by setting where they differ; within one they are the same for every method."""
    found = {setting_name(row["track"], row["acceleration"]): row["volumes"] for row in table}
    if len(set(found.values())) == 1:
        return f"means over {count(next(iter(found.values())), 'volume')}"
    return "means over " + ", ".join(f"{count(n, 'volume')} at {setting}" for setting, n in found.items())
