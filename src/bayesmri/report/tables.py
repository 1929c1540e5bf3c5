"""The paper's table: methods as rows, PSNR, NMSE and SSIM at each acceleration as columns."""

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
    lines = [" | ".join(["method", "parameters", *_heads(means)]), " | ".join(["---"] * (2 + len(_heads(means))))]
    lines += [" | ".join(cell.replace("|", "\\|") for cell in cells) for cells in _cells(means)]
    return "\n".join(f"| {line} |" for line in lines) + "\n"


def latex(means: Sequence[Row]) -> str:
    """The same as a LaTeX tabular."""
    rows = [["method", "parameters", *_heads(means)], *_cells(means)]
    lines = [" & ".join(re.sub(r"[&%$#_{}]", r"\\\g<0>", cell) for cell in row) for row in rows]
    body = " \\\\\n".join(lines)
    return f"\\begin{{tabular}}{{l{'r' * (1 + len(_heads(means)))}}}\n{body} \\\\\n\\end{{tabular}}\n"


def text(means: Sequence[Row]) -> str:
    """The same in aligned columns for a terminal."""
    rows = [["method", "parameters", *_heads(means)], *_cells(means)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    rows = [[row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))] for row in rows]
    return "\n".join("  ".join(row) for row in rows)


def _heads(means: Sequence[Row]) -> list[str]:
    return [f"{name} R={R:g}" for R in _accelerations(means) for _, name, _ in COLUMNS]


def _cells(means: Sequence[Row]) -> list[list[str]]:
    table = {(row["method"], row["acceleration"]): row for row in means}
    methods = list(dict.fromkeys(row["method"] for row in means))
    rows = []
    for method in methods:
        known = next(row for row in means if row["method"] == method)
        cells = [method, f"{known['parameters']:,}"]
        for R in _accelerations(means):
            row = table.get((method, R))
            cells += [form.format(row[key]) if row else "" for key, _, form in COLUMNS]
        rows.append(cells)
    return rows


def _accelerations(means: Sequence[Row]) -> list[float]:
    return sorted({row["acceleration"] for row in means})
