"""Who may come in: the token in the address, the Host that was asked for, the Origin that asks; what pages may do."""

import ipaddress
import secrets
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from bayesmri.app.settings import Settings

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
    "cache-control": "no-store",
}
LOCAL = ("127.0.0.1", "localhost", "::1")
READS = ("GET", "HEAD")


class Door:
    """Before all else. A page of another site can neither name the token nor pass the other two."""

    def __init__(self, app: App, settings: Settings) -> None:
        self.app, self.settings = app, settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        status, why = self.refusal(scope)
        if why:
            await _refuse(send, status, why)
            return
        inner = f"/{self.settings.token}"
        rest = scope["path"][len(inner) :]
        scope = {**scope, "path": rest, "raw_path": rest.encode(), "root_path": ""}
        await self.app(scope, receive, _with_headers(send))

    def refusal(self, scope: Scope) -> tuple[int, str]:
        """(status, one line), or (0, "") for who may come in."""
        names = [name for name, _ in scope["headers"]]
        heads = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        host = heads.get("host", "")
        if names.count(b"host") != 1 or not self.known(host):
            return 421, "this address is not one that bayesmri app was started for"
        first = scope["path"].lstrip("/").split("/", 1)[0]
        if not secrets.compare_digest(first.encode(), self.settings.token.encode()):
            return 404, "no such page: open the address that bayesmri app printed, with its token"
        origin = heads.get("origin")
        if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
            return 403, "asked for by a page of another origin"
        if origin is None and scope["method"] not in READS:
            return 403, "no origin given, expected that of this page"
        if heads.get("sec-fetch-site") == "cross-site" and heads.get("sec-fetch-mode") != "navigate":
            return 403, "asked for by a page of another site"
        return 0, ""

    def known(self, host: str) -> bool:
        """Of this machine: a name that someone else's DNS leads here is none of it."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        if name in LOCAL or name == self.settings.host.lower():
            return True
        if self.settings.loopback:
            return False
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name in {socket.gethostname().lower(), socket.getfqdn().lower()}
        return True


def _with_headers(send: Send) -> Send:
    async def inner(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            given = {name for name, _ in message["headers"]}
            more = [(k.encode(), v.encode()) for k, v in HEADERS.items() if k.encode() not in given]
            message = {**message, "headers": [*message["headers"], *more]}
        await send(message)

    return inner


async def _refuse(send: Send, status: int, why: str) -> None:
    heads = {**HEADERS, "content-type": "text/plain; charset=utf-8", "connection": "close"}
    heads_list = [(k.encode(), v.encode()) for k, v in heads.items()]
    await send({"type": "http.response.start", "status": status, "headers": heads_list})
    await send({"type": "http.response.body", "body": f"{why}\n".encode()})
