"""Many files in, a folder of results out; torch is loaded only after something was found to do."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayesmri.errors import ConfigError, OutputError
from bayesmri.io.guard import one_line
from bayesmri.io.layout.given import NOTHING, Given
from bayesmri.io.mrd.choice import FIRST, Choice
from bayesmri.recon.acquisition import Sampling
from bayesmri.recon.batch.finished import models_of
from bayesmri.recon.batch.inputs import ALL, Shard, found_inputs
from bayesmri.recon.batch.meter import SILENT, Meter
from bayesmri.recon.request import Options, check_spread


@dataclass(frozen=True)
class Batch:
    """What is done with every volume.

    sensitivities, given, choice, trusted: as of `reconstruct_file`. nifti, png, report: also write these of each.
    force: a result that was made otherwise is made anew; without it that volume is listed, and the result kept.
    shard: which part of the volumes; others are for other processes.
    """

    options: Options
    sampling: Sampling | None = None
    sensitivities: Path | None = None
    given: Given = NOTHING
    choice: Choice = FIRST
    nifti: bool = False
    png: bool = False
    report: bool = False
    trusted: bool = True
    force: bool = False
    shard: Shard = ALL

    def __post_init__(self) -> None:
        if not (self.options.model is None or isinstance(self.options.model, str)):
            raise ConfigError("got a loaded model for a folder, expected its name or path; results record its file")
        check_spread(self.options.samples)


def reconstruct_folder(sources: Sequence[Path], out: Path, batch: Batch, *, meter: Meter = SILENT) -> dict[str, Any]:
    """Reconstruct all volumes of files, folders and patterns into `out`, with one load of the model.

    Results are called after their inputs, with their folders. One that is there and was made of the same input with
    the same settings and model is kept. What cannot be reconstructed is listed, and the others are done. Returns what
    summary.json holds: counts and a row for every volume.
    """
    if not out.is_dir() and (out.exists() or out.suffix in (".h5", ".hdf5")):
        raise OutputError(f"got the output {one_line(out)}, a file, expected a folder for the results of many")
    inputs = batch.shard.take(found_inputs(sources, out=out))
    models_of(batch.options.model if isinstance(batch.options.model, str) else None)  # refused before any work
    from bayesmri.recon.batch.run import run

    return run(inputs, out, batch, meter)
