"""What strangers wrote, within bounds: JSON of limited size and depth with finite numbers, text on one line."""

import json
import math
import re
from pathlib import Path
from typing import Any, NoReturn

MOST_BYTES = 16 * 2**20  # of a JSON file; the largest of ours is a hundredth of it
DEEPEST = 32  # levels of lists and tables
# what a terminal obeys or a reader does not see: controls, directions of writing, separators of lines
UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


def one_line(text: object, *, limit: int = 300) -> str:
    """Printable characters only, on one line: strings from files may hold escapes that a terminal would obey."""
    known = str(text).encode("utf-8", "backslashreplace").decode()  # bytes of names that are no text stay told apart
    flat = re.sub(r"\s+", " ", known).strip()
    clean = "".join(c if c.isprintable() else "?" for c in flat[: 4 * limit])
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"


def printable(text: str) -> str:
    """Lines and tabs stay; what a terminal would obey becomes a question mark."""
    return UNSEEN.sub("?", text)


def cleaned(value: Any) -> Any:
    """JSON values whose texts are printable and on one line each."""
    if isinstance(value, str):
        return UNSEEN.sub("?", value.replace("\n", " ").replace("\t", " "))
    if isinstance(value, dict):
        return {cleaned(key): cleaned(item) for key, item in value.items()}
    return [cleaned(item) for item in value] if isinstance(value, list | tuple) else value


def read_bytes(path: Path, most: int) -> bytes:
    """The file's bytes; a ValueError where there are more than `most`, of which no more is read."""
    with path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"it is larger than {most / 2**20:.0f} MiB")
    return content


def json_of(content: bytes) -> Any:
    """The value of JSON text; a ValueError says in a few words what is wrong with it."""
    try:
        value = json.loads(content.decode("utf-8"), parse_constant=_not_a_number)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except UnicodeDecodeError as error:
        raise ValueError("it is not text") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON, at character {error.pos}") from error
    _check(value)
    return value


def read_json(path: Path) -> Any:
    return json_of(read_bytes(path, MOST_BYTES))


def _not_a_number(word: str) -> NoReturn:
    raise ValueError(f"it holds {word}")


def _check(value: Any) -> None:
    """Finite numbers, and no more levels than anybody needs."""
    level, depth = [value], 0
    while level:
        if depth > DEEPEST:
            raise ValueError("it is nested too deeply")
        depth += 1
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                below += item.values()
            elif isinstance(item, list):
                below += item
            elif isinstance(item, float) and not math.isfinite(item):
                raise ValueError("it holds a number that is not finite")
        level = below
