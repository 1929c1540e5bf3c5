"""Who is told how far a batch is."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, final

from bayesmri.recon.files import Progress


class Meter(Protocol):
    """Over volumes and the slices of each."""

    def start(self, sizes: Mapping[str, int]) -> AbstractContextManager[None]:
        """The volumes to come, by name, with their bytes."""
        ...

    def slices(self, name: str) -> Progress | None:
        """For the volume that begins."""
        ...

    def end(self, name: str, *, worked: bool) -> None:
        """worked: it was reconstructed, and not finished before."""
        ...

    def say(self, text: str) -> None:
        """One line that does not wait for the summary."""
        ...


@final
class Silent:
    def start(self, sizes: Mapping[str, int]) -> AbstractContextManager[None]:
        return nullcontext()

    def slices(self, name: str) -> Progress | None:
        return None

    def end(self, name: str, *, worked: bool) -> None:
        pass

    def say(self, text: str) -> None:
        pass


SILENT = Silent()
Say = Callable[[str], None]
