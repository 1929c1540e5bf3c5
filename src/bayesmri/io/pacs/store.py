"""C-STORE: one association, every file in it, in the order of their names."""

import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bayesmri.errors import ConfigError, NetworkError
from bayesmri.io.guard import damaged_as_format_error, one_line
from bayesmri.io.integrity.inflate import check_deflate
from bayesmri.io.pacs.address import parse_address
from bayesmri.machine.optional import needed

MOST_CONTEXTS = 128  # of one association
TITLE = 16  # characters of an application entity's title
REFUSED = "it took no association: check --called and --aet, which it may have to know"


def store(
    paths: Sequence[Path], to: str, *, aet: str, called: str, timeout: float, advance: Callable[[], None]
) -> list[str]:
    """Send all files; returns what the other side warned of. A file that is refused ends it, with words."""
    pynetdicom = needed("pynetdicom", extra="dicom", what="C-STORE")
    host, port = parse_address(to, such="localhost:4242")
    entity = pynetdicom.AE(ae_title=_title("--aet", aet))
    entity.acse_timeout = entity.dimse_timeout = entity.network_timeout = entity.connection_timeout = timeout
    for kind, syntax in _contexts(paths):
        entity.add_requested_context(kind, syntax)
    other = _title("--called", called)
    at = f"{one_line(host, limit=80)}:{port}"
    _check_answers(host, port, timeout, at)
    association = entity.associate(host, port, ae_title=other)
    if not association.is_established:
        why = REFUSED if association.is_rejected else "it does not answer in DICOM, or takes no such files"
        raise NetworkError(f"could not send to {at} ({other}): {why}")
    try:
        return [said for i, path in enumerate(paths) if (said := _sent(association, path, at, i, len(paths), advance))]
    finally:
        if association.is_established:
            association.release()


def _check_answers(host: str, port: int, timeout: float, at: str) -> None:
    """Whether anybody listens, with the system's own reason where not."""
    try:
        socket.create_connection((host, port), timeout=timeout).close()
    except (OSError, UnicodeError) as error:
        why = one_line(getattr(error, "strerror", None) or error, limit=80)
        raise NetworkError(f"could not send to {at}: nothing answers there ({why})") from error


def _sent(association: Any, path: Path, at: str, i: int, n: int, advance: Callable[[], None]) -> str:
    """ "" or a warning of the other side's."""
    name = one_line(path.name)
    with damaged_as_format_error(path):
        data = _read(path)
    try:
        status = association.send_c_store(data)
    except (ValueError, RuntimeError, AttributeError) as error:  # no context accepted, or the association is gone
        raise NetworkError(f"{at} does not take {name} ({one_line(error, limit=160)}); {_share(i, n)}") from error
    if "Status" not in status:
        raise NetworkError(f"{at} broke off at {name}, or took too long; {_share(i, n)}")
    code = int(status.Status)
    comment = one_line(status.get("ErrorComment", "") or "", limit=120)
    if code not in (0x0000, 0x0001) and code & 0xF000 != 0xB000:
        raise NetworkError(f"{at} refused {name} (status 0x{code:04X} {comment}); {_share(i, n)}")
    advance()
    return f"{name}: status 0x{code:04X} {comment}".strip() if code else ""


def _share(i: int, n: int) -> str:
    return (
        f"{i} of {n} files were sent, and stay there: send all again once it is mended, which changes nothing of those"
    )


def _contexts(paths: Sequence[Path]) -> list[tuple[str, str]]:
    found: dict[tuple[str, str], None] = {}
    for path in paths:
        with damaged_as_format_error(path):
            meta = _read(path, stop_before_pixels=True).file_meta
            found[str(meta.MediaStorageSOPClassUID), str(meta.TransferSyntaxUID)] = None
    if len(found) > MOST_CONTEXTS:
        raise ConfigError(f"got files of {len(found)} kinds, expected at most {MOST_CONTEXTS}; send them by parts")
    return list(found)


def _read(path: Path, **how: bool) -> Any:
    check_deflate(path)
    return needed("pydicom", extra="dicom", what="DICOM").dcmread(path, **how)


def _title(flag: str, text: str) -> str:
    plain = text.strip()
    if not 1 <= len(plain) <= TITLE or not plain.isascii() or not plain.isprintable() or "\\" in plain:
        raise ConfigError(
            f"got {flag} {one_line(text, limit=40)!r}, expected 1 to {TITLE} plain characters, such as ORTHANC"
        )
    return plain
