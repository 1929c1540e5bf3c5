"""bayesmri report RECON.h5 -o PAGE.html."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from bayesmri.bounded import one_line
from bayesmri.cli.output import count, print_json, print_messages, print_removed
from bayesmri.recon.files import with_ending
from bayesmri.recon.page import MEGABYTES, report_file


def report(
    file: Path,
    /,
    *,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    megabytes: float = MEGABYTES,
    anonymise: bool = False,
    force: bool = False,
    trusted: bool = False,
    json: bool = False,
) -> None:
    """Make one HTML page of a reconstruction: images by slice, uncertainty, samples, k-space, metrics, origin.

    The page is a single file that any browser of 2023 or later shows, offline, and that can be sent to a colleague.

    Parameters
    ----------
    file
        What `bayesmri recon` wrote; with --samples it shows a standard deviation, with --keep-samples a flicker too.
    output
        Page to write; FILE.html in the working folder unless given.
    megabytes
        Largest size of the page's data. Where a volume needs more, the deterministic image is left out, then samples,
        k-space and outer slices, and the page says so.
    anonymise
        Leave out what identifies a patient (docs/privacy.md), and list what that was.
    force
        Overwrite outputs that are there.
    trusted
        Read the file in this process, and not in a child process with limits of memory and time.
    json
        Print JSON instead of text.
    """
    page = output or (Path("anonymous.html") if anonymise else with_ending(Path(file.name), ".html"))
    made = report_file(file, page, megabytes=megabytes, anonymise=anonymise, force=force, trusted=trusted)
    print_messages(made)
    print_removed(made)
    if json:
        print_json(made)
        return
    samples = f", {count(made['samples_shown'], 'sample')} of each" if made["samples_shown"] else ""
    print(f"{one_line(made['file'])}: {count(made['slices_shown'], 'slice')}{samples}")
    print(f"wrote {one_line(made['output'], limit=4096)} ({made['bytes'] / 1e6:.1f} MB)")
