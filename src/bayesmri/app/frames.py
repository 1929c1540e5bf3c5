"""What server and children say to each other: JSON in frames, and the loop of a child that answers."""

import ctypes
import json
import os
import signal
import struct
import sys
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

from bayesmri.errors import BayesMRIError
from bayesmri.io.apart.limits import PR_SET_PDEATHSIG
from bayesmri.io.guard import one_line

HEAD = struct.Struct("<Q")
MOST = 2**31  # bytes of one frame
Told = dict[str, Any]
Say = Callable[[Told], None]
Verb = Callable[[Told, Say], Any]


def framed(said: Mapping[str, Any]) -> bytes:
    text = json.dumps(said, allow_nan=False, separators=(",", ":")).encode()
    return HEAD.pack(len(text)) + text


def answer(verbs: Mapping[str, Verb]) -> None:
    """A child's life: one request after the other, until the server goes.

    Each is answered by any number of {"progress": …}, and one {"done": value} or {"error": one line}. What libraries
    print goes to stderr.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal: the server ends its children
    out = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)

    def say(told: Told) -> None:
        out.write(framed(told))

    while (asked := _heard(sys.stdin.buffer)) is not None:
        say(_answered(verbs, asked, lambda told: say({"progress": told})))


def _answered(verbs: Mapping[str, Verb], asked: Told, say: Say) -> Told:
    try:
        return {"done": verbs[asked["verb"]](asked, say)}
    except BayesMRIError as error:
        return {"error": one_line(error, limit=1000)}
    except MemoryError:
        return {"error": "out of memory: take fewer slices at a time or fewer coils"}
    except OSError as error:
        return {"error": f"the system refused: {one_line(error, limit=300)}"}
    except Exception as error:
        return {"error": f"internal error, {type(error).__name__}: {one_line(error, limit=300)}"}


def _heard(stream: BinaryIO) -> Told | None:
    head = stream.read(HEAD.size)
    if len(head) < HEAD.size:
        return None
    asked: Told = json.loads(stream.read(HEAD.unpack(head)[0]))
    return asked
