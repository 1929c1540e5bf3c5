"""Addresses of other machines, as the user writes them."""

from bayesmri.errors import ConfigError
from bayesmri.io.guard import one_line


def parse_address(text: str, *, such: str) -> tuple[str, int]:
    """ "localhost:9002" → ("localhost", 9002); the host of an IPv6 address in brackets. such: an example."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdecimal() or not 1 <= int(port[:6]) <= 65_535:
        raise ConfigError(f"got the server {one_line(text, limit=80)}, expected host:port, such as {such}")
    return host.strip("[]"), int(port)
