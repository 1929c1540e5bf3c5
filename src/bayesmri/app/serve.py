"""Start: a socket, a line that says where, and the server until it is interrupted."""

import contextlib
import socket
import webbrowser
from collections.abc import Callable

import uvicorn

from bayesmri.app.server import application
from bayesmri.app.settings import Settings
from bayesmri.errors import ConfigError
from bayesmri.io.guard import one_line


def serve(settings: Settings, *, show: bool, say: Callable[[str], None]) -> None:
    """Until Ctrl+C. show: open the browser."""
    listening = bound(settings)
    address = settings.address(listening.getsockname()[1])
    config = uvicorn.Config(
        application(settings),
        log_level="warning",
        access_log=False,  # addresses hold the token
        server_header=False,
        timeout_graceful_shutdown=1,
        limit_concurrency=512,
        ws="none",
    )
    say(address)
    if show:
        webbrowser.open(address)
    with contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listening])


def bound(settings: Settings) -> socket.socket:
    """A listening socket, so that the port is known, and a taken one is one line."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host, settings.port))
    except (OSError, UnicodeError) as error:
        listening.close()
        raise ConfigError(
            f"cannot listen on {one_line(settings.host, limit=60)}, port {settings.port} ({one_line(error)}); "
            "give another --port, or 0 for any that is free"
        ) from error
    listening.listen(512)
    return listening
