"""The child that reconstructs: one request, outputs whole or not at all, progress as it goes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bayesmri.app.frames import Say, Told, answer
from bayesmri.machine.cores import limit_threads
from bayesmri.machine.memory import keep_memory
from bayesmri.recon.acquisition import Sampling
from bayesmri.recon.files import reconstruct_file
from bayesmri.recon.request import Options


def run(asked: Told, say: Say) -> dict[str, Any]:
    """path, out: of files. options, sampling: by the names of `Options` and `Sampling`."""
    limit_threads(None)
    keep_memory()

    @contextmanager
    def progress(total: int) -> Iterator[Callable[[], None]]:
        done = 0

        def advance() -> None:
            nonlocal done
            done += 1
            say({"done": done, "total": total})

        say({"done": 0, "total": total})
        yield advance

    options = dict(asked["options"])
    options["visibility"] = tuple(options.get("visibility", ()))
    sampling = None if asked["sampling"] is None else Sampling(**asked["sampling"])
    return reconstruct_file(
        Path(asked["path"]), Path(asked["out"]), Options(**options), sampling, trusted=False, progress=progress
    )


if __name__ == "__main__":
    answer({"run": run})
