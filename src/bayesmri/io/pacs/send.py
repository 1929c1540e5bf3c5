"""A folder of DICOM files to an archive."""

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from bayesmri.errors import ConfigError, FormatError
from bayesmri.io.dicom_frames import MAX_FILES, dicom_files, is_dicom, pydicom_module
from bayesmri.io.guard import is_folder, one_line, regular_file
from bayesmri.io.pacs.store import store
from bayesmri.io.pacs.web import store_web

AET, CALLED, SECONDS = "BAYESMRI", "ANY-SCP", 30.0
Progress = Callable[[int], AbstractContextManager[Callable[[], None]]]


def send(
    source: Path | str,
    *,
    to: str | None = None,
    web: str | None = None,
    aet: str = AET,
    called: str = CALLED,
    timeout: float = SECONDS,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Send a DICOM file, or all in a folder, to an archive; JSON values of what was sent, and its warnings.

    to: host:port, by C-STORE; aet: our title; called: the archive's. web: the address of a DICOMweb server instead.
    timeout: seconds that the other side may be silent.
    """
    if (to is None) == (web is None):
        raise ConfigError("got neither or both of --to and --web, expected one: host:port, or the address of a server")
    if not 0 < timeout <= 3600:
        raise ConfigError(f"got a timeout of {timeout:g} s, expected up to 3600")
    pydicom_module()
    path = Path(source)
    paths, skipped = _found(path)
    with _silent(), progress(len(paths)) if progress else nullcontext(lambda: None) as advance:
        if to is not None:
            warnings = store(paths, to, aet=aet, called=called, timeout=timeout, advance=advance)
        else:
            warnings = store_web(paths, str(web), timeout=timeout, advance=advance)
    notes = [f"{skipped} files that are not DICOM stayed here"] if skipped else []
    return {"source": str(path), "to": to or web, "files": len(paths), "notes": notes, "warnings": warnings}


@contextmanager
def _silent() -> Iterator[None]:
    """The libraries log what is said here in one line."""
    loggers = [logging.getLogger(name) for name in ("pynetdicom", "dicomweb_client", "retrying")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _found(path: Path) -> tuple[list[Path], int]:
    """(DICOM files, how many others there are)."""
    if not is_folder(path):
        regular_file(path)
    seen = list(dicom_files(path)) if is_folder(path) else [path]
    found = [file for file in seen if is_dicom(file)]
    if not found:
        raise FormatError(f"{one_line(path)} holds no DICOM file, expected what `bayesmri export --dicom` wrote")
    if len(seen) >= MAX_FILES:
        raise ConfigError(f"got a folder of more than {MAX_FILES} files, expected one export; send folders one by one")
    return found, len(seen) - len(found)
