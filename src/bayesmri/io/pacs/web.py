"""STOW-RS: DICOM files to an archive over the web, some at a time."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bayesmri.errors import ConfigError, NetworkError
from bayesmri.io.guard import damaged_as_format_error, one_line
from bayesmri.io.integrity.inflate import check_deflate
from bayesmri.machine.optional import needed

BYTES = 64 * 2**20  # of one request, or one file


def store_web(paths: Sequence[Path], url: str, *, timeout: float, advance: Callable[[], None]) -> list[str]:
    """Send all files; returns what the other side warned of. A file that is refused ends it, with words."""
    at = _checked(url)
    client = needed("dicomweb_client.api", extra="dicom", what="DICOMweb").DICOMwebClient(url=url, timeout=timeout)
    client.set_http_retry_params(retry=False)
    warnings: list[str] = []
    sent = 0
    for part in _parts(paths):
        answer = _posted(client, [_read(path) for path in part], at, sent, len(paths))
        failed = answer.get("FailedSOPSequence") or []
        if failed:
            code = int(failed[0].get("FailureReason", 0) or 0)
            raise NetworkError(
                f"{at} refused {len(failed)} of {len(part)} files (reason 0x{code:04X}); {sent} were sent"
            )
        stored = answer.get("ReferencedSOPSequence")
        if stored is not None and len(stored) != len(part):
            raise NetworkError(f"{at} says it stored {len(stored)} of {len(part)} files; send them again")
        warnings += [
            f"{one_line(item.get('ReferencedSOPInstanceUID', ''))}: warning 0x{int(item.WarningReason):04X}"
            for item in stored or []
            if item.get("WarningReason")
        ]
        sent += len(part)
        for _ in part:
            advance()
    return warnings


def _checked(url: str) -> str:
    """The address without a password, to be named in messages."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https"):
        raise ConfigError(
            f"got the address {one_line(url, limit=80)}, expected that of a DICOMweb server, such as "
            "http://localhost:8042/dicom-web"
        )
    if parts.username or parts.password:
        raise ConfigError("got a name or password in the address, which others could read; put them into ~/.netrc")
    return one_line(url, limit=120)


def _posted(client: Any, data: Sequence[Any], at: str, sent: int, n: int) -> Any:
    requests = needed("requests", extra="dicom", what="DICOMweb")
    try:
        return client.store_instances(data)
    except requests.exceptions.HTTPError as error:
        code = error.response.status_code if error.response is not None else "unknown"
        raise NetworkError(
            f"{at} answered with HTTP {code}; {sent} of {n} files were sent: check address, rights"
        ) from error
    except (requests.exceptions.RequestException, OSError) as error:
        why = "it took too long" if isinstance(error, requests.exceptions.Timeout) else "nothing answers there"
        raise NetworkError(f"could not send to {at}: {why}; {sent} of {n} files were sent") from error
    except ValueError as error:
        raise NetworkError(f"{at} answered with no DICOM ({one_line(error, limit=80)}): no DICOMweb server?") from error


def _parts(paths: Sequence[Path]) -> list[list[Path]]:
    parts: list[list[Path]] = [[]]
    size = 0
    for path in paths:
        length = path.stat().st_size
        if parts[-1] and size + length > BYTES:
            parts.append([])
            size = 0
        parts[-1].append(path)
        size += length
    return [part for part in parts if part]


def _read(path: Path) -> Any:
    with damaged_as_format_error(path):
        check_deflate(path)
        return needed("pydicom", extra="dicom", what="DICOM").dcmread(path)
