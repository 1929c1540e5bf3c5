"""What was found of a patient in a file: where, how surely it identifies, and its value."""

from dataclasses import dataclass
from typing import Literal

from bayesmri.io.guard import one_line

Sure = Literal["identifies", "may identify"]
VALUE = 120  # characters of a value that are shown
MOST = 500  # findings of one file


@dataclass(frozen=True)
class Finding:
    sure: Sure
    place: str
    value: str

    def as_json(self) -> dict[str, str]:
        return {"sure": self.sure, "place": self.place, "value": self.value}


def finding(sure: Sure, place: object, value: object) -> Finding:
    """Texts from files, made harmless."""
    return Finding(sure, one_line(place, limit=80), one_line(value, limit=VALUE))
