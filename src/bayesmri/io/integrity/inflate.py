"""How much a compressed stream would become, found without keeping it: bombs stop at the byte budget."""

import zlib
from pathlib import Path

from bayesmri.bounded import one_line, read_bytes
from bayesmri.io.guard import byte_budget, check_bytes

DEFLATED = b"1.2.840.10008.1.2.1.99"  # DICOM's Deflated Explicit VR Little Endian
LONG = frozenset({b"OB", b"OW", b"OF", b"OD", b"OL", b"OV", b"SQ", b"UC", b"UN", b"UR", b"UT", b"SV", b"UV"})
PREAMBLE, STEP = 132, 2**22


def check_deflate(path: Path, *, budget: int | None = None) -> None:
    """Refuse a deflated DICOM file that would grow beyond the budget, or beyond belief; others cost a few bytes."""
    limit = byte_budget(budget)
    with path.open("rb") as file:
        start = file.read(2**16)
    syntax, begin = _syntax(start)
    if syntax != DEFLATED:
        return
    content = read_bytes(path, limit)[begin:]
    unpack, size = zlib.decompressobj(-zlib.MAX_WBITS), 0
    while content and not unpack.eof:
        made = len(unpack.decompress(content, STEP))
        content, size = unpack.unconsumed_tail, size + made
        check_bytes(one_line(path.name), (size,), 1, stored=path.stat().st_size, budget=limit)
        if not made and not content:
            return


def _syntax(start: bytes) -> tuple[bytes, int]:
    """The transfer syntax of a DICOM file, and where its dataset begins."""
    place, syntax = PREAMBLE, b""
    while start[place : place + 2] == b"\x02\x00":
        long = start[place + 4 : place + 6] in LONG
        head = 12 if long else 8
        size = int.from_bytes(start[place + 8 : place + 12] if long else start[place + 6 : place + 8], "little")
        if start[place + 2 : place + 4] == b"\x10\x00":
            syntax = start[place + head : place + head + size].strip(b" \0")
        place += head + size
    return syntax, place
