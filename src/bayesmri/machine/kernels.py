"""Kernels in C, compiled once per machine: what is quicker than torch, for those who have a compiler.

Optional: without one the plain path runs, slower but equal. No torch here.
"""

import ctypes
import hashlib
import logging
import os
import platform
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

_log = logging.getLogger(__name__)
FLAGS = ("-O3", "-march=native", "-fno-math-errno", "-shared", "-fPIC", "-pthread", "-w")
HEADER = Path(__file__).with_name("vectors.h")
SWITCH = "BAYESMRI_KERNELS"  # "off" takes the plain path


@cache
def compiled(*sources: Path) -> ctypes.CDLL | None:
    """The library made of these; None, and one line in the log, where it cannot be had."""
    compiler = _compiler()
    if compiler is None:
        return None
    try:
        return ctypes.CDLL(str(_made(compiler, sources)))
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:  # no home folder is a RuntimeError
        reason = str(error).partition("\n")[0]
        _log.warning("%s does not compile (%s): torch does its work, slower but equal", sources[0].name, reason)
        return None


@cache
def _compiler() -> str | None:
    if os.environ.get(SWITCH) == "off":
        return None
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        _log.warning("no C compiler found: torch does all the work, slower but equal")
    return compiler


def _made(compiler: str, sources: tuple[Path, ...]) -> Path:
    """The library in the user's cache, by what it was made of: sources, flags, compiler and processor."""
    texts = (path.read_text(encoding="utf-8") for path in (HEADER, *sources))
    made_of = "\n".join((*texts, *FLAGS, compiler, _processor()))
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bayesmri"
    target = home / f"kernels-{hashlib.sha256(made_of.encode()).hexdigest()[:16]}.so"
    if target.is_file():
        return target
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(dir=home) as folder:
        fresh = Path(folder) / target.name
        files = [str(path) for path in sources if path.suffix == ".c"]
        command = [*compiler.split(), *FLAGS, f"-I{HEADER.parent}", "-o", str(fresh), *files]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        fresh.replace(target)
    return target


def _processor() -> str:
    """What -march=native means here: homes are shared between machines."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.machine() + platform.processor()
    return "".join(next((line for line in lines if line.startswith(name)), "") for name in ("model name", "flags"))
