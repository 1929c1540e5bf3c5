"""A child process as the server sees it: asked one thing at a time, replaced when it dies, ended at once."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from bayesmri.app.frames import HEAD, MOST, framed
from bayesmri.errors import BayesMRIError

Progress = Callable[[dict[str, Any]], None]


class ChildError(BayesMRIError):
    """What a child said, or how it died."""


class Child:
    """`python -m module`, started when it is first asked, or by `warm`."""

    def __init__(self, module: str, what: str) -> None:
        self.module, self.what = module, what
        self.process: asyncio.subprocess.Process | None = None
        self.turn = asyncio.Lock()

    async def warm(self) -> asyncio.subprocess.Process:
        if self.process is None or self.process.returncode is not None:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                self.module,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                start_new_session=True,  # so that its own children end with it
            )
        return self.process

    async def ask(self, verb: str, on_progress: Progress | None = None, **asked: Any) -> Any:
        """What it answers; a ChildError says what was wrong, or that it died."""
        async with self.turn:
            process = await self.warm()
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                process.stdin.write(framed({"verb": verb, **asked}))
                await process.stdin.drain()
                while True:
                    head = await process.stdout.readexactly(HEAD.size)
                    size = HEAD.unpack(head)[0]
                    if size > MOST:
                        raise ChildError(f"{self.what} sent {size} bytes, expected at most {MOST}")
                    said = json.loads(await process.stdout.readexactly(size))
                    if "progress" not in said:
                        break
                    if on_progress is not None:
                        on_progress(said["progress"])
            except (asyncio.IncompleteReadError, ConnectionError) as error:
                await self._gone(process)
                raise ChildError(f"{self.what} {_death(process.returncode)}") from error
            except BaseException:  # a request given up: what it still says would be taken for the next answer
                await self.end()
                raise
        if "error" in said:
            raise ChildError(said["error"])
        return said["done"]

    async def end(self) -> None:
        """At once, with whatever it started."""
        process, self.process = self.process, None
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            await self._gone(process)

    @staticmethod
    async def _gone(process: asyncio.subprocess.Process) -> None:
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.shield(process.wait()), 10)


def _death(code: int | None) -> str:
    if code == -signal.SIGKILL:
        return "was ended by the system, most likely for lack of memory"
    how = signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"
    return f"crashed ({how}); nothing else was touched, try again"
