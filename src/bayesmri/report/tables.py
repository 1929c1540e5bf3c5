"""The paper's table: acquisitions and methods as rows, PSNR, NMSE and SSIM at each acceleration as columns."""

import re
from collections.abc import Sequence
from typing import Any

Row = dict[str, Any]
COLUMNS = (
    ("psnr", "PSNR", "{:.2f}"),
    ("nmse", "NMSE", "{:.4f}"),
    ("ssim", "SSIM", "{:.4f}"),
    ("seconds", "s", "{:.1f}"),
)


def markdown(means: Sequence[Row]) -> str:
    """A Markdown table of the means over volumes."""
    heads, *rows = _table(means)
    lines = [" | ".join(heads), " | ".join(["---"] * len(heads))]
    lines += [" | ".join(cell.replace("|", "\\|") for cell in cells) for cells in rows]
    return "\n".join(f"| {line} |" for line in lines) + "\n"


def latex(means: Sequence[Row]) -> str:
    """The same as a LaTeX tabular."""
    rows = _table(means)
    lines = [" & ".join(re.sub(r"[&%$#_{}]", r"\\\g<0>", cell) for cell in row) for row in rows]
    body = " \\\\\n".join(lines)
    words = 1 + _has_tracks(means)
    columns = "l" * words + "r" * (len(rows[0]) - words)
    return f"\\begin{{tabular}}{{{columns}}}\n{body} \\\\\n\\end{{tabular}}\n"


def text(means: Sequence[Row]) -> str:
    """The same in aligned columns for a terminal."""
    rows, words = _table(means), 1 + _has_tracks(means)
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    pads = [str.ljust] * words + [str.rjust] * (len(widths) - words)
    return "\n".join("  ".join(p(c, w) for p, c, w in zip(pads, row, widths, strict=True)) for row in rows)


def _table(means: Sequence[Row]) -> list[list[str]]:
    """The heads, then one row for each acquisition and method; the acquisition only where there are tracks."""
    tracks = _has_tracks(means)
    heads = [f"{name} R={R:g}" for R in _accelerations(means) for _, name, _ in COLUMNS]
    rows = [[*(["acquisition"] if tracks else []), "method", "parameters", *heads]]
    table = {(row.get("track"), row["method"], row["acceleration"]): row for row in means}
    for track, method in dict.fromkeys((row.get("track"), row["method"]) for row in means):
        found = [table.get((track, method, R)) for R in _accelerations(means)]
        n_parameters = next(row["parameters"] for row in found if row)
        cells = [f"{track}-coil" if track else ""] if tracks else []
        cells += [method, f"{n_parameters:,}"]
        cells += [form.format(row[key]) if row else "" for row in found for key, _, form in COLUMNS]
        rows.append(cells)
    return rows


def _has_tracks(means: Sequence[Row]) -> bool:
    return any(row.get("track") for row in means)


def _accelerations(means: Sequence[Row]) -> list[float]:
    return sorted({row["acceleration"] for row in means})
