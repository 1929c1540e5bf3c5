"""Bytes in and out of a socket, each within its time: whoever sends or reads too slowly is given up."""

import queue
import select
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from bayesmri.errors import BayesMRIError
from bayesmri.stream.layout import ID_BYTES
from bayesmri.stream.limits import BYTES_PER_SECOND

CHUNK = 1 << 20


class GoneError(BayesMRIError):
    """The other side has left, or is too slow."""


class Incoming:
    """What arrives. message: seconds for one that has begun, and more where it is large."""

    def __init__(self, sock: socket.socket, *, message: float) -> None:
        self.sock = sock
        self.message = message
        self.until = 0.0

    def begin(self, idle: float) -> int | None:
        """The id of the next message, waited for that long; None where the other side has ended in order."""
        self.until = time.monotonic() + idle
        raw = bytearray(ID_BYTES)
        if not self._some(memoryview(raw)[:1]):
            return None
        self.until = time.monotonic() + self.message
        self._fill(memoryview(raw)[1:])
        found: int = struct.unpack("<H", raw)[0]
        return found

    def ready(self, seconds: float) -> bool:
        """Whether anything arrives within that time."""
        poll = select.poll()  # which takes any number of descriptors, unlike select
        poll.register(self.sock, select.POLLIN)
        return bool(poll.poll(1000 * seconds))

    def take(self, n: int) -> bytearray:
        self.until += n / BYTES_PER_SECOND
        raw = bytearray(n)
        self._fill(memoryview(raw))
        return raw

    def skip(self, n: int) -> None:
        self.until += n / BYTES_PER_SECOND
        raw = memoryview(bytearray(min(n, CHUNK)))
        while n:
            part = raw[: min(n, CHUNK)]
            self._fill(part)
            n -= len(part)

    def _fill(self, into: memoryview) -> None:
        done = 0
        while done < len(into):
            got = self._some(into[done:])
            if not got:
                raise GoneError("the connection ended in the middle of a message")
            done += got

    def _some(self, into: memoryview) -> int:
        left = self.until - time.monotonic()
        if left <= 0:
            raise GoneError("the other side was too slow, or silent for too long")
        self.sock.settimeout(left)
        try:
            return self.sock.recv_into(into)
        except TimeoutError as error:
            raise GoneError("the other side was too slow, or silent for too long") from error
        except OSError as error:
            raise GoneError("the connection broke") from error


class Outgoing:
    """What is sent, by a thread of its own: nobody else waits for a client that does not read.

    on_sent: called with the bytes of each message that left, or was given up.
    """

    def __init__(self, sock: socket.socket, *, stalled: float, on_sent: Callable[[int], None]) -> None:
        self.sock = sock.dup()  # with a time-out of its own
        self.stalled = stalled
        self.on_sent = on_sent
        self.waiting: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self.broken = threading.Event()
        self.thread = threading.Thread(target=self._run, name="stream-out", daemon=True)
        self.thread.start()

    def put(self, message: bytes) -> None:
        self.waiting.put(message)

    def finish(self, seconds: float) -> bool:
        """After all that was put; whether it left in time."""
        self.waiting.put(None)
        self.thread.join(seconds)
        if self.thread.is_alive():
            self.broken.set()
            with suppress(OSError):
                self.sock.shutdown(socket.SHUT_RDWR)
        return not self.broken.is_set()

    def _run(self) -> None:
        try:
            while (message := self.waiting.get()) is not None:
                if not self.broken.is_set():
                    self._send(memoryview(message))
                self.on_sent(len(message))
        finally:
            self.sock.close()

    def _send(self, left: memoryview) -> None:
        """Something must leave within `stalled` seconds, again and again."""
        try:
            self.sock.settimeout(self.stalled)
            while left:
                left = left[self.sock.send(left[:CHUNK]) :]
        except OSError:  # a time-out is one, too
            self.broken.set()
