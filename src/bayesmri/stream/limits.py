"""What one client may take: time, memory, places."""

import os
import threading
from dataclasses import dataclass

from bayesmri.errors import ConfigError, DataError
from bayesmri.io.guard import human

MESSAGE_SECONDS = 30.0  # for a message that has begun; more where it is large
BYTES_PER_SECOND = 100_000  # slower than any network that a scanner is at
STALLED_SECONDS = 600.0  # a client that reads nothing for so long is given up
MOST_ERRORS = 100  # of images; then the session ends


@dataclass(frozen=True)
class Limits:
    """clients: at once. memory: bytes that one of them may have waiting here. idle: seconds between messages.

    greeting: seconds between messages until the header has come. message: seconds for one that has begun.
    stalled: seconds in which a client reads nothing of what it is sent.
    """

    clients: int = 4
    memory: int | None = None
    idle: float = 600.0
    greeting: float = 60.0
    message: float = MESSAGE_SECONDS
    stalled: float = STALLED_SECONDS

    def __post_init__(self) -> None:
        if not 1 <= self.clients <= 1000:
            raise ConfigError(f"got {self.clients} clients, expected from 1 to 1000 at once")
        if not min(self.idle, self.greeting, self.message, self.stalled) > 0:
            raise ConfigError("got a limit of 0 seconds or less, expected a positive time")
        if self.memory is not None and self.memory < 2**20:
            raise ConfigError(f"got {self.memory} bytes for each client, expected at least {2**20}")

    @property
    def share(self) -> int:
        """Bytes for each client: half of the memory of this machine is for all of them, unless it was said."""
        if self.memory is not None:
            return self.memory
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2 // self.clients


class Allowance:
    """Bytes that one client holds here; those of images under way come back by themselves and are waited for."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0
        self.coming_back = 0
        self.changed = threading.Condition()
        self.closed = False

    def take(self, n: int) -> None:
        """Waits while what is under way will make room; refused where it never will."""
        with self.changed:
            while not self.closed and self.held + n > self.limit:
                if self.held - self.coming_back + n > self.limit:
                    raise DataError(
                        f"got {human(self.held - self.coming_back + n)} of lines before an image was complete, "
                        f"expected at most {human(self.limit)} for each client; flag the last line of every slice "
                        "(LAST_IN_SLICE), or give the server more with --memory"
                    )
                self.changed.wait()
            self.held += n

    def promise(self, n: int) -> None:
        """n of the bytes held belong to work that is under way."""
        with self.changed:
            self.coming_back += n

    def hold(self, n: int) -> None:
        """More of what will come back, such as an image that waits to be sent; never refused."""
        with self.changed:
            self.held += n
            self.coming_back += n

    def give_back(self, n: int) -> None:
        with self.changed:
            self.held -= n
            self.coming_back -= n
            self.changed.notify_all()

    def release(self, n: int) -> None:
        """Bytes that were held and are of no use."""
        with self.changed:
            self.held -= n
            self.changed.notify_all()

    def close(self) -> None:
        """Nobody waits any more."""
        with self.changed:
            self.closed = True
            self.changed.notify_all()
