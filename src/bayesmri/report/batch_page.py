"""One page over the results of many volumes, with links to what was written of each."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any
from urllib.parse import quote

from bayesmri.report.page import policy

STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem; color: #222; }
h1 { font-size: 1.4rem; } table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid #ddd; vertical-align: top; }
td.n { text-align: right; font-variant-numeric: tabular-nums; } tr.failed td { background: #fdecea; }
tr.waiting td { color: #777; } .warn { color: #8a4b00; } .small { color: #666; font-size: .9em; }
@media (prefers-color-scheme: dark) { body { background: #161616; color: #ddd; } tr.failed td { background: #4a1f1b; }
th, td { border-color: #333; } a { color: #8ab4f8; } .warn { color: #ffb86b; } }
"""
HEADS = ("Volume", "Status", "PSNR", "expected", "SSIM", "Slices", "Seconds", "What was said")


def batch_page(rows: Sequence[Mapping[str, Any]], *, title: str) -> str:
    """Volumes that failed come first. Rows as summary.json has them; `links`: relative paths by what they are."""
    ordered = sorted(rows, key=lambda row: row["status"] != "failed")
    head = "".join(f"<th>{name}</th>" for name in HEADS)
    body = "\n".join(map(_row, ordered))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy(STYLE, ""))}">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{escape(title)}</title>'
        f"<style>{STYLE}</style></head><body><h1>{escape(title)}</h1>"
        f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>"
        '<p class="small">PSNR where the fully sampled image is known; expected: without it, from left-out lines '
        "(--check), with the interval of 90 % of scans. For research use only.</p></body></html>\n"
    )


def _row(row: Mapping[str, Any]) -> str:
    links = " · ".join(f'<a href="{escape(quote(path))}">{escape(kind)}</a>' for kind, path in _links(row))
    kind = {"failed": ' class="failed"', "not reached": ' class="waiting"'}.get(str(row["status"]), "")
    name = f"{escape(str(row['input']))}{'<br>' + links if links else ''}"
    numbers = (_number(row, "psnr", ".2f"), _expected(row), _number(row, "ssim", ".3f"), _number(row, "slices", "d"))
    cells = "".join(f'<td class="n">{text}</td>' for text in (*numbers, _number(row, "seconds", ".1f")))
    return f"<tr{kind}><td>{name}</td><td>{escape(str(row['status']))}</td>{cells}<td>{_said(row)}</td></tr>"


def _links(row: Mapping[str, Any]) -> list[tuple[str, str]]:
    found = row.get("links")
    return [(str(kind), str(path)) for kind, path in found.items()] if isinstance(found, Mapping) else []


def _said(row: Mapping[str, Any]) -> str:
    told = [f"<strong>{escape(str(row['error']))}</strong>"] if row.get("error") else []
    told += [f'<span class="warn">{escape(str(text))}</span>' for text in row.get("warnings") or ()]
    return "<br>".join(told)


def _expected(row: Mapping[str, Any]) -> str:
    low, high = (_number(row, f"expected_psnr_{end}", ".1f") for end in ("low", "high"))
    middle = _number(row, "expected_psnr", ".1f")
    return f"{middle} ({low} to {high})" if middle else ""


def _number(row: Mapping[str, Any], name: str, form: str) -> str:
    value = row.get(name)
    return format(value, form) if isinstance(value, int | float) else ""
