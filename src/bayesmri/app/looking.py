"""The child that says what a file is, as `bayesmri inspect` does: the file is read in a further child with limits."""

from pathlib import Path
from typing import Any

from bayesmri.app.frames import Say, Told, answer
from bayesmri.io.inspect import inspect_file


def inspect(asked: Told, say: Say) -> dict[str, Any]:
    """JSON values."""
    return inspect_file(Path(asked["path"]), trusted=False).as_json()


if __name__ == "__main__":
    answer({"inspect": inspect})
