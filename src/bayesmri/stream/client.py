"""Our own client: a file goes out as a scanner would send it, images come back and are written as MRD, all or none."""

import json
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from bayesmri.errors import ConfigError, DataError, FormatError
from bayesmri.io.atomic import atomic_path, check_target
from bayesmri.io.guard import byte_budget, one_line
from bayesmri.io.pacs.address import parse_address
from bayesmri.recon.files import Progress, check_ending
from bayesmri.stream import layout
from bayesmri.stream.messages import CLOSED, Close, Image, Text, packed_line, packed_name, packed_text, read_message
from bayesmri.stream.recording import Recording, read_recording
from bayesmri.stream.transport import GoneError, Incoming

NAME = "bayesmri"
GROUP = "dataset"


def stream_file(
    path: Path,
    server: str,
    out: Path,
    *,
    name: str = NAME,
    parameters: Mapping[str, Any] | None = None,
    wait: float = 600.0,
    trusted: bool = True,
    force: bool = False,
    say: Callable[[str], None] = lambda text: None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Send a file to `server` (host:port), write the images that come back; what came is returned.

    name: of a configuration; parameters: sent as text instead, where there are any. wait: seconds that the server may
    be silent. say: called with every text of the server's.
    """
    check_target(out, path, force=force)
    check_ending(out)
    host, port = parse_address(server, such="localhost:9002")
    recording = read_recording(path, trusted=trusted)
    with _connected(host, port) as sock, progress(len(recording)) if progress else nullcontext(None) as advance:
        images, texts = _exchange(sock, recording, _greeting(name, parameters), wait, say, advance)
    errors = [text for text in texts if text.startswith("error:")]
    if not images:
        raise DataError(f"no image came back: {'; '.join(errors) or 'the server said nothing'}")
    with atomic_path(out) as temporary:
        write_images(temporary, recording.xml, images)
    series = {str(n): sum(int(i.head["image_series_index"]) == n for i in images) for n in _series(images)}
    return {
        "file": path.name,
        "lines": len(recording),
        "images": len(images),
        "series": series,
        "output": str(out),
        "texts": texts,
        "errors": errors,
    }


def write_images(path: Path, xml: str, images: list[Image]) -> None:
    """An MRD file: `dataset/xml`, and for each series `dataset/image_N` with header, attributes and data."""
    with h5py.File(path, "w") as file:
        file.create_dataset(f"{GROUP}/xml", data=[xml], dtype=h5py.string_dtype())
        for n in _series(images):
            part = [image for image in images if int(image.head["image_series_index"]) == n]
            if len({image.pixels.shape for image in part}) != 1 or len({image.pixels.dtype for image in part}) != 1:
                raise FormatError(f"the images of series {n} differ in size or type, expected all alike")
            group = file.create_group(f"{GROUP}/image_{n}")
            group.create_dataset("header", data=np.array([image.head for image in part], layout.IMAGE_HEAD))
            group.create_dataset("attributes", data=[i.attributes for i in part], dtype=h5py.string_dtype())
            group.create_dataset("data", data=np.stack([image.pixels for image in part]))


def _series(images: list[Image]) -> list[int]:
    return sorted({int(image.head["image_series_index"]) for image in images})


def _greeting(name: str, parameters: Mapping[str, Any] | None) -> bytes:
    if not parameters:
        return packed_name(name)
    return packed_text(layout.CONFIG_TEXT, json.dumps({"parameters": dict(parameters)}))


def _connected(host: str, port: int) -> socket.socket:
    try:
        return socket.create_connection((host, port), timeout=10.0)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(
            f"cannot connect to {one_line(host, limit=80)}:{port} ({reason}): start `bayesmri serve --mrd`, or give "
            "another address"
        ) from error


def _exchange(
    sock: socket.socket,
    recording: Recording,
    greeting: bytes,
    wait: float,
    say: Callable[[str], None],
    advance: Callable[[], None] | None,
) -> tuple[list[Image], list[str]]:
    """Sent in one thread while images come in this one, until both sides have closed."""
    sender = threading.Thread(
        target=_send, args=(sock.dup(), recording, greeting, wait, advance), name="stream-send", daemon=True
    )
    sender.start()
    try:
        return _heard(sock, wait, say)
    finally:
        with suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)
        sender.join(wait)


def _send(
    sock: socket.socket, recording: Recording, greeting: bytes, wait: float, advance: Callable[[], None] | None
) -> None:
    """A server that has closed meanwhile says why in what is heard."""
    with sock, suppress(OSError):
        sock.settimeout(wait)
        sock.sendall(greeting + packed_text(layout.HEADER, recording.xml))
        for line in recording.lines():
            sock.sendall(packed_line(line))
            if advance is not None:
                advance()
        sock.sendall(CLOSED)


def _heard(sock: socket.socket, wait: float, say: Callable[[str], None]) -> tuple[list[Image], list[str]]:
    """All images and texts up to the close message."""
    images: list[Image] = []
    texts: list[str] = []
    left = byte_budget()

    def allow(n: int) -> None:
        nonlocal left
        left -= n
        if left < 0:
            raise FormatError("the images that came back exceed the budget of memory; set BAYESMRI_MAX_BYTES")

    incoming = Incoming(sock, message=wait)
    try:
        while (kind := incoming.begin(wait)) is not None:
            message = read_message(kind, incoming, allow=allow, images=True)
            if isinstance(message, Close):
                return images, texts
            if isinstance(message, Text):
                texts.append(one_line(message.text, limit=2000))
                say(texts[-1])
            elif isinstance(message, Image):
                images.append(message)
    except GoneError as error:
        raise DataError(f"{error}{_last(texts)}; nothing was written") from error
    raise DataError(f"the server ended without a close message{_last(texts)}; nothing was written")


def _last(texts: list[str]) -> str:
    return f" (its last words: {texts[-1]})" if texts else ""
