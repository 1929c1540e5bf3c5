"""What a reader of an image should know, on two levels; assembled once, and written wherever the image goes."""

from collections.abc import Iterable
from dataclasses import dataclass

from bayesmri.errors import StrictError


@dataclass(frozen=True)
class Messages:
    """One sentence each, none twice.

    notes: what was done or assumed. warnings: what may make the image, or what is said of it, wrong.
    """

    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def __add__(self, other: "Messages") -> "Messages":
        return Messages(_once(self.notes + other.notes), _once(self.warnings + other.warnings))

    def as_json(self) -> dict[str, list[str]]:
        return {"notes": list(self.notes), "warnings": list(self.warnings)}

    def check(self, *, strict: bool) -> None:
        """Under --strict a warning is an error."""
        if strict and self.warnings:
            raise StrictError(self.warnings)


NOTHING = Messages()


def noted(*texts: str) -> Messages:
    """Notes alone."""
    return Messages(notes=_once(texts))


def warned(*texts: str) -> Messages:
    """Warnings alone."""
    return Messages(warnings=_once(texts))


def _once(texts: Iterable[str]) -> tuple[str, ...]:
    """In one line each, in the order in which they came."""
    return tuple(dict.fromkeys(" ".join(text.split()) for text in texts))
