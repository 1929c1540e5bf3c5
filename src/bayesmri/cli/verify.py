"""bayesmri verify FILE…."""

from pathlib import Path

from bayesmri.cli.output import print_json
from bayesmri.errors import ConfigError
from bayesmri.evaluation.verify import verify as verify_file

DAMAGED = 2


def verify(*files: Path, json: bool = False) -> int:
    """Say of every FILE whether it is what was written: results, the files beside them, models, runs, tables.

    Exits with 2 where one is damaged, or mixed of two runs; files without checksums, such as a scanner's, are named and
    are no failure.

    Parameters
    ----------
    files
        What `recon`, `whatif`, `simulate`, `undersample` or `evaluate` wrote, a model's .json file or a run folder.
    json
        Print JSON instead of text.
    """
    if not files:
        raise ConfigError("got no file to verify; give one or more, such as scan.recon.h5")
    found = [verify_file(path) for path in files]
    if json:
        print_json([one.as_json() for one in found])
    for one in [] if json else found:
        word = {True: "whole", False: "DAMAGED", None: "unknown"}[one.whole]
        print(f"{one.file}: {word} ({one.kind}){''.join(f'; {fault}' for fault in one.faults)}")
    return DAMAGED if any(one.whole is False for one in found) else 0
