"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from bayesmri.errors import ConfigError

Out = Annotated[Path, Parameter(name=["--output", "-o"])]


def parse_shape(text: str) -> tuple[int, int]:
    """ "320x256" → (320, 256); one number stands for a square."""
    parts = text.lower().split("x")
    if not 1 <= len(parts) <= 2 or not all(part.isdecimal() for part in parts):
        raise ConfigError(f"size {text!r}: want HxW in pixels, such as 320x320")
    return int(parts[0]), int(parts[-1])
