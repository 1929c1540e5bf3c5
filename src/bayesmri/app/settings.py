"""What the application may do: which folders, which address, which token; neither torch nor a web library here."""

import ipaddress
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from bayesmri.errors import ConfigError
from bayesmri.io.guard import one_line

LOOPBACK = "127.0.0.1"
PORT = 8765
GIGABYTES = 8.0  # of one dropped file
SHORTEST, LONGEST = 16, 200  # characters of a token of one's own
TOKEN = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True)
class Settings:
    """folders: resolved; the first one takes what is kept. token: in the address of every request.

    port: 0 takes one that is free. upload_bytes: the most that one dropped file may have. first: a file of the first
    folder that is shown at once.
    """

    folders: tuple[Path, ...]
    token: str
    host: str = LOOPBACK
    port: int = PORT
    upload_bytes: int = round(GIGABYTES * 1e9)
    first: str = ""

    @property
    def loopback(self) -> bool:
        return is_loopback(self.host)

    def address(self, port: int) -> str:
        """What the user opens; the port may have been chosen by the system."""
        host = LOOPBACK if self.host in ("0.0.0.0", "::") else self.host
        shown = f"[{host}]" if ":" in host else host
        part = f"#{quote(f'0/{self.first}')}" if self.first else ""
        return f"http://{shown}:{port}/{self.token}/{part}"


def settings(
    folders: Sequence[Path],
    *,
    host: str = LOOPBACK,
    port: int = PORT,
    token: str | None = None,
    gigabytes: float = GIGABYTES,
) -> Settings:
    """Checked. Without a token one is drawn, on this machine's own address alone.

    folders: of the first one a file may be named instead, which is shown at once.
    """
    if not 0 <= port <= 65535:
        raise ConfigError(f"got the port {port}, expected 1 to 65535, or 0 for any that is free")
    if not 0.001 <= gigabytes <= 1000:
        raise ConfigError(f"got a limit of {gigabytes:g} GB for dropped files, expected 0.001 to 1000")
    if token is None and not is_loopback(host):
        raise ConfigError(
            f"got the host {one_line(host, limit=60)} without a token, expected one: others can reach that address; "
            f"give --token with {SHORTEST} characters or more, or leave --host out"
        )
    if token is not None and (not SHORTEST <= len(token) <= LONGEST or not TOKEN.fullmatch(token)):
        raise ConfigError(
            f"got a token of {len(token)} characters, expected {SHORTEST} to {LONGEST} letters, digits, - and _"
        )
    first = folders[0].name if folders and _is_file(folders[0]) else ""
    given = [folders[0].parent, *folders[1:]] if first else folders
    drawn = token or secrets.token_urlsafe(24)
    return Settings(tuple(map(_folder, given)), drawn, host, port, round(gigabytes * 1e9), first)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _folder(path: Path) -> Path:
    try:
        found = path.resolve(strict=True)
    except (OSError, RuntimeError, ValueError) as error:
        raise ConfigError(f"{one_line(path)} does not exist, expected a folder of scans; check the path") from error
    if not found.is_dir():
        raise ConfigError(f"{one_line(path)} is no folder, expected one of scans and results; give the folder it is in")
    return found
