"""What every campaign of `scripts/faults.py` needs: children that are killed and limited, and rows that count."""

import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

from bayesmri.cli import main as command

torch.set_num_threads(1)  # children are forked: no thread may hold a lock
COMMANDS = ("calibrate", "distill", "evaluate", "inspect", "publish", "recon", "simulate", "stream", "train")
WORK = ("recon.work", "evaluation.publish", "evaluation.table", "training.run_folder", "training.plan")
for _name in (*(f"cli.{name}" for name in COMMANDS), *WORK, "evaluation.calibrate", "evaluation.distill"):
    import_module(f"bayesmri.{_name}")  # what children need is here before
NOBODY, PATIENCE = 65534, 300.0
COUNTED = ("replace", "link", "unlink", "fsync", "mkdir", "rmdir", "write")
CONFIG = Path(__file__).resolve().parents[1] / "tests" / "tiny.toml"


@dataclass(frozen=True)
class Ended:
    """code: of the exit, negative for a signal. said: on both streams."""

    code: int
    said: str

    @property
    def traceback(self) -> bool:
        return "Traceback (most recent" in self.said or "internal error" in self.said

    @property
    def raw(self) -> bool:
        """Something that a terminal obeys was printed."""
        return any(c in self.said for c in "\x1b\x07\x9b")


@dataclass
class Row:
    """One campaign."""

    name: str
    trials: int = 0
    lost: int = 0
    tracebacks: int = 0
    silent: int = 0
    notes: list[str] = field(default_factory=list)

    def add(self, ended: Ended | None = None, *, lost: bool = False, silent: bool = False, what: str = "") -> None:
        self.trials += 1
        self.lost += lost
        self.silent += silent
        self.tracebacks += bool(ended and (ended.traceback or ended.raw))
        if lost or silent or (ended and (ended.traceback or ended.raw)):
            self.notes.append(f"{what}: {'' if ended is None else ended.said.strip()[-300:]}")

    @property
    def clean(self) -> bool:
        return not (self.lost or self.tracebacks or self.silent)


def run(
    words: list[str],
    *,
    kill_at: int | None = None,
    kill_after: float | None = None,
    meanwhile: Callable[[float], None] | None = None,
    **limits: Any,
) -> Ended:
    """`bayesmri WORDS` in a child of this process, which has imported all it needs.

    meanwhile: called again and again with the seconds that it has taken.
    limits: file_bytes, memory_bytes beyond what is used, nobody (an unprivileged user), folder to work in.
    """
    out, name = tempfile.mkstemp(prefix="faults-")
    child = os.fork()
    if child == 0:
        _child(words, out, kill_at, limits)
    began, killed = time.monotonic(), False
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            break
        spent = time.monotonic() - began
        if not killed and (spent > PATIENCE or (kill_after is not None and spent > kill_after)):
            os.kill(child, signal.SIGKILL)
            killed = True
        if meanwhile is not None:
            meanwhile(spent)
        time.sleep(0.005)
    os.close(out)
    said = Path(name).read_text(encoding="utf-8", errors="replace")
    Path(name).unlink()
    return Ended(os.waitstatus_to_exitcode(status), said)


def _child(words: list[str], out: int, kill_at: int | None, limits: dict[str, Any]) -> None:
    code = 70
    try:
        os.dup2(out, 1)
        os.dup2(out, 2)
        os.chdir(limits.get("folder", "."))
        if "file_bytes" in limits:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limits["file_bytes"],) * 2)
        if "memory_bytes" in limits:
            used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
            resource.setrlimit(resource.RLIMIT_AS, (used + limits["memory_bytes"],) * 2)
        if limits.get("nobody"):
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        if kill_at is not None:
            _aim(kill_at)
        code = command(words)
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        import traceback

        traceback.print_exc()
    os._exit(code)


def _aim(kill_at: int) -> None:
    """This process dies before its k-th change of the file system."""
    left = [kill_at]

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **kwargs: Any) -> Any:
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1
            return real(*args, **kwargs)

        return step

    for name in COUNTED:
        setattr(os, name, counted(getattr(os, name)))


def aimed(
    row: Row, words: list[str], folder: Path, fresh: Path, judge: Callable[[], tuple[bool, bool]], ks: list[int]
) -> Row:
    """Kills before each of the moments; `folder` is `fresh` before every trial. judge: (lost, silent)."""
    for k in ks:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(fresh, folder)
        ended = run(words, kill_at=k)
        lost, silent = judge()
        row.add(ended, lost=lost, silent=silent, what=f"killed before change {k}")
        if ended.code == 0:
            break
    return row


def moments(rng: random.Random, n: int, most: int) -> list[int]:
    """The first few, where commands begin to write, and some drawn by lot."""
    return sorted({*range(min(n // 2, most)), *(rng.randrange(most) for _ in range(n - n // 2))})


@dataclass(frozen=True)
class Bench:
    """Files that all campaigns start from."""

    home: Path
    scan: Path
    model: Path
    short: bool
    rng: random.Random

    def n(self, short: int, full: int) -> int:
        return short if self.short else full


def prepared(home: Path, short: bool, seed: int) -> Bench:
    scan, config = home / "scan.h5", home / "tiny.toml"
    shutil.copy(CONFIG, config)
    words = ["simulate", "--phantom", "knee", "--size", "32x32", "--slices", "2", "--coils", "1", "-o", str(scan)]
    good(run(words))
    good(run(["train", str(config), "-o", str(home / "run")]))
    good(run(["publish", str(home / "run"), "tiny", "-o", str(home / "models")]))
    return Bench(home, scan, home / "models" / "tiny.json", short, random.Random(seed))


def good(ended: Ended) -> None:
    """The campaign needs this."""
    if ended.code != 0:
        raise SystemExit(f"the campaign cannot begin: {ended.said}")
