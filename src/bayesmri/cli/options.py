"""Options that several commands share."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter, Token

from bayesmri.errors import ConfigError

Out = Annotated[Path, Parameter(name=["--output", "-o"])]


def _whole(kind: Any, tokens: Sequence[Token]) -> int:
    """cyclopts alone would read 1.5 as 1."""
    try:
        return int(tokens[0].value)
    except ValueError as error:
        raise ValueError(f"{tokens[0].value!r} is not a whole number") from error


Whole = Annotated[int, Parameter(converter=_whole)]


def parse_shape(text: str) -> tuple[int, int]:
    """ "320x256" → (320, 256); one number stands for a square."""
    parts = text.lower().split("x")
    if not 1 <= len(parts) <= 2 or not all(part.isdecimal() for part in parts):
        raise ConfigError(f"size {text!r}: want HxW in pixels, such as 320x320")
    return int(parts[0]), int(parts[-1])
