"""A reconstruction in a notebook: the page of the report in a frame, and the application on it."""

import subprocess
import sys
import tempfile
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from bayesmri.errors import OutputError
from bayesmri.io.guard import one_line
from bayesmri.io.provenance import provenance
from bayesmri.io.results import open_result
from bayesmri.machine.optional import needed
from bayesmri.recon.outputs import save
from bayesmri.recon.page_content import content
from bayesmri.recon.reconstruct import Reconstruction

MEGABYTES = 8.0  # of a page in a notebook, which keeps what it shows
HEIGHT = 760  # pixels
NAME = "result.recon.h5"


@dataclass(frozen=True, eq=False)
class Viewing:
    """An application that was started. address: where it is; close: ends it, and forgets its copy of the result."""

    address: str
    process: "subprocess.Popen[str]"
    folder: "tempfile.TemporaryDirectory[str]"

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(30)
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.folder.cleanup()


def frame(result: Reconstruction) -> str:
    """HTML: the page that `bayesmri report` writes, in a frame that can do nothing but show it."""
    with tempfile.TemporaryDirectory(prefix="bayesmri-") as folder:
        path = stored(result, Path(folder))
        with open_result(path) as opened:
            page, _ = content(opened, limit=round(MEGABYTES * 1e6))
    title = escape(f"{result.method}, {len(result.mean)} slices")
    return (
        f'<iframe title="{title}" sandbox="allow-scripts" loading="lazy" width="100%" height="{HEIGHT}" '
        f'style="border:0" srcdoc="{escape(page)}"></iframe>'
    )


def stored(result: Reconstruction, folder: Path) -> Path:
    """The result as `bayesmri recon` would store it; of where it comes from only the method is known here."""
    config = {"method": result.method, "samples": result.n_samples, "fast": result.fast}
    origin = provenance(command="reconstruct", config=config, seed=result.seed, inputs=[])
    path = folder / NAME
    save(result, {"h5": path}, provenance=origin)
    return path


def viewing(result: Reconstruction, *, show: bool = True) -> Viewing:
    """`bayesmri app` on a copy of the result. show: open the browser."""
    for module in ("starlette", "uvicorn"):
        needed(module, extra="app", what="the application")
    folder = tempfile.TemporaryDirectory(prefix="bayesmri-")
    words: list[Any] = ["app", stored(result, Path(folder.name)), "--port", "0", "--open" if show else "--no-open"]
    process = subprocess.Popen(
        [sys.executable, "-m", "bayesmri", *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stderr is not None
    line = process.stdout.readline()
    if not line.startswith("open "):
        said = one_line(process.stderr.read())
        folder.cleanup()
        raise OutputError(f"the application did not start ({said}); try bayesmri app on a stored result")
    process.stderr.close()
    return Viewing(line.removeprefix("open ").strip(), process, folder)
