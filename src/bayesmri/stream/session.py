"""One client's session, from its configuration to the close of both sides."""

import select
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from bayesmri.errors import BayesMRIError, FormatError
from bayesmri.io.guard import one_line
from bayesmri.io.ismrmrd_xml import Encoding, parse_header
from bayesmri.io.mrd.trajectory import check_trajectory
from bayesmri.messages import Messages, noted
from bayesmri.stream import layout
from bayesmri.stream.gather import Complete, Gatherer
from bayesmri.stream.limits import BYTES_PER_SECOND, MOST_ERRORS, Allowance, Limits
from bayesmri.stream.messages import (
    CLOSED,
    OVERHEAD,
    Close,
    Configuration,
    Header,
    Line,
    Message,
    Name,
    Skipped,
    Text,
    packed_image,
    packed_text,
    read_message,
)
from bayesmri.stream.parameters import Terms, Wish, by_name, by_text
from bayesmri.stream.pictures import Scales, pictures
from bayesmri.stream.transport import GoneError, Incoming, Outgoing
from bayesmri.stream.turns import Turns, Worker
from bayesmri.stream.work import Studio

DRAIN_SECONDS = 2.0
GRACE = 0.2  # seconds in which a line may still follow the one that is flagged as the last
MOST_POINTS = 8 * 2**20  # of an encoded slice: 2048 x 2048 with an oversampled readout


class GaveUpError(Exception):
    """Work for a client that has gone."""


@dataclass(frozen=True, eq=False)
class Desk:
    """What all sessions share. say: one line for the log."""

    terms: Terms
    limits: Limits
    turns: Turns
    studio: Studio
    say: Callable[[str], None]


