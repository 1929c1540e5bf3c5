"""All that one server holds: files, children, jobs; and what the page may ask of them, without any HTTP."""

import asyncio
import importlib.util
import re
import secrets
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

from bayesmri import zoo
from bayesmri.app.child import Child, ChildError
from bayesmri.app.jobs import Job, Jobs
from bayesmri.app.library import DROP, Library, free_name, keep
from bayesmri.app.settings import Settings
from bayesmri.errors import BayesMRIError, ConfigError, DataError, FormatError
from bayesmri.io.guard import one_line
from bayesmri.io.inputs import input_files
from bayesmri.machine.processes import Process, ended, this_process
from bayesmri.recon.acquisition import Sampling
from bayesmri.recon.request import BASELINES, Options, check_spread

SMALL = 256 * 2**20  # bytes of a scan that is read before it is asked
OURS = re.compile(r"bayesmri-app-([0-9a-f]{8})-(\d{1,10})-(\d{1,20})-")
READERS = 2  # inspections at a time
EXPORTS = {
    "nifti": ("NIfTI", ".nii.gz"),
    "maps": ("NIfTI with maps", ".nifti.zip"),
    "dicom": ("DICOM", ".dicom.zip"),
    "report": ("Report", ".html"),
}
TAKEN = {"model", "method", "samples", "seed", "fast", "check", "keep_samples", "visibility", "single_coil", "device"}
SAMPLED = {"acceleration", "center_fraction", "mask", "seed"}
NUMBERS = {"samples": int, "seed": int, "acceleration": float, "center_fraction": float}


def new_folder() -> Path:
    """For what is dropped and made of it, only ours to read; those of sessions that were killed are removed."""
    me, place = this_process(), Path(tempfile.gettempdir())
    with suppress(OSError):
        for path in place.glob("bayesmri-app-*"):
            found = OURS.match(path.name)
            if found and not path.is_symlink() and ended(Process("", found[1], int(found[2]), int(found[3]))):
                shutil.rmtree(path, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"bayesmri-app-{me.space}-{me.pid}-{me.started}-")).resolve()


