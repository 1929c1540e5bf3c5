"""The volumes of a batch one after the other, or a few at a time; each ends in a row, whatever happens to it."""

import errno
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bayesmri.errors import BayesMRIError, ClusterLostError
from bayesmri.io.guard import one_line
from bayesmri.io.inputs import input_files
from bayesmri.io.locks import exclusive
from bayesmri.machine.crew import ahead
from bayesmri.recon.batch.finished import difference, recorded_by, wanted_of
from bayesmri.recon.batch.folder import Batch
from bayesmri.recon.batch.inputs import Input
from bayesmri.recon.batch.journal import FOLDER, append, journal_path, rows
from bayesmri.recon.batch.meter import Meter
from bayesmri.recon.batch.summary import BEFORE, DONE, FAILED, WAITING, counts, row_of, write_summary
from bayesmri.recon.files import files_read, output_files, reading_settings, reconstruct_file, with_ending
from bayesmri.recon.method import Method, make_method
from bayesmri.recon.page import report_file
from bayesmri.recon.request import Options

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


@dataclass
class Methods:
    """Methods by what they are made of, each made once: a model is loaded once for all volumes."""

    made: dict[tuple[object, ...], Method] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, options: Options) -> Method:
        key = (options.method, options.model, options.tv_weight, options.coils, options.device)
        with self.lock:
            if key not in self.made:
                self.made[key] = make_method(options)
            return self.made[key]


def run(inputs: Sequence[Input], out: Path, batch: Batch, meter: Meter) -> dict[str, Any]:
    """Every volume, and the summary: whole also where the run is interrupted."""
    shard = batch.shard.name
    with exclusive(out / FOLDER / shard if shard else out, meter.say), _terminated_as_interrupted():
        known, found = rows(out), {}
        try:
            with meter.start({item.name: _bytes(item.path) for item in inputs}):
                for item, row in _each(inputs, out, batch, known, meter):
                    found[item.name] = row
                    if row["status"] == FAILED:
                        meter.say(f"{one_line(item.name)}: {row['error']}")
                    meter.end(item.name, worked=row["status"] != BEFORE)
        finally:
            listed = [found.get(item.name, {"input": item.name, "status": WAITING}) for item in inputs]
            files = write_summary(out, listed, shard=shard, about={"shard": shard or None})
    return {"output": str(out), **counts(listed), "volumes": listed, "outputs": [str(path) for path in files]}


def _each(
    inputs: Sequence[Input], out: Path, batch: Batch, known: dict[str, dict[str, Any]], meter: Meter
) -> Iterator[tuple[Input, dict[str, Any]]]:
    """(input, row) of every volume; one at a time is in memory, with a crew a few."""
    make, journal = Methods(), journal_path(out, batch.shard.name)

    def one(item: Input) -> tuple[Input, dict[str, Any]]:
        row = _row(item, out, batch, known.get(item.name), make, meter)
        if row["status"] == DONE:
            append(journal, row)
        return item, row

    yield from ahead(one, inputs)


def _row(
    item: Input, out: Path, batch: Batch, known: dict[str, Any] | None, make: Methods, meter: Meter
) -> dict[str, Any]:
    """What became of one volume."""
    target = out / item.result
    row: dict[str, Any] = {"input": item.name, "output": item.result, "time": datetime.now(UTC).isoformat()}
    try:
        other = _difference(item, target, batch) if target.exists() else None
        if other == "":
            _report(target, batch)
            return {**(known or row), "status": BEFORE, "output": item.result, "links": _links(target, out)}
        if other is not None and not batch.force:
            told = f"{item.result} is there and was made otherwise ({other})"
            return {**row, "status": FAILED, "error": f"{told}; --force makes it anew, or give another folder"}
        made = reconstruct_file(
            item.path,
            target,
            batch.options,
            batch.sampling,
            sensitivities=batch.sensitivities,
            given=batch.given,
            choice=batch.choice,
            nifti=batch.nifti,
            png=batch.png,
            trusted=batch.trusted,
            force=True,
            progress=meter.slices(item.name),
            make=make,
        )
        _report(target, batch, force=True)
    except Exception as error:
        full = isinstance(error.__cause__, OSError) and error.__cause__.errno in FULL
        if full or isinstance(error, ClusterLostError):  # no volume after this one would fare better
            raise
        return {**row, "status": FAILED, "error": explained(error)}
    return {**row, "status": DONE, **row_of(made), "links": _links(target, out)}


def explained(error: Exception) -> str:
    """One line; of what nobody foresaw with its kind."""
    told = one_line(str(error) or type(error).__name__, limit=600)
    if isinstance(error, BayesMRIError):
        return told
    return f"out of memory: {told}" if isinstance(error, MemoryError) else f"{type(error).__name__}: {told}"


def _difference(item: Input, target: Path, batch: Batch) -> str:
    """In what the result that is there differs from the one that is wanted; "" where it is finished."""
    options = batch.options
    asked = output_files(target, nifti=batch.nifti, png=batch.png, std=False)
    lacking = [path.name for path in asked.values() if not path.is_file()]
    if lacking:
        return f"{lacking[0]} is not there"
    inputs = files_read(item.path, options, batch.sampling, batch.sensitivities)
    wanted = wanted_of(inputs, options, batch.sampling, reading=reading_settings(batch.given, batch.choice))
    return difference(recorded_by(target), wanted)


def _report(target: Path, batch: Batch, *, force: bool = False) -> None:
    page = with_ending(target, ".html")
    if batch.report and (force or not page.is_file()):
        report_file(target, page, force=True)


def _links(target: Path, out: Path) -> dict[str, str]:
    """What was written of a volume, by what it is, relative to the summary."""
    kinds = {"report": ".html", "picture": ".png", "NIfTI": ".nii.gz", "HDF5": ".h5"}
    files = {kind: with_ending(target, ending) for kind, ending in kinds.items()}
    return {kind: path.relative_to(out).as_posix() for kind, path in files.items() if path.is_file()}


def _bytes(path: Path) -> int:
    try:
        return sum(file.stat().st_size for file in input_files(path))
    except (OSError, ValueError):
        return 0


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """A batch system ends a job by SIGTERM: what Ctrl-C does, with nothing left half-written and a summary."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    former = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)