class Session:
    def __init__(self, sock: socket.socket, number: int, desk: Desk) -> None:
        self.sock, self.number, self.desk = sock, number, desk
        self.allowance = Allowance(desk.limits.share)
        self.outgoing = Outgoing(sock, stalled=desk.limits.stalled, on_sent=self.allowance.give_back)
        self.incoming = Incoming(sock, message=desk.limits.message)
        self.wish: Wish = desk.terms.own
        self.encoding: Encoding | None = None
        self.gatherer: Gatherer | None = None
        self.scales, self.indices = Scales(), dict[str, int]()
        self.worker = Worker(desk.turns, f"stream-{number}-work")
        self.told: set[str] = set()
        self.lines = self.images = self.errors = 0
        self.over = threading.Event()

    def run(self) -> None:
        """Whatever a client does ends here, and ends with this client."""
        began = time.monotonic()
        how = "closed"
        try:
            how = self._converse()
        except GoneError as error:
            how = f"gave up: {error}"
        except BayesMRIError as error:
            how = f"refused: {error}"
            if self.gatherer is not None:
                self._submit(*self.gatherer.flush())
            self.worker.wait()  # what was complete before is sent
            self._text(f"error: {error}")
        except Exception as error:
            how = f"internal error, {type(error).__name__}"
            self._text(f"error: {how}")
        finally:
            how += "" if self._leave() else ", and did not read what it was sent"
            seconds = time.monotonic() - began
            self._say(f"{how}; {self.lines} lines, {self.images} images, {self.errors} errors, {seconds:.1f} s")

    def abort(self, why: str) -> None:
        """The server is going: this client is told."""
        self._text(f"error: {why}")
        self.over.set()
        self.worker.stop()
        self.allowance.close()
        with suppress(OSError):
            self.sock.shutdown(socket.SHUT_RD)

    def _converse(self) -> str:
        limits = self.desk.limits
        while True:
            if self.gatherer is not None and self.gatherer.ending and not self.incoming.ready(GRACE):
                self._submit(*self.gatherer.flush())
            kind = self.incoming.begin(limits.greeting if self.encoding is None else limits.idle)
            if self.over.is_set():
                return "stopped"
            if kind is None:
                self._tell(noted("the connection ended without a close message (id 4): unfinished slices were left"))
                if self.gatherer is not None:
                    self._submit(*self.gatherer.flush())
                how = "ended without a close message"
                break
            message = read_message(kind, self.incoming, allow=self._allow)
            if isinstance(message, Close):
                if self.gatherer is not None:
                    self._submit(*self.gatherer.rest())
                how = "closed"
                break
            self._take(message)
            if self.outgoing.broken.is_set():
                raise GoneError("the other side does not read")
        self.worker.wait()
        return how

    def _take(self, message: Message) -> None:
        if isinstance(message, Line):
            self._line(message)
        elif isinstance(message, Name):
            self._configure(partial(by_name, message.text))
        elif isinstance(message, Configuration):
            self._configure(partial(by_text, message.text))
        elif isinstance(message, Header):
            self._header(message.xml)
        elif isinstance(message, Text) and not self.lines and message.text.lstrip().startswith("{"):
            self._configure(partial(by_text, message.text))  # parameters beside a name, as python-ismrmrd-server has it
        elif isinstance(message, Skipped):
            self._tell(noted(f"{message.kind} that were sent are not used"))

    def _configure(self, read: Callable[[Terms, Wish], tuple[Wish, Messages]]) -> None:
        if self.lines:
            raise FormatError("got a configuration after the first acquisition, expected it before; connect again")
        self.wish, said = read(self.desk.terms, self.wish)
        self._tell(said)
        if self.encoding is not None:
            self.gatherer = Gatherer(self.encoding, whole=self.wish.scale == "volume")

    def _header(self, xml: str) -> None:
        if self.lines:
            raise FormatError("got a second header after the first acquisition, expected one; connect again")
        self.encoding = parse_header(xml, name="the header")
        check_trajectory(self.encoding)
        _check_size(self.encoding)
        self.gatherer = Gatherer(self.encoding, whole=self.wish.scale == "volume")

    def _line(self, line: Line) -> None:
        if self.gatherer is None:
            raise FormatError("got an acquisition before the header (id 3), expected the header first")
        self.lines += 1
        complete = self.gatherer.add(line)
        if self.gatherer.shed:
            self.allowance.release(self.gatherer.shed)
            self.gatherer.shed = 0
        self._submit(*complete)
        if self.errors > MOST_ERRORS:
            raise FormatError(f"got {self.errors} images that cannot be reconstructed, expected few; mend the data")

    def _allow(self, n: int) -> None:
        """Memory for a line; time spent in waiting for it is not the client's."""
        began = time.monotonic()
        self.allowance.take(n + OVERHEAD)
        self.incoming.until += time.monotonic() - began

    def _submit(self, *images: Complete) -> None:
        assert self.encoding is not None
        for complete in images:
            self.allowance.promise(complete.freed)
            self.worker.submit(partial(self._work, complete, self.encoding, self.wish))

    def _work(self, complete: Complete, encoding: Encoding, wish: Wish) -> None:
        """One image, in the worker's thread, when it is its turn."""
        try:
            self._on_step()
            made = self.desk.studio.make(complete, encoding, wish, self._on_step)
            self._tell(Messages(made.result.notes, made.result.warnings))
            for image in pictures(
                made.result, made.heads, made.grid, self.scales, pixels=wish.pixels, indices=self.indices
            ):
                self._send(packed_image(image))
                self.images += 1
        except GaveUpError:
            pass
        except BayesMRIError as error:
            self._failed(f"{complete.key}: {error}")
        except Exception as error:
            self._say(f"internal error, {type(error).__name__}")
            self._failed(f"{complete.key}: {_explained(error)}")
        finally:
            self.allowance.give_back(complete.freed)

    def _on_step(self) -> None:
        self.desk.turns.others_first()
        if self.over.is_set() or self.outgoing.broken.is_set() or _reset(self.sock):
            raise GaveUpError

    def _failed(self, text: str) -> None:
        self.errors += 1
        self._text(f"error: {text}")

    def _tell(self, said: Messages) -> None:
        """Every sentence once."""
        for word, texts in (("note", said.notes), ("warning", said.warnings)):
            for text in texts:
                if text not in self.told:
                    self.told.add(text)
                    self._text(f"{word}: {text}")

    def _text(self, text: str) -> None:
        if self.wish.texts:
            self._send(packed_text(layout.TEXT, one_line(text, limit=2000)))

    def _send(self, message: bytes) -> None:
        self.allowance.hold(len(message))
        self.outgoing.put(message)

    def _say(self, text: str) -> None:
        self.desk.say(f"client {self.number}: {one_line(text, limit=400)}")

    def _leave(self) -> bool:
        """What was made is sent, then the close message; a client that still sends is heard out for a moment.

        Whether it all left.
        """
        self._send(CLOSED)
        waiting = max(0, self.allowance.held)
        sent = self.outgoing.finish(self.desk.limits.stalled + waiting / BYTES_PER_SECOND)
        self.over.set()
        self.worker.stop()
        self.allowance.close()
        drain(self.sock)
        return sent


def _check_size(encoding: Encoding) -> None:
    """Of what one step of a reconstruction takes, during which nobody else has a turn."""
    x, y, _ = encoding.matrix or (1, 1, 1)
    if x * y > MOST_POINTS:
        raise FormatError(f"got an encoded matrix of {x} x {y}, expected at most {MOST_POINTS} points in a slice")


def drain(sock: socket.socket) -> None:
    """Closed without a reset, which would take from the other side what it has not read yet."""
    until = time.monotonic() + DRAIN_SECONDS
    with suppress(OSError):
        sock.shutdown(socket.SHUT_WR)
    while (left := until - time.monotonic()) > 0:
        sock.settimeout(left)
        try:
            if not sock.recv(1 << 16):
                break
        except OSError:
            break
    sock.close()


def _reset(sock: socket.socket) -> bool:
    """Whether the other side has gone altogether, as far as the system knows."""
    try:
        poll = select.poll()
        poll.register(sock, select.POLLERR | select.POLLHUP)
        return bool(poll.poll(0))
    except (OSError, ValueError):
        return True


def _explained(error: Exception) -> str:
    memory = isinstance(error, MemoryError) or "memory" in str(error)
    return "out of memory; send smaller images" if memory else f"internal error, {type(error).__name__}"
