"""Messages of the MRD streaming protocol, read with every size checked before memory is asked for."""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bayesmri.errors import FormatError
from bayesmri.io.guard import human
from bayesmri.stream import layout

MOST_TEXT = 4 * 2**20  # bytes of a header, a configuration or a text; a real header has some ten thousand
MOST_ATTRIBUTES = 2**20
MOST_LINE = 256 * 2**20  # bytes of one acquisition: 65,535 samples of 512 channels
MOST_IMAGE = 4 * 2**30
OVERHEAD = 1024  # bytes that a line takes besides its numbers
NO_COORDINATES: NDArray[np.float32] = np.zeros(0, dtype=np.float32)


class Source(Protocol):
    """Bytes as they arrive."""

    def take(self, n: int) -> bytearray:
        """Exactly n of them."""
        ...

    def skip(self, n: int) -> None:
        """n of them, not kept."""
        ...


@dataclass(frozen=True)
class Name:
    """A configuration by its name."""

    text: str


@dataclass(frozen=True)
class Configuration:
    """A configuration's own text."""

    text: str


@dataclass(frozen=True)
class Header:
    xml: str


@dataclass(frozen=True)
class Text:
    text: str


@dataclass(frozen=True)
class Close:
    pass


@dataclass(frozen=True)
class Skipped:
    """A message that was read past: images and waveforms."""

    kind: str


@dataclass(frozen=True, eq=False)
class Line:
    """One acquisition. head: the 340 bytes of its header. numbers: real and imaginary parts, channel by channel."""

    head: bytes
    numbers: NDArray[np.float32]
    coordinates: NDArray[np.float32]

    @property
    def record(self) -> Any:
        return np.frombuffer(self.head, layout.ACQUISITION_HEAD)[0]

    @property
    def nbytes(self) -> int:
        return self.numbers.nbytes + self.coordinates.nbytes + OVERHEAD


@dataclass(frozen=True, eq=False)
class Image:
    """head: a record of IMAGE_HEAD. attributes: XML. pixels: (channels, z, y, x)."""

    head: Any
    attributes: str
    pixels: NDArray[Any]


Message = Name | Configuration | Header | Text | Close | Skipped | Line | Image
Allow = Callable[[int], None]


def read_message(kind: int, source: Source, *, allow: Allow, images: bool = False) -> Message:
    """The message of that id. allow: called with a size before that many bytes are held, and may refuse them.

    images: they are wanted; otherwise they are read past.
    """
    if kind == layout.CLOSE:
        return Close()
    if kind == layout.CONFIG_FILE:
        return Name(_text(source.take(layout.NAME_BYTES)))
    if kind == layout.CONFIG_TEXT:
        return Configuration(_long_text(source))
    if kind == layout.HEADER:
        return Header(_long_text(source))
    if kind == layout.TEXT:
        return Text(_long_text(source))
    if kind == layout.ACQUISITION:
        return _line(source, allow)
    if kind == layout.WAVEFORM:
        return _waveform(source)
    if kind == layout.IMAGE:
        return _image(source, allow) if images else _skipped_image(source)
    raise FormatError(
        f"got a message of id {kind}, expected one of 1 to 5, 1008 (acquisition), 1022 (image) and 1026 (waveform); "
        "the stream cannot be read any further"
    )


def _text(raw: bytearray) -> str:
    """Up to the first null byte, which clients put at the end."""
    return bytes(raw).partition(b"\0")[0].decode("utf-8", errors="replace")


def _long_text(source: Source) -> str:
    (n,) = struct.unpack("<I", source.take(layout.LENGTH_BYTES))
    if n > MOST_TEXT:
        raise FormatError(f"got a text of {human(n)}, expected at most {human(MOST_TEXT)}")
    return _text(source.take(n))


