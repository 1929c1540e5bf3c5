"""The server: routes behind the door, each a thin skin over the house."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib import metadata, resources
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from bayesmri.app.door import Door
from bayesmri.app.house import EXPORTS, House
from bayesmri.app.library import OutsideError, new_drop, plain_name
from bayesmri.app.settings import Settings
from bayesmri.errors import BayesMRIError, ConfigError
from bayesmri.io.guard import human, one_line
from bayesmri.report.page import viewer_script

JSON_MAX = 64 * 1024
BUFFER = 4 * 2**20  # bytes of an upload that are in memory
ALIVE = 15.0  # seconds between signs of life
STYLES = ("app.css",)
SCRIPTS = ("api.js", "marks.js", "tools.js", "files.js", "compare.js", "ask.js", "app.js")
Endpoint = Callable[[Request], Awaitable[Response]]


def application(settings: Settings) -> Door:
    """The ASGI application of one session."""
    house = House(settings)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        await house.begin()
        yield
        await house.end()

    made = Starlette(routes=Pages(house).routes(), lifespan=lifespan)
    return Door(made, settings)


class Pages:
    """What is asked for, by its address."""

    def __init__(self, house: House) -> None:
        self.house, self.library = house, house.library

    def routes(self) -> list[Route]:
        reads: dict[str, Endpoint] = {
            "/": self.page,
            "/app.js": self.script,
            "/app.css": self.style,
            "/api/about": self.about,
            "/api/files": self.files,
            "/api/events": self.events,
            "/api/job": self.job,
            "/api/study": self.study,
            "/api/slice": self.slice,
            "/api/samples": self.samples,
            "/api/download/{kind}": self.download,
        }
        writes: dict[str, Endpoint] = {
            "/api/open": self.open,
            "/api/drop": self.drop,
            "/api/keep": self.keep,
            "/api/forget": self.forget,
            "/api/run": self.run,
            "/api/cancel": self.cancel,
            "/api/ask/{verb}": self.ask,
        }
        return [
            *(Route(path, _told(end), methods=["GET"]) for path, end in reads.items()),
            *(Route(path, _told(end), methods=["POST"]) for path, end in writes.items()),
        ]

    async def page(self, request: Request) -> Response:
        text = asset("app.html").replace("{{version}}", metadata.version("bayesmri"))
        return Response(text, media_type="text/html")

    async def script(self, request: Request) -> Response:
        return Response(viewer_script() + "".join(map(asset, SCRIPTS)), media_type="text/javascript")

    async def style(self, request: Request) -> Response:
        return Response("".join(map(asset, STYLES)), media_type="text/css")

    async def about(self, request: Request) -> Response:
        return JSONResponse(self.house.about())

    async def files(self, request: Request) -> Response:
        return JSONResponse(await self.house.listed())

    async def open(self, request: Request) -> Response:
        asked = await _json(request)
        path = self.library.path(asked["key"]) if "key" in asked else self.library.typed(str(asked.get("path", "")))
        return JSONResponse(await self.house.opened(path))

    async def study(self, request: Request) -> Response:
        return JSONResponse(await self.house.desk.ask("study", path=self._path(request)))

    async def slice(self, request: Request) -> Response:
        return JSONResponse(
            await self.house.desk.ask("slice", path=self._path(request), slice=_whole(request, "slice"))
        )

    async def samples(self, request: Request) -> Response:
        return JSONResponse(
            await self.house.desk.ask("samples", path=self._path(request), slice=_whole(request, "slice"))
        )

    async def download(self, request: Request) -> Response:
        kind, path = request.path_params["kind"], Path(self._path(request))
        if kind == "h5":
            return FileResponse(path, filename=path.name, media_type="application/x-hdf5")
        if kind not in EXPORTS:
            raise ConfigError(f"got the format {one_line(kind, limit=20)!r}, expected h5, {', '.join(EXPORTS)}")
        made, name = await self.house.exported(path, kind)
        gone = BackgroundTask(made.unlink, missing_ok=True)
        return FileResponse(made, filename=name, media_type="application/octet-stream", background=gone)

    async def run(self, request: Request) -> Response:
        asked = await _json(request)
        return JSONResponse(self.house.run(self.library.path(str(asked.get("key", ""))), asked).told())

    async def job(self, request: Request) -> Response:
        return JSONResponse(self.house.jobs.found(_whole(request, "id")).told())

    async def cancel(self, request: Request) -> Response:
        number = (await _json(request)).get("id")
        return JSONResponse((await self.house.jobs.cancel(number if isinstance(number, int) else -1)).told())

    async def ask(self, request: Request) -> Response:
        verb, asked = request.path_params["verb"], await _json(request)
        if verb == "warm":
            s = asked.get("slice")
            await self.house.warm(self.library.path(str(asked.get("key", ""))), s if isinstance(s, int) else 0)
            return JSONResponse({})
        if verb not in ("ready", "whatif", "visibility"):
            raise ConfigError("nothing else can be asked; load the page again")
        return JSONResponse(await self.house.ask(verb, self.library.path(str(asked.get("key", ""))), asked))

    async def keep(self, request: Request) -> Response:
        asked = await _json(request)
        return JSONResponse({"key": await self.house.kept(self.library.path(str(asked.get("key", ""))))})

    async def forget(self, request: Request) -> Response:
        asked = await _json(request)
        await self.house.dropped_away(self.library.path(str(asked.get("key", ""))))
        return JSONResponse({})

    async def drop(self, request: Request) -> Response:
        """The body is the file; it goes to the disk as it comes. into: the key of one that it belongs to."""
        limit = self.house.settings.upload_bytes
        name, into = plain_name(request.query_params.get("name", "")), request.query_params.get("into")
        if (told := request.headers.get("content-length", "")).isdecimal() and int(told) > limit:
            raise TooLargeError(_too_large(name, limit))
        folder = self.library.path(into).parent if into else new_drop(self.library)
        if self.library.is_kept(folder):
            raise ConfigError("files are dropped into this session, not into a folder of yours")
        path = folder / name
        try:
            await _stored(request, path, limit)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        return JSONResponse({"key": self.library.key(path), "name": name, "bytes": path.stat().st_size})

    async def events(self, request: Request) -> Response:
        """Server-sent events: every job as it is now, then whenever it changes."""
        jobs = self.house.jobs
        queue = jobs.listen()

        async def lines() -> AsyncIterator[bytes]:
            try:
                yield b": here\n\n"
                while True:
                    try:
                        told = await asyncio.wait_for(queue.get(), ALIVE)
                        yield f"event: job\ndata: {json.dumps(told)}\n\n".encode()
                    except TimeoutError:
                        yield b": alive\n\n"
            finally:
                jobs.listeners.discard(queue)

        return StreamingResponse(lines(), media_type="text/event-stream")

    def _path(self, request: Request) -> str:
        return str(self.library.path(request.query_params.get("key", "")))


class TooLargeError(BayesMRIError):
    """More bytes than may be dropped."""


def asset(name: str) -> str:
    return (resources.files("bayesmri.app") / "web" / name).read_text(encoding="utf-8")


def _told(endpoint: Endpoint) -> Endpoint:
    """What a user can mend is one line, as on the command line."""

    async def inner(request: Request) -> Response:
        try:
            return await endpoint(request)
        except BayesMRIError as error:
            status = {OutsideError: 403, TooLargeError: 413}.get(type(error), 400)
            return JSONResponse({"error": one_line(error, limit=1000)}, status_code=status)
        except ClientDisconnect:
            return Response(status_code=400)
        except FileNotFoundError:
            return JSONResponse({"error": "the file is not there any more: list the files again"}, status_code=404)
        except OSError as error:
            return JSONResponse({"error": f"the system refused: {one_line(error.strerror)}"}, status_code=500)

    return inner


async def _json(request: Request) -> dict[str, Any]:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > JSON_MAX:
            raise TooLargeError(f"got a request of more than {JSON_MAX} bytes; load the page again")
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ConfigError("got a request that is no JSON; load the page again") from error
    if not isinstance(found, dict):
        raise ConfigError("got a request that is no table; load the page again")
    return found


async def _stored(request: Request, path: Path, limit: int) -> None:
    size, waiting = 0, bytearray()
    with path.open("xb") as file:
        async for chunk in request.stream():
            size += len(chunk)
            if size > limit:
                raise TooLargeError(_too_large(path.name, limit))
            waiting += chunk
            if len(waiting) >= BUFFER:
                await asyncio.to_thread(file.write, bytes(waiting))
                waiting.clear()
        await asyncio.to_thread(file.write, bytes(waiting))
    if size == 0:
        raise ConfigError(f"{one_line(path.name)} is empty, expected a scan or a result")


def _too_large(name: str, limit: int) -> str:
    return f"{one_line(name)} is larger than {human(limit)}; open it by its path, or start with a larger --upload-gb"


def _whole(request: Request, name: str) -> int:
    text = request.query_params.get(name, "")
    if not text.isdecimal() or len(text) > 6:
        raise ConfigError(f"got the {name} {one_line(text, limit=20)!r}, expected a whole number")
    return int(text)
