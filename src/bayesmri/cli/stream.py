"""bayesmri stream FILE host:port -o OUT.h5."""

import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from bayesmri.bounded import one_line
from bayesmri.cli.options import Whole
from bayesmri.cli.output import count, print_json, print_wrote
from bayesmri.cli.progress import progress
from bayesmri.errors import ConfigError
from bayesmri.recon.files import with_ending
from bayesmri.recon.request import MethodName
from bayesmri.stream.client import NAME, stream_file


def stream(
    file: Path,
    server: str,
    /,
    *,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    config: str | None = None,
    model: str | None = None,
    method: MethodName | None = None,
    samples: Whole | None = None,
    seed: Whole | None = None,
    level: float | None = None,
    check: bool | None = None,
    scale: Literal["slice", "volume"] | None = None,
    pixels: Literal["int16", "float32"] | None = None,
    wait: float = 600.0,
    trusted: bool = False,
    force: bool = False,
    json: bool = False,
) -> None:
    """Send FILE to a server of the MRD streaming protocol as a scanner would, and write the images that come back.

    Parameters
    ----------
    file
        K-space: an ISMRMRD/MRD file, whose lines are sent as they are, or any other of Cartesian lines.
    server
        host:port, such as localhost:9002.
    output
        MRD file to write, with a group image_N for each series; FILE.images.h5 in the working folder unless given.
    config
        Name of a configuration that the server knows, instead of parameters.
    model
        Shipped model, by its name, or auto.
    method
        A method instead of a model.
    samples
        Draws of the model's posterior.
    seed
        Of those draws.
    level
        Of the error bound.
    check
        Also tell the error to be expected.
    scale
        slice: every slice is divided by a number of its own, and comes as soon as it is complete. volume: one number
        for all, as `recon` does, and all images come at the end.
    pixels
        int16, or float32 in the units of `recon`.
    wait
        Seconds that the server may be silent.
    trusted
        Read the file in this process, and not in a child process with limits.
    force
        Overwrite the output.
    json
        Print JSON instead of text.
    """
    asked = {"model": model, "method": method, "samples": samples, "seed": seed, "level": level, "check": check}
    asked |= {"scale": scale, "pixels": pixels}
    parameters: dict[str, Any] = {key: value for key, value in asked.items() if value is not None}
    if config is not None and parameters:
        raise ConfigError(
            f"got the configuration {config} and parameters ({', '.join(parameters)}), expected one of the two; leave "
            "one out"
        )
    made = stream_file(
        file,
        server,
        output or Path(with_ending(Path(file.name), ".images.h5")),
        name=config or NAME,
        parameters=parameters,
        wait=wait,
        trusted=trusted,
        force=force,
        say=lambda text: print(text, file=sys.stderr),
        progress=partial(progress, title="stream", unit="lines"),
    )
    if json:
        print_json(made)
        return
    series = ", ".join(f"{n} of series {name}" for name, n in made["series"].items())
    sent, back = count(made["lines"], "line"), count(made["images"], "image")
    print(f"{one_line(made['file'])}: {sent} sent, {back} came back ({series})")
    print_wrote([made["output"]])