def _line(source: Source, allow: Allow) -> Line:
    head = bytes(source.take(layout.ACQUISITION_HEAD.itemsize))
    record = np.frombuffer(head, layout.ACQUISITION_HEAD)[0]
    samples, channels, dimensions = (
        int(record[name]) for name in ("number_of_samples", "active_channels", "trajectory_dimensions")
    )
    along, numbers = 4 * samples * dimensions, 8 * samples * channels
    if channels > layout.MOST_CHANNELS or dimensions > layout.MOST_DIMENSIONS or along + numbers > MOST_LINE:
        raise FormatError(
            f"got an acquisition of {samples} samples, {channels} channels and a trajectory of {dimensions} "
            f"dimensions, expected at most {layout.MOST_CHANNELS} channels, {layout.MOST_DIMENSIONS} dimensions and "
            f"{human(MOST_LINE)}: its header is damaged"
        )
    allow(along + numbers)
    coordinates = np.frombuffer(source.take(along), "<f4") if along else NO_COORDINATES
    return Line(head, np.frombuffer(source.take(numbers), "<f4"), coordinates)


def _waveform(source: Source) -> Skipped:
    head = np.frombuffer(source.take(layout.WAVEFORM_HEAD.itemsize), layout.WAVEFORM_HEAD)[0]
    n = 4 * int(head["channels"]) * int(head["number_of_samples"])
    if n > MOST_LINE:
        raise FormatError(f"got a waveform of {human(n)}, expected at most {human(MOST_LINE)}: its header is damaged")
    source.skip(n)
    return Skipped("waveforms")


def _image_head(source: Source) -> tuple[Any, int, int]:
    """(head, bytes of attributes, bytes of pixels)."""
    head = np.frombuffer(source.take(layout.IMAGE_HEAD.itemsize), layout.IMAGE_HEAD)[0]
    (attributes,) = struct.unpack("<Q", source.take(layout.ATTRIBUTE_BYTES))
    kind = layout.PIXELS.get(int(head["data_type"]))
    if kind is None or attributes > MOST_ATTRIBUTES:
        raise FormatError(
            f"got an image of data type {int(head['data_type'])} with {human(attributes)} of attributes, expected a "
            f"type from 1 to 8 and at most {human(MOST_ATTRIBUTES)}: its header is damaged"
        )
    pixels = int(head["channels"]) * kind.itemsize
    for n in head["matrix_size"]:
        pixels *= int(n)
    if pixels > MOST_IMAGE:
        raise FormatError(f"got an image of {human(pixels)}, expected at most {human(MOST_IMAGE)}: it is damaged")
    return head, int(attributes), pixels


def _skipped_image(source: Source) -> Skipped:
    _, attributes, pixels = _image_head(source)
    source.skip(attributes + pixels)
    return Skipped("images")


def _image(source: Source, allow: Allow) -> Image:
    head, attributes, n = _image_head(source)
    kind = layout.PIXELS[int(head["data_type"])]
    allow(n)
    text = _text(source.take(attributes))
    x, y, z = (int(size) for size in head["matrix_size"])
    return Image(head, text, np.frombuffer(source.take(n), kind).reshape(int(head["channels"]), z, y, x))


def packed_text(kind: int, text: str) -> bytes:
    """A configuration, header or text."""
    raw = text.encode()
    return struct.pack("<HI", kind, len(raw)) + raw


def packed_name(name: str) -> bytes:
    raw = name.encode()
    if len(raw) >= layout.NAME_BYTES:
        raise FormatError(f"got a name of {len(raw)} bytes, expected at most {layout.NAME_BYTES - 1}")
    return struct.pack("<H", layout.CONFIG_FILE) + raw.ljust(layout.NAME_BYTES, b"\0")


def packed_line(line: Line) -> bytes:
    return b"".join(
        [struct.pack("<H", layout.ACQUISITION), line.head, line.coordinates.tobytes(), line.numbers.tobytes()]
    )


def packed_image(image: Image) -> bytes:
    raw = image.attributes.encode()
    head = np.array(image.head)
    head["attribute_string_len"] = len(raw)
    return b"".join(
        [struct.pack("<H", layout.IMAGE), head.tobytes(), struct.pack("<Q", len(raw)), raw, image.pixels.tobytes()]
    )


CLOSED = struct.pack("<H", layout.CLOSE)
