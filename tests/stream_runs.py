"""A server on loopback for tests of the stream, and a client by docs/stream.md with the ismrmrd package alone."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ismrmrd
import numpy as np
from numpy.typing import NDArray

from bayesmri.recon.request import Options
from bayesmri.stream.limits import Limits
from bayesmri.stream.parameters import Terms, Wish
from bayesmri.stream.server import Server

PLAIN = Wish(Options(method="zero-filled"))
FIRST, LAST, LAST_IN_MEASUREMENT = 1 << 6, 1 << 7, 1 << 24
PATIENCE = 60.0  # seconds, of a test that would otherwise hang


@dataclass
class Running:
    server: Server
    log: list[str]

    @property
    def address(self) -> tuple[str, int]:
        return self.server.address


@contextmanager
def serving(wish: Wish = PLAIN, **limits: Any) -> Iterator[Running]:
    log: list[str] = []
    server = Server("127.0.0.1", 0, Terms(wish), Limits(**limits), log.append)
    thread = threading.Thread(target=server.serve, daemon=True)
    thread.start()
    try:
        yield Running(server, log)
    finally:
        server.stop()
        thread.join(PATIENCE)
        assert not thread.is_alive()


@dataclass
class Client:
    """Message by message; `texts` and `images` as they came."""

    sock: socket.socket
    texts: list[str] = field(default_factory=list)
    images: list[Any] = field(default_factory=list)

    @staticmethod
    def to(address: tuple[str, int]) -> "Client":
        sock = socket.create_connection(address, timeout=PATIENCE)
        return Client(sock)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def raw(self, *parts: bytes) -> None:
        self.sock.sendall(b"".join(parts))

    def name(self, text: str) -> None:
        self.raw(struct.pack("<H1024s", 1, text.encode()))

    def text(self, kind: int, text: str) -> None:
        """Ended by a null byte, as clients of Gadgetron and python-ismrmrd-server do."""
        raw = text.encode() + b"\0"
        self.raw(struct.pack("<HI", kind, len(raw)), raw)

    def header(self, xml: str) -> None:
        self.text(3, xml)

    def line(self, acquisition: Any) -> None:
        self.raw(struct.pack("<H", 1008))
        acquisition.serialize_into(lambda part: self.raw(bytes(part)))

    def close(self) -> None:
        self.raw(struct.pack("<H", 4))

    def hear(self) -> Any:
        """The next message: a text, an image, or None for the close message."""
        (kind,) = struct.unpack("<H", self.exactly(2))
        if kind == 4:
            return None
        if kind == 5:
            (n,) = struct.unpack("<I", self.exactly(4))
            self.texts.append(self.exactly(n).decode())
            return self.texts[-1]
        assert kind == 1022
        self.images.append(ismrmrd.Image.deserialize_from(self.exactly))
        return self.images[-1]

    def hear_out(self) -> "Client":
        """Until the server closes, after which nothing comes."""
        while self.hear() is not None:
            pass
        assert self.sock.recv(1) == b""
        return self

    def next_image(self) -> Any:
        while isinstance(said := self.hear(), str):
            pass
        assert said is not None, self.texts
        return said

    def exactly(self, n: int) -> bytes:
        parts = b""
        while len(parts) < n:
            got = self.sock.recv(n - len(parts))
            assert got, "the server has gone"
            parts += got
        return parts


def acquisitions(path: Path) -> tuple[str, list[Any]]:
    """(header, acquisitions) of an MRD file, by the ismrmrd package."""
    with ismrmrd.Dataset(str(path), "dataset", mode="r") as file:
        xml = file.read_xml_header()
        lines = [file.read_acquisition(i) for i in range(file.number_of_acquisitions())]
    return xml.decode() if isinstance(xml, bytes) else xml, lines


def streamed(address: tuple[str, int], path: Path, config: str = "") -> Client:
    """The whole file, its lines one after the other, then all answers. config: text; a name where it is empty."""
    xml, lines = acquisitions(path)
    with Client.to(address) as client:
        if config:
            client.text(2, config)
        else:
            client.name("default.xml")
        client.header(xml)
        for line in lines:
            client.line(line)
        client.close()
        return client.hear_out()


def packed(lines: list[Any]) -> bytes:
    """Lines of `mrd_line` as messages."""
    kind = struct.pack("<H", 1008)
    return b"".join(kind + line["head"].tobytes() + line["data"][0].tobytes() for line in lines)


def series(client: Client, n: int = 1) -> list[Any]:
    return [image for image in client.images if image.image_series_index == n]


def pixels(image: Any) -> NDArray[Any]:
    """(h, w): h along the readout, as the images of `recon`."""
    assert image.data.shape[:2] == (1, 1)
    return np.asarray(image.data[0, 0].T)
