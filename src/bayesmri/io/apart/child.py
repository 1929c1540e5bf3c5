"""A child process that reads: forked, limited, and heard until it has answered or died."""

import json
import mmap
import os
import select
import signal
import socket
import struct
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from bayesmri.errors import FormatError
from bayesmri.io.apart.limits import Limits, confine, forget
from bayesmri.io.apart.wire import described, dtype_of, packed, packed_error, unpacked, unpacked_error

T = TypeVar("T")
Ask = Callable[[str, tuple[int, ...]], NDArray[Any]]
ADVICE = "it is damaged, or made to do harm; copy or export it again, or read it with --trusted if you know its origin"
CHUNK = 16 * 2**20
ALIGNED = 64
HEAD = struct.Struct("<QQ")  # bytes of JSON, and of arrays that follow it on the line


def apart(work: Callable[[], T], *, name: str, limits: Limits) -> T:
    """work() of a child; a crash of it is one line that names the file."""
    with kept_apart(lambda: nullcontext((work(), None)), name=name, limits=limits) as (value, _):
        return value


@contextmanager
def kept_apart(
    opened: Callable[[], AbstractContextManager[tuple[T, Any]]], *, name: str, limits: Limits
) -> Iterator[tuple[T, Ask]]:
    """(value, ask): what a child opened; of the file beside it `ask(key, index)` gives parts while it is open."""
    with _streams_taken():
        store = os.memfd_create("bayesmri")
        near, far = socket.socketpair()
    parent = os.getpid()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of threads: those of libraries, which sleep
            pid = os.fork()
    except BaseException:
        near.close()
        far.close()
        os.close(store)
        raise
    if pid == 0:
        near.close()
        _serve(opened, far, store, limits, parent)
    far.close()
    line = _Line(pid, near, store, name, limits)
    try:
        yield line.first(), line.ask
    finally:
        line.close()


@contextmanager
def _streams_taken() -> Iterator[None]:
    """What is opened inside gets none of the numbers 0, 1 and 2, which a child gives away, where they were closed."""
    taken = [os.open(os.devnull, os.O_RDWR)]
    while taken[-1] < 2:
        taken.append(os.open(os.devnull, os.O_RDWR))
    try:
        yield
    finally:
        for number in taken:
            os.close(number)


class _Line:
    """The parent's end."""

    def __init__(self, pid: int, near: socket.socket, store: int, name: str, limits: Limits) -> None:
        self.pid, self.near, self.store, self.name, self.limits = pid, near, store, name, limits
        self.ended = False

    def first(self) -> Any:
        """What was opened; its arrays lie in memory that both processes hold, and are not copied."""
        said, _ = self._hear()
        size = os.fstat(self.store).st_size
        memory = mmap.mmap(self.store, size) if size else b""
        arrays = []
        for about in said["arrays"]:
            dtype, shape = dtype_of(about["dtype"]), tuple(about["shape"])
            n = int(np.prod(shape, dtype=object))
            arrays.append(np.frombuffer(memory, dtype, n, about["at"]).reshape(shape) if n else np.zeros(shape, dtype))
        return unpacked(said["value"].encode(), arrays)

    def ask(self, key: str, index: tuple[int, ...]) -> NDArray[Any]:
        """One part of an array in the open file."""
        self.near.sendall(_framed({"key": key, "index": index}))
        said, rest = self._hear()
        flat = np.frombuffer(bytearray(rest), dtype_of(said["dtype"]))
        return flat.reshape(said["shape"])

    def _hear(self) -> tuple[dict[str, Any], bytes]:
        until = time.monotonic() + self.limits.wait
        text, more = HEAD.unpack(self._take(HEAD.size, until))
        said = json.loads(self._take(text, until))
        if "error" in said:
            raise unpacked_error(said)
        return said, self._take(more, until)

    def _take(self, n: int, until: float) -> bytes:
        parts = bytearray()
        while len(parts) < n:
            if not select.select([self.near], [], [], max(0.0, until - time.monotonic()))[0]:
                raise FormatError(f"{self.name} was not read within {self.limits.wait:.0f} s: {ADVICE}")
            got = self.near.recv(min(n - len(parts), CHUNK))
            if not got:
                raise FormatError(f"{self.name} {self._death()}: {ADVICE}")
            parts += got
        return bytes(parts)

    def _death(self) -> str:
        _, status = os.waitpid(self.pid, 0)
        self.ended = True
        code = os.waitstatus_to_exitcode(status)
        if code == -signal.SIGXCPU:
            return f"took more than {self.limits.seconds} s of processor time to read"
        if code == -signal.SIGKILL:
            return "could not be read: the system ended the reading process, most likely for lack of memory"
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return f"made the library that reads it crash ({how})"

    def close(self) -> None:
        self.near.close()
        os.close(self.store)
        if not self.ended:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)


def _serve(
    opened: Callable[[], AbstractContextManager[Any]], far: socket.socket, store: int, limits: Limits, parent: int
) -> NoReturn:
    """The child's whole life; nothing of the parent's is unwound or flushed here."""
    try:
        confine(limits, parent)
        with opened() as (value, file):
            _tell(value, far, store)
            while asked := _asked(far):
                _answer(far, file, asked)
    except BaseException as error:
        _framed_error(far, error)
    finally:
        os._exit(0)


def _tell(value: Any, far: socket.socket, store: int) -> None:
    """Arrays first, into the memory of both; then what they are."""
    text, arrays = packed(value)
    about, at = described(arrays), 0
    for i, array in enumerate(arrays):
        about[i]["at"] = at
        at += -(-array.nbytes // ALIGNED) * ALIGNED
    os.ftruncate(store, at)
    for i, array in enumerate(arrays):
        _store(array, store, about[i]["at"], last=_unshared(array, arrays[i + 1 :]))
    far.sendall(_framed({"value": text.decode(), "arrays": about}))


def _store(array: NDArray[Any], store: int, at: int, *, last: bool) -> None:
    """Chunk by chunk, each forgotten once it is stored: two copies of a volume never are in memory."""
    whole = np.ascontiguousarray(array)
    flat = memoryview(whole.reshape(-1).view(np.uint8).data)
    start = whole.__array_interface__["data"][0]
    for first in range(0, len(flat), CHUNK):
        part = flat[first : first + CHUNK]
        done = 0
        while done < len(part):
            done += os.pwrite(store, part[done:], at + first + done)
        if last and whole.flags.owndata and whole.flags.writeable:
            forget(start + first, len(part))


def _unshared(array: NDArray[Any], later: Sequence[NDArray[Any]]) -> bool:
    return not any(np.may_share_memory(array, other) for other in later)


def _asked(far: socket.socket) -> dict[str, Any] | None:
    head = far.recv(HEAD.size, socket.MSG_WAITALL)
    if len(head) < HEAD.size:
        return None
    asked: dict[str, Any] = json.loads(far.recv(HEAD.unpack(head)[0], socket.MSG_WAITALL))
    return asked


def _answer(far: socket.socket, file: Any, asked: dict[str, Any]) -> None:
    try:
        part = np.ascontiguousarray(file[asked["key"]][tuple(asked["index"])])
        data = part.tobytes()
        far.sendall(_framed({"dtype": part.dtype.str, "shape": part.shape}, more=len(data)) + data)
    except Exception as error:
        _framed_error(far, error)


def _framed_error(far: socket.socket, error: BaseException) -> None:
    with suppress(OSError):  # nobody listens any more
        far.sendall(_framed(packed_error(error)))


def _framed(said: dict[str, Any], *, more: int = 0) -> bytes:
    text = json.dumps(said).encode()
    return HEAD.pack(len(text), more) + text