class House:
    """One session's."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.folder = new_folder()
        drops, self.exports = self.folder / "drops", self.folder / "exports"
        for inner in (drops, self.exports):
            inner.mkdir(mode=0o700)
        self.library = Library(settings.folders, drops)
        self.jobs = Jobs()
        self.desk, self.lister = (Child("bayesmri.app.desk", "the process that reads results") for _ in range(2))
        self.asker = Child("bayesmri.app.asking", "the process that is asked")
        self.readers = asyncio.Semaphore(READERS)
        self.working: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        self.working = asyncio.create_task(self.jobs.work())
        await asyncio.gather(self.desk.warm(), self.lister.warm())

    async def end(self) -> None:
        if self.working is not None:
            self.working.cancel()
        await asyncio.gather(self.jobs.end(), *(child.end() for child in (self.desk, self.lister, self.asker)))
        await asyncio.to_thread(shutil.rmtree, self.folder, ignore_errors=True)

    def about(self) -> dict[str, Any]:
        """What the page's choices are made of."""
        models = [
            {"name": model.name, "stochastic": model.stochastic, "accelerations": list(model.accelerations)}
            for model in zoo.shipped()
        ]
        return {
            "folders": [one_line(folder, limit=300) for folder in self.settings.folders],
            "upload_bytes": self.settings.upload_bytes,
            "models": models,
            "downloads": [[title, kind] for kind, (title, _) in EXPORTS.items() if kind != "dicom" or can_dicom()],
            "methods": [name for name in BASELINES if not name.startswith("bart") or shutil.which("bart")],
        }

    async def listed(self) -> dict[str, Any]:
        """Scans and results, the newest first."""
        paths = await asyncio.to_thread(self.library.files)
        facts = await self.lister.ask("glances", paths=[str(path) for path in paths])
        entries = [self._entry(path, facts.get(str(path))) for path in paths]
        entries.sort(key=lambda entry: -entry["time"])
        return {
            "scans": [entry for entry in entries if not entry["result"]],
            "results": [entry for entry in entries if entry["result"]],
        }

    def _entry(self, path: Path, facts: Mapping[str, Any] | None) -> dict[str, Any]:
        try:
            found = path.stat()
            size, when = found.st_size, found.st_mtime
        except OSError:
            size, when = 0, 0.0
        key = self.library.key(path.resolve())
        shown = key.partition("/")[2] if not key.startswith(DROP) else path.name
        about = {"method": "", "samples": 0, "shape": [], "scan": ""} | dict(facts or {})
        about |= {"key": key, "name": one_line(shown, limit=160), "bytes": size, "time": when}
        return about | {"result": facts is not None, "kept": self.library.is_kept(path)}

    async def opened(self, path: Path) -> dict[str, Any]:
        """What a file is: a result, or a scan with what `inspect` says of it."""
        if not all(half.exists() for half in input_files(path)):
            raise FormatError(f"{one_line(path.name)} is not there any more: list the files again")
        facts = (await self.lister.ask("glances", paths=[str(path)]))[str(path)]
        entry = self._entry(path, facts)
        if facts is not None:
            return entry
        async with self.readers:
            reader = Child("bayesmri.app.looking", "the process that reads files")
            try:
                return entry | {"inspection": await reader.ask("inspect", path=str(path))}
            except ChildError as error:  # whoever dropped it knows its name only
                raise ChildError(str(error).replace(str(path), path.name)) from error
            finally:
                await reader.end()

    def run(self, path: Path, asked: Mapping[str, Any]) -> Job:
        """Checked before it waits. The result lies beside what is kept, or with what was dropped."""
        options = _only(asked.get("options"), TAKEN)
        options["visibility"] = tuple(map(str, options.get("visibility") or ()))
        checked = Options(**options)
        check_spread(checked.samples)
        sampling = _only(asked.get("sampling"), SAMPLED) if asked.get("sampling") else None
        if sampling is not None:
            Sampling(**sampling)
        named = str(checked.model or checked.method)
        label = f"{named}{f', {checked.samples} samples' if checked.samples else ''}"
        out = self._output(path, named)
        given = {"path": str(path), "out": str(out), "options": options, "sampling": sampling}
        return self.jobs.add(scan=path.name, label=label, asked=given, result=self.library.key(out))

    def _output(self, scan: Path, method: str) -> Path:
        folder = scan.parent
        stem = f"{scan.name.removesuffix(scan.suffix)}.{Path(method).stem}"
        out = free_name(folder, stem, ".recon.h5")
        taken = self.jobs.reserved()
        n = 2
        while out in taken or out.exists():
            out, n = folder / f"{stem}-{n}.recon.h5", n + 1
        return out

    async def ask(self, verb: str, path: Path, asked: Mapping[str, Any]) -> Any:
        """Of a result: its scan is looked for, in its own folder first."""
        facts = (await self.lister.ask("glances", paths=[str(path)]))[str(path)]
        if facts is None:
            raise FormatError(f"{one_line(path.name)} is no result of bayesmri recon, expected one")
        scan = await asyncio.to_thread(self._scan_of, path, facts["scan"])
        told = {name: asked[name] for name in ("x", "y", "r", "contrast", "slice", "template") if name in asked}
        changed = str((path.stat().st_mtime_ns, scan.stat().st_mtime_ns))
        return await self.asker.ask(verb, result=str(path), scan=str(scan), changed=changed, **told)

    async def warm(self, path: Path, s: int) -> None:
        """What may be asked soon is made ready, where that is cheap and nothing else is at work."""
        await self.asker.warm()
        if self.asker.turn.locked() or self.jobs.reserved():
            return
        with suppress(BayesMRIError, OSError):  # a result that cannot be asked says so when it is
            facts = (await self.lister.ask("glances", paths=[str(path)]))[str(path)]
            scan = None if facts is None else await asyncio.to_thread(self._scan_of, path, facts["scan"])
            if scan is not None and sum(half.stat().st_size for half in input_files(scan)) <= SMALL:
                await self.ask("ready", path, {"slice": s})

    def _scan_of(self, result: Path, name: str) -> Path:
        wanted = name.removesuffix(".hdr") + ".cfl" if name.endswith(".hdr") else name
        found = [path for path in self.library.files() if path.name == wanted]
        found.sort(key=lambda path: path.parent != result.parent)
        if not name or not found:
            raise DataError(
                f"the scan {one_line(name) or 'of this result'} is not in {self.library.named()}, expected beside its "
                "result; put it there, or drop it into the page and reconstruct"
            )
        return found[0].resolve()

    async def exported(self, path: Path, kind: str) -> tuple[Path, str]:
        """A file to be sent and deleted, and what to call it. kind: one of EXPORTS."""
        ending = EXPORTS[kind][1]
        out = self.exports / f"{secrets.token_hex(8)}{ending}"
        async with self.readers:
            writer = Child("bayesmri.app.exporting", "the process that writes downloads")
            try:
                await writer.ask(kind, path=str(path), out=str(out), name=path.name.removesuffix(".h5"))
            finally:
                await writer.end()
        return out, f"{path.name.removesuffix('.h5')}{ending}"

    async def kept(self, path: Path) -> str:
        """The key of the copy."""
        return self.library.key(await asyncio.to_thread(keep, self.library, path))

    async def dropped_away(self, path: Path) -> None:
        """What was dropped is forgotten, with what was made of it."""
        if self.library.is_kept(path):
            raise ConfigError(f"{one_line(path.name)} lies in a folder of yours, and is not deleted from here")
        busy = {Path(job.asked["out"]).parent for job in self.jobs.all.values() if job.state in ("waiting", "running")}
        if path.parent in busy:
            raise ConfigError("a reconstruction of it is still running; cancel it first")
        await asyncio.to_thread(shutil.rmtree, path.parent, ignore_errors=True)


def can_dicom() -> bool:
    """Whether the extra dicom is installed."""
    return all(importlib.util.find_spec(name) is not None for name in ("pydicom", "highdicom"))


def _only(given: object, names: set[str]) -> dict[str, Any]:
    """What was set, of the names that may be set from a page."""
    if not isinstance(given, dict):
        raise ConfigError("got settings that are no table, expected names and values; load the page again")
    unknown = set(given) - names
    if unknown:
        raise ConfigError(f"got the setting {one_line(sorted(unknown)[0], limit=40)!r}, which a page cannot set")
    found = {name: value for name, value in given.items() if value is not None and value != ""}
    for name, kind in NUMBERS.items():
        if name in found:
            value = found[name]
            if isinstance(value, bool) or not isinstance(value, int | float) or kind(value) != value:
                raise ConfigError(f"got {name} {one_line(value, limit=40)!r}, expected a number")
            found[name] = kind(value)
    known = {field.name for field in fields(Options)} | SAMPLED
    texts = {"model", "method", "device", "mask"} & set(found) & known
    if any(not isinstance(found[name], str) or len(found[name]) > 200 for name in texts):
        raise ConfigError("got a model or mask that is no text, expected its name")
    return found
