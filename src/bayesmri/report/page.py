"""One HTML page that needs nothing else: template, style, scripts and data in a single file.

Whatever comes from a file reaches the page through `escape` (tables) or as JSON without angle brackets (data), which
the scripts only ever set as text. Should both fail, the page's policy lets no script run but its own.
"""

import base64
import hashlib
import json
import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import metadata, resources
from typing import Any

import numpy as np
from matplotlib import colormaps

from bayesmri.report.pack import raw

VIEWER = ("unpack.js", "paint.js", "tiles.js", "viewer.js")  # what every viewer is made of, the application's too
LUTS = {"viridis": "viridis", "inferno": "inferno", "plasma": "plasma", "cividis": "cividis", "difference": "RdBu_r"}
DARK = (0.0, 0.6, 1.0), ((0, 0, 0), (214, 62, 42), (255, 224, 206))  # sizes of a difference, and their colours

Rows = Sequence[Sequence[str]]


@dataclass(frozen=True)
class Page:
    """Texts as they are, not yet escaped; sections as HTML, made by the functions below.

    notes: what the page left out. said: what the file notes of the image; warnings: what it warns of.
    data: JSON values that the scripts show.
    """

    title: str
    summary: Sequence[str]
    notes: Sequence[str]
    kspace: str
    quality: str
    bounds: str
    reading: str
    origin: str
    data: Mapping[str, Any]
    said: Sequence[str] = ()
    warnings: Sequence[str] = ()


def render(page: Page) -> str:
    """The whole page. The policy names style and script by their checksums and allows nothing else."""
    style, script = _asset("page.css"), viewer_script() + _asset("page.js")
    filled = {
        "policy": policy(style, script),
        "version": escape(metadata.version("bayesmri")),
        "style": style,
        "script": script,
        "title": escape(page.title),
        "summary": _list(page.summary, "facts"),
        "notes": _list(page.notes, "notices") if page.notes else "",
        "warnings": _warnings(page.warnings),
        "said": f"<h3>Notes</h3>{_list(page.said, 'said')}" if page.said else "",
        "kspace": page.kspace,
        "quality": page.quality,
        "bounds": page.bounds,
        "reading": page.reading,
        "origin": page.origin,
        "data": script_json({**page.data, "luts": luts()}),
    }
    # in one pass: a text from the file that looks like a placeholder stays what it is
    return re.sub(r"\{\{(\w+)\}\}", lambda found: filled[found[1]], _asset("page.html"))


def policy(style: str, script: str) -> str:
    return (
        f"default-src 'none'; style-src {_checksum(style)}; script-src {_checksum(script)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def script_json(value: object) -> str:
    """JSON that cannot end its <script>: no <, > or & in it."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def paragraph(text: str, kind: str = "") -> str:
    return f'<p class="{escape(kind)}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"


def words_table(rows: Rows, caption: str) -> str:
    """Name and value, both texts."""
    body = "".join(f"<tr>{_row(escape(row[0]), row[1:])}</tr>\n" for row in rows)
    return _scrolling(f'<table class="words"><caption>{escape(caption)}</caption>\n{body}</table>', caption, "scroll")


def number_table(
    heads: Sequence[str], rows: Rows, caption: str, *, slices: Sequence[int] = (), linked: Container[int] = ()
) -> str:
    """Numbers under their heads; the first cell names the row.

    slices: of the rows, counted from 0. linked: those that the page shows: their names are buttons that go there.
    """
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in heads)
    if slices:
        body = "".join(_slice_row(row, s, link=s in linked) for row, s in zip(rows, slices, strict=True))
    else:
        body = "".join(f"<tr>{_row(escape(row[0]), row[1:])}</tr>\n" for row in rows)
    table = f"<caption>{escape(caption)}</caption>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>"
    return _scrolling(f"<table>{table}</table>", caption, "scroll" if slices else "scroll volume")


def _scrolling(table: str, name: str, kind: str) -> str:
    """A box that scrolls where the table does not fit, by keyboard too."""
    return f'<div class="{kind}" tabindex="0" role="region" aria-label="{escape(name)}">{table}</div>'


def _slice_row(row: Sequence[str], s: int, *, link: bool) -> str:
    name = escape(row[0])
    if link:
        name = f'<button type="button" data-slice="{s:d}" aria-label="Show slice {s + 1:d}">{name}</button>'
    return f'<tr data-slice="{s:d}">{_row(name, row[1:])}</tr>\n'


def _row(name: str, cells: Sequence[str]) -> str:
    """name: HTML."""
    return f'<th scope="row">{name}</th>' + "".join(f"<td>{escape(cell)}</td>" for cell in cells)


def _warnings(texts: Sequence[str]) -> str:
    """The red box above the images; nothing where there is nothing to warn of."""
    if not texts:
        return ""
    head = "Warning: the images below may be wrong" if len(texts) == 1 else "Warnings: the images below may be wrong"
    return f'<section class="warnings" role="alert"><h2>{head}</h2>{_list(texts, "reasons")}</section>'


def _list(texts: Sequence[str], kind: str) -> str:
    items = "".join(f"<li>{escape(text)}</li>" for text in texts)
    return f'<ul class="{kind}">{items}</ul>'


def luts() -> dict[str, str]:
    """256 colours of three bytes each, by name."""
    ramp = np.arange(256)
    return {name: raw(colormaps[cmap](ramp, bytes=True)[:, :3].tobytes()) for name, cmap in LUTS.items()}


def dark_difference() -> str:
    """Differences on a dark page: black where there is none, red above, and blue, its mirror, below."""
    at, colours = DARK
    size = np.abs(np.linspace(-1, 1, 256))
    red = np.stack([np.interp(size, at, [colour[i] for colour in colours]) for i in range(3)], axis=-1)
    both = np.where(np.arange(256)[:, None] < 128, red[:, ::-1], red)
    return raw(np.rint(both).astype(np.uint8).tobytes())


def viewer_script() -> str:
    """The modules that show a reconstruction, without the page around them."""
    return "".join(["'use strict';\n", *map(_asset, VIEWER)])


def _asset(name: str) -> str:
    return (resources.files("bayesmri.report") / "web" / name).read_text(encoding="utf-8")


def _checksum(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
