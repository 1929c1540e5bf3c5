"""bayesmri calibrate MODEL --data DIR --level 0.9 -o OUT.json."""

import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from bayesmri.bounds.bound import FLOOR, RELATIVE_FLOOR, Region, percent
from bayesmri.cli.options import SCAN, WORKERS, Scan, Whole, Workers
from bayesmri.cli.output import count, print_json, print_messages, print_wrote
from bayesmri.cli.progress import progress
from bayesmri.errors import ConfigError
from bayesmri.evaluation.request import Spread, Track, Wanted
from bayesmri.machine.memory import keep_memory

BOUND_ONLY = ("level", "samples", "fast", "region", "cap", "floor", "by_file", "relative", "of")
SCALED = {"std": "std", "error": "typical error"}
SHARES = ("coverage", "worst", "held_out", "in_foreground")


def calibrate(
    model: str,
    /,
    *,
    data: Path,
    level: float = 0.9,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    acceleration: float | None = None,
    samples: Whole | None = None,
    fast: bool = False,
    region: Region = "everywhere",
    cap: float | None = None,
    floor: float | None = None,
    relative: Annotated[bool, Parameter(negative=())] = False,
    by_file: bool = False,
    track: Track | None = None,
    of: Spread = "std",
    expected: Annotated[bool, Parameter(negative=())] = False,
    repeats: Whole = 1,
    scan: Scan = SCAN,
    workers: Workers = WORKERS,
    force: bool = False,
    json: bool = False,
) -> None:
    """Scale the standard deviation of MODEL into error bounds, with subjects it has not seen, and store them with it.

    `recon` then writes the bound wherever it holds: for this acceleration, kind of mask, number of coils and samples.
    A volume that has too few lines, or that MODEL does not take, is left out, and named.

    Parameters
    ----------
    model
        Model with a posterior: a shipped name, a run folder or a model's .json file.
    data
        Folder of fully sampled k-space or magnitude images, of any known format, that was not trained on. Files that
        name the same patient are one subject.
    level
        Share of a new subject's pixels that the bound is to hold, on average over subjects; at most all but one of the
        smallest subject's pixels.
    output
        The model's .json file to write, with its weights beside it; a copy unless it is MODEL itself. May be left out
        where MODEL is a file of its own.
    acceleration
        R; the one the model was trained for unless given.
    samples
        Draws N for every slice, at least 2, 32 unless given (4 with --fast); the bound holds for this number alone.
    fast
        Calibrate the fast route, which makes the standard deviation of a few samples with the model's predictor.
    region
        Pixels that are counted: everywhere, or the foreground (above a tenth of the maximum).
    cap
        Largest share of one subject's pixels that counts as missed, from 1 − LEVEL to 1. 1 bounds the expected share
        itself, at the cost of wide bounds where subjects are few; unless given it is 1 where they are many, else
        2 (1 − LEVEL).
    floor
        Added to the standard deviation, as a share of the volume's maximum; 0.003 unless given. With --relative, as a
        share of the expected error; 0.2 unless given.
    relative
        Make the bound relative to the error that `recon --check` expects of the scan: subjects are then covered more
        alike. Four more reconstructions of every slice, here and in `recon`.
    by_file
        Take every file as a subject of its own, whatever patient it names.
    track
        single, every volume as one coil; multi, every volume as an array (simulated unless it was measured). Without it
        volumes are taken as they are. A model for one coil and arrays has a bound for each: calibrate twice.
    of
        What is scaled: std, the standard deviation of the samples; error, the typical error by the model's head, which
        needs no samples (--samples 0) and is what `recon` takes where a model has both.
    expected
        Fit the error that `recon --check` expects of a scan instead, which needs no posterior: its bias, and the
        interval that holds 90 % of the scans. Wants no level, samples, region, cap or floor.
    repeats
        With --expected: take every volume so often, with masks, coils and noise of other seeds.
    force
        Overwrite outputs that are there.
    json
        Print JSON instead of text.
    """
    keep_memory()
    wanted = Wanted(
        data=data,
        level=level,
        acceleration=acceleration,
        samples=samples,
        fast=fast,
        region=region,
        cap=cap,
        floor=(RELATIVE_FLOOR if relative else FLOOR) if floor is None else floor,
        relative=relative,
        by_file=by_file,
        **scan.values(),
        track=track,
        of=of,
        repeats=repeats,
    )
    if repeats != 1 and not expected:
        raise ConfigError(f"got {repeats} repeats of a bound, expected them with --expected alone; leave them out")
    shown = partial(progress, title="calibrate", unit="volumes")
    if expected:
        _check_alone(wanted)
        from bayesmri.evaluation.expected_scale import fit_file as work
    else:
        from bayesmri.evaluation.calibrate import calibrate_file as work

    with workers.at_work():
        made = work(model, wanted, output, force=force, progress=shown)
    print_messages(made)
    for line in made["skipped"]:
        print("skipped", " ".join(line.split()), file=sys.stderr)
    if json:
        print_json(made)
        return
    (_say_expected if expected else _say)(made)


def _check_alone(wanted: Wanted) -> None:
    """What only bounds have a use for."""
    plain = Wanted(data=wanted.data)
    given = [name for name in BOUND_ONLY if getattr(wanted, name) != getattr(plain, name)]
    if given:
        raise ConfigError(f"got --expected with {', '.join(given)}, which only bounds have a use for; leave them out")


def _say_expected(made: dict[str, Any]) -> None:
    coils = "one coil" if made["arrays"][1] == 1 else "arrays"
    print(
        f"{made['model']}: {count(made['volumes'], 'volume')} of {count(made['subjects'], 'subject')}, "
        f"R = {made['acceleration']:g}, {coils}"
    )
    print(
        f"energy of missing lines: {made['bias']:.3g} of what left-out lines say; "
        f"expected PSNR ± {made['spread_db']:.2g} dB for 90 % of the volumes"
    )
    print_wrote(made["outputs"])


def _spread(name: str, found: dict[str, Any]) -> str:
    """How alike subjects are covered, and how wide the bound is."""
    turn = "left out in turn" if found["of"] == "held_out" else "none left out"
    least, most = (percent(found[key], ".1f") for key in ("least", "most"))
    return (
        f"{name}: {least} to {most} % by subject, {turn}; mean width {100 * found['mean_bound']:.2f} % of the maximum"
    )


def _say(made: dict[str, Any]) -> None:
    setting = made["setting"]
    print(
        f"{made['model']}: {count(made['volumes'], 'volume')} of {count(made['subjects'], 'subject')}, "
        f"R = {setting['acceleration']:g}, {setting['mask']} masks, {setting['samples']} samples"
    )
    print(
        f"error bound at {percent(made['level'])} %, {made['region']}: "
        f"{made['factor']:.3g} ({SCALED[made['of']]} + {100 * made['floor']:.3g} % of the "
        f"{'expected RMS error' if made['relative'] else 'maximum'})"
    )
    shares = {key: percent(made[key], ".1f") for key in SHARES if made[key] is not None}
    held = f"; each left out in turn: {shares['held_out']} %" if "held_out" in shares else ""
    print(f"covered: {shares['coverage']} % on average, {shares['worst']} % of the worst subject{held}")
    if made["region"] == "everywhere" and "in_foreground" in shares:
        print(f"covered in the foreground alone: {shares['in_foreground']} % on average (--region foreground)")
    print(_spread("relative" if made["relative"] else "by subject", made["spread"]))
    if "plain" in made:
        print(_spread("not relative", made["plain"]))
    print(f"promise: {made['guarantee']}")
    print_wrote(made["outputs"])
