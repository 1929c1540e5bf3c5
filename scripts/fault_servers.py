"""Servers that are killed, and whose children and clients are: `bayesmri app` and `bayesmri serve --mrd`."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayesmri.evaluation.verify import verify
from bayesmri.io.atomic import TEMPORARY
from fault_tools import Bench, Ended, Row, good, run

TOKEN = "a-token-for-the-campaign"
SECONDS = 300.0  # a busy machine is no fault


class Server:
    """`bayesmri WORDS` in a process of its own, which prints where it listens in its first line."""

    def __init__(self, log: Path, *words: str) -> None:
        self.log, self.scratch = log, log.with_suffix(".tmp")
        self.scratch.mkdir(exist_ok=True)
        with log.open("w") as said:
            command, own = [sys.executable, "-m", "bayesmri", *words], {**os.environ, "TMPDIR": str(self.scratch)}
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True, env=own)
        assert self.process.stdout is not None
        self.first = self.process.stdout.readline()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    @property
    def lives(self) -> bool:
        return self.process.poll() is None

    def ended(self, code: int = 0) -> Ended:
        """What it printed, as the end of a command."""
        return Ended(code, self.log.read_text(errors="replace"))


class App(Server):
    def __init__(self, folder: Path, log: Path) -> None:
        super().__init__(log, "app", str(folder), "--no-open", "--port", "0", "--token", TOKEN)
        self.address = self.first.removeprefix("open ").strip().removesuffix("/")

    def ask(self, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        origin = "/".join(self.address.split("/")[:3])
        asked = urllib.request.Request(f"{self.address}/api/{path}", data, {"origin": origin})
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(asked, timeout=SECONDS) as answer:
            return json.loads(answer.read())

    def begin(self) -> int:
        """A job on the scan."""
        sampling, options = {"acceleration": 4.0}, {"method": "tv"}
        return int(self.ask("run", {"key": "0/scan.h5", "options": options, "sampling": sampling})["id"])

    def ended_job(self, number: int) -> dict[str, Any]:
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            found: dict[str, Any] = self.ask(f"job?id={number}")
            if found["state"] not in ("waiting", "running"):
                return found
            time.sleep(0.05)
        return {"state": "endless"}

    def child(self) -> int | None:
        """The process that reconstructs."""
        for path in Path("/proc").glob("[0-9]*"):
            try:
                parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
                if parent == self.process.pid and b"bayesmri.app.running" in (path / "cmdline").read_bytes():
                    return int(path.name)
            except (OSError, ValueError, IndexError):
                continue
        return None


@contextmanager
def ended(server: Server) -> Iterator[None]:
    """It does not outlive the trial."""
    try:
        yield
    finally:
        server.kill()


def folder_of(bench: Bench, name: str) -> Path:
    """With a scan of eight slices, so that there is time to be killed in."""
    folder = bench.home / name
    folder.mkdir(exist_ok=True)
    if not (folder / "scan.h5").exists():
        size = ["--size", "96x96", "--slices", "8", "--coils", "1"]
        good(run(["simulate", "--phantom", "knee", *size, "-o", str(folder / "scan.h5")]))
    return folder


def unsound(folder: Path) -> bool:
    """A result that is not whole, or something half-written that nobody will sweep."""
    left = [path for path in folder.iterdir() if TEMPORARY.match(path.name)]
    return bool(left) or not all(verify(path).whole for path in folder.glob("*.recon.h5"))


def kill_app_jobs(bench: Bench) -> Row:
    """The process of a job is killed at any time: the job has failed, the application lives, the next one is done."""
    row, folder = Row("kill jobs of the application"), folder_of(bench, "app")
    server = App(folder, bench.home / "app.log")
    with ended(server):
        for _ in range(bench.n(1, 20)):
            number, wait = server.begin(), bench.rng.uniform(0, 2.5)
            until = time.monotonic() + wait
            while time.monotonic() < until and server.ask(f"job?id={number}")["state"] in ("waiting", "running"):
                time.sleep(0.02)
            child = server.child()
            if child is not None:
                os.kill(child, signal.SIGKILL)
            found = server.ended_job(number)
            again = server.ended_job(server.begin())
            lost = found["state"] not in ("failed", "done") or again["state"] != "done" or not server.lives
            row.add(
                server.ended(), lost=lost or unsound(folder), what=f"job killed after {wait:.2f} s: {found}, {again}"
            )
    return row


def kill_app_server(bench: Bench) -> Row:
    """The application itself is killed while a job runs: begun again it lists whole results alone, and goes on."""
    row, folder = Row("kill the application"), folder_of(bench, "app")
    for _ in range(bench.n(1, 10)):
        server, wait = App(folder, bench.home / "app.log"), bench.rng.uniform(0, 2.0)
        with ended(server):
            server.begin()
            time.sleep(wait)
            child = server.child()
        first = server.ended()
        if child is not None:  # nobody hears it any more; it ends with what it does
            _gone(child)
        server = App(folder, bench.home / "app.log")
        with ended(server):
            results = server.ask("files")["results"]
            found = server.ended_job(server.begin())
            lost = found["state"] != "done" or len(results) != len(list(folder.glob("*.recon.h5"))) - 1
            lost |= len(list(server.scratch.glob("bayesmri-app-*"))) != 1  # what was dropped into the one that died
        row.add(first, lost=lost or unsound(folder), what=f"killed after {wait:.2f} s: {found}")
    return row


def _gone(pid: int) -> None:
    until = time.monotonic() + SECONDS
    while Path(f"/proc/{pid}").exists() and time.monotonic() < until:
        time.sleep(0.05)


def mrd_server(bench: Bench) -> tuple[Server, str]:
    server = Server(bench.home / "serve.log", "serve", "--mrd", "--port", "0", "--method", "tv")
    return server, server.first.partition("listening on ")[2].split()[0]


def stream_words(folder: Path, address: str) -> list[str]:
    return ["stream", str(folder / "scan.h5"), address, "-o", str(folder / "out.h5"), "--force"]


def kill_stream_client(bench: Bench) -> Row:
    """A client is killed in the middle of its scan: the server lives and gives the next one all images."""
    row, folder = Row("kill clients of a stream"), folder_of(bench, "stream")
    server, address = mrd_server(bench)
    with ended(server):
        began = time.monotonic()
        good(run(stream_words(folder, address)))
        most = time.monotonic() - began
        whole = (folder / "out.h5").read_bytes()
        for _ in range(bench.n(1, 20)):
            wait = bench.rng.uniform(0, most)
            killed = run(stream_words(folder, address), kill_after=wait)
            kept = (folder / "out.h5").read_bytes() == whole
            again = run(stream_words(folder, address))
            lost = not kept or again.code != 0 or not server.lives
            row.add(again, lost=lost, what=f"client killed after {wait:.2f} s ({killed.code})")
            row.tracebacks += killed.traceback or server.ended().traceback
            whole = (folder / "out.h5").read_bytes()
    return row


@dataclass
class Killer:
    """Of a server, some time after the second client connected."""

    server: Server
    wait: float
    since: float | None = None

    def __call__(self, spent: float) -> None:
        if self.since is None and self.server.ended().said.count(": connected") > 1:
            self.since = spent
        if self.since is not None and spent > self.since + self.wait and self.server.lives:
            self.server.process.kill()


def kill_stream_server(bench: Bench) -> Row:
    """The server is killed in the middle of a scan: the client says so in a line, and what it had written stays."""
    row, folder = Row("kill the server of a stream"), folder_of(bench, "stream")
    for _ in range(bench.n(1, 10)):
        server, address = mrd_server(bench)
        with ended(server):
            good(run(stream_words(folder, address)))
            whole, wait = (folder / "out.h5").read_bytes(), bench.rng.uniform(0, 0.5)
            client = run(stream_words(folder, address), meanwhile=Killer(server, wait))
        kept = (folder / "out.h5").read_bytes() == whole or client.code == 0
        lines = [line for line in client.said.splitlines() if line.startswith("bayesmri: ")]
        lost = not kept or client.code not in (0, 2) or len(lines) != (client.code == 2)
        row.add(client, lost=lost, what=f"server killed after {wait:.2f} s")
    return row
