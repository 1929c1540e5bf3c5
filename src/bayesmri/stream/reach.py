"""Who can reach an address; the protocol has no passwords, so that is all there is to keep others out."""

import ipaddress
import socket

from bayesmri.errors import ConfigError
from bayesmri.io.guard import one_line


def check_reach(host: str, *, anyone: bool) -> None:
    """Addresses that other machines can reach are refused unless anyone may."""
    if anyone or is_loopback(host):
        return
    raise ConfigError(
        f"got the host {one_line(host, limit=80)}, which other machines can reach: the protocol has neither passwords "
        "nor encryption, so that whoever reaches the port can send data, use this machine and read along; tunnel to "
        "127.0.0.1 (ssh -L), or give --anyone if the network is trusted"
    )


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches it."""
    try:
        found = {info[4][0] for info in socket.getaddrinfo(host or None, 0, type=socket.SOCK_STREAM)}
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(
            f"got the host {one_line(host, limit=80)} ({reason}), expected an address, such as 127.0.0.1"
        ) from error
    return bool(host) and all(ipaddress.ip_address(str(at).partition("%")[0]).is_loopback for at in found)
