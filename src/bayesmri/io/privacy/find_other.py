"""NIfTI, PNG, our pages and JSON, BART's headers."""

import json
import re
import struct
import zlib
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

from bayesmri.io.guard import damaged_as_format_error
from bayesmri.io.nifti import nifti_start, nifti_version
from bayesmri.io.privacy.anonymous import NAMELESS
from bayesmri.io.privacy.finding import MOST, Finding, finding

NIFTI_TEXTS = {"db_name": (14, 18), "descrip": (148, 80), "aux_file": (228, 24), "intent_name": (328, 16)}
PNG = b"\x89PNG\r\n\x1a\n"
LARGEST = 64 * 2**20  # bytes of a text that is searched
ROW = re.compile(r"<t[hd][^>]*>([^<]{1,80})</t[hd]>\s*<td[^>]*>([^<]*)</td>")
KEYS = ("name", "file", "subject", "patient", "patient_id", "volume", "path", "time")


def in_nifti(path: Path) -> list[Finding]:
    start = nifti_start(path)
    if nifti_version(start) != 1:
        return [finding("may identify", "NIfTI-2 header", "its texts are not looked at here")]
    texts = {name: start[at : at + size].split(b"\0")[0].decode("latin-1") for name, (at, size) in NIFTI_TEXTS.items()}
    found = [finding("may identify", name, text) for name, text in texts.items() if text.strip()]
    (offset,) = struct.unpack(f"{_order(start)}f", start[108:112])
    if path.suffix != ".hdr" and offset > 352:
        found.append(
            finding("may identify", "extension", f"{offset - 352:.0f} bytes, often a DICOM header or comments")
        )
    return found


def _order(start: bytes) -> str:
    return "<" if struct.unpack("<i", start[:4])[0] == 348 else ">"


def in_png(path: Path) -> list[Finding]:
    with damaged_as_format_error(path):
        return list(_chunks(path.read_bytes()))[:MOST]


def _chunks(data: bytes) -> Iterator[Finding]:
    place = len(PNG)
    while place + 8 <= len(data):
        length, kind = struct.unpack(">I4s", data[place : place + 8])
        body = data[place + 8 : place + 8 + length]
        if kind in (b"tEXt", b"iTXt", b"zTXt"):
            name, _, rest = body.partition(b"\0")
            if kind == b"zTXt":
                rest = zlib.decompressobj().decompress(rest[1:], 1000)
            if name != b"Software":
                yield finding("may identify", f"text {name.decode('latin-1')}", rest.decode("utf-8", "replace"))
        elif kind in (b"eXIf", b"tIME"):
            yield finding("may identify", kind.decode(), f"{length} bytes")
        place += 12 + length


def in_page(path: Path) -> list[Finding]:
    """Of the tables of a page: names of inputs, times, and what it says of the patient."""
    text = path.read_text(encoding="utf-8", errors="replace") if path.stat().st_size <= LARGEST else ""
    title = re.search(r"<title>([^<]*)</title>", text)
    named = unescape(title[1]).partition(" · ")[0] if title else ""
    found = [finding("may identify", "title", named)] if named not in ("", NAMELESS) else []
    for name, value in ROW.findall(text):
        last = unescape(name).rpartition(".")[2]
        if last in KEYS and not value.startswith("input ") and not value.endswith(".json"):
            found.append(finding("may identify", unescape(name), unescape(value)))
    return found[:MOST]


def in_json(path: Path) -> list[Finding]:
    if path.stat().st_size > LARGEST:
        return [finding("may identify", "size", "too large to be searched")]
    with damaged_as_format_error(path):
        return list(dict.fromkeys(_values(json.loads(path.read_text(encoding="utf-8")), "", 0)))[:MOST]


def _values(value: Any, place: str, depth: int) -> Iterator[Finding]:
    if isinstance(value, dict) and depth < 20:
        for key, item in value.items():
            yield from _values(item, f"{place}.{key}".lstrip("."), depth + 1)
    elif isinstance(value, list) and depth < 20:
        for item in value:
            yield from _values(item, place, depth + 1)
    elif isinstance(value, str) and value and place.rpartition(".")[2] in KEYS:
        yield finding("may identify", place, value)


def in_cfl(header: Path) -> list[Finding]:
    """What BART keeps below the sizes: commands and names of files."""
    lines = header.read_text(encoding="utf-8", errors="replace")[: 2**20].splitlines()
    kept: list[Finding] = []
    section = ""
    for line in (line.strip() for line in lines):
        if line.startswith("#"):
            section = line.lstrip("# ")
        elif line and section not in ("", "Dimensions", "Creator"):
            kept.append(finding("may identify", f"{header.name}: {section}", line))
    return kept[:MOST]
