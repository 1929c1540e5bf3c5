"""The listening socket: every client gets a thread, none more than its share, and all are told when the server goes."""

import errno
import select
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from bayesmri.errors import ConfigError
from bayesmri.io.guard import byte_budget
from bayesmri.stream import layout
from bayesmri.stream.limits import Limits
from bayesmri.stream.messages import CLOSED, packed_text
from bayesmri.stream.parameters import Terms
from bayesmri.stream.session import Desk, Session, drain
from bayesmri.stream.turns import Turns
from bayesmri.stream.work import Studio

STOP_SECONDS = 5.0
TICK = 0.5  # seconds
SEND_BUFFER = 256 * 1024  # bytes that the system keeps for a client that does not read
MOST_REFUSALS = 32  # of clients too many, each of whom is told in a thread of its own


class Server:
    """address: (host, port) as it is bound; port 0 takes any that is free."""

    def __init__(self, host: str, port: int, terms: Terms, limits: Limits, say: Callable[[str], None]) -> None:
        self.limits, self.say = limits, say
        self.listening = _bound(host, port)
        self.address: tuple[str, int] = self.listening.getsockname()[:2]
        studio = Studio(budget=min(byte_budget(), limits.share))
        self.desk = Desk(terms, limits, Turns(), studio, say)
        self.sessions: dict[Session, threading.Thread] = {}
        self.refusing: list[threading.Thread] = []
        self.count = 0
        self.ear, self.bell = socket.socketpair()

    def serve(self) -> None:
        """Until `stop` is called, from a signal's handler or another thread."""
        self.listening.setblocking(False)
        try:
            while self.ear not in (ready := select.select([self.listening, self.ear], [], [])[0]):
                if ready:
                    self._accept()
        finally:
            self.listening.close()
            self._leave()
            self.ear.close()
            self.bell.close()

    def stop(self) -> None:
        with suppress(OSError):  # where it has stopped already
            self.bell.send(b"!")

    def _accept(self) -> None:
        try:
            sock, _ = self.listening.accept()
        except OSError as error:  # a client that left at once, or no file descriptor is left
            if error.errno in (errno.EMFILE, errno.ENFILE):
                self.say("too many files are open: clients wait")
                time.sleep(TICK)
            return
        try:
            self._welcome(sock)
        except (OSError, RuntimeError) as error:  # it has left already; or no thread or descriptor can be had
            self.say(f"a client could not be taken: {type(error).__name__}")
            sock.close()

    def _welcome(self, sock: socket.socket) -> None:
        self.sessions = {session: thread for session, thread in self.sessions.items() if thread.is_alive()}
        if len(self.sessions) >= self.limits.clients:
            self._refuse(sock)
            return
        self.count += 1
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        session = Session(sock, self.count, self.desk)
        thread = threading.Thread(target=session.run, name=f"stream-{self.count}", daemon=True)
        self.sessions[session] = thread
        self.say(f"client {self.count}: connected")
        thread.start()

    def _refuse(self, sock: socket.socket) -> None:
        self.say(f"a client was refused: {self.limits.clients} are connected, and no more are taken (--clients)")
        self.refusing = [thread for thread in self.refusing if thread.is_alive()]
        if len(self.refusing) >= MOST_REFUSALS:
            sock.close()
            return
        text = f"error: {self.limits.clients} clients are connected, and no more are taken; try again later"
        sock.settimeout(TICK)
        with suppress(OSError):
            sock.sendall(packed_text(layout.TEXT, text) + CLOSED)
        self.refusing.append(threading.Thread(target=drain, args=(sock,), daemon=True))
        self.refusing[-1].start()

    def _leave(self) -> None:
        for session in self.sessions:
            session.abort("the server was stopped")
        for thread in self.sessions.values():
            thread.join(STOP_SECONDS)


def _bound(host: str, port: int) -> socket.socket:
    if not 0 <= port <= 65_535:
        raise ConfigError(f"got the port {port}, expected one from 0 to 65535, such as 9002")
    try:
        family, _, _, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(where[:2], family=family, backlog=16)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"cannot listen on {host}:{port} ({reason}): choose another host or --port") from error
