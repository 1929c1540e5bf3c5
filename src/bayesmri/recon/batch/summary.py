"""What became of a batch, for programs and for people: summary.json, summary.csv and a page that links all results."""

import csv
import io
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bayesmri.io.atomic import atomic_paths
from bayesmri.report.batch_page import batch_page

DONE, BEFORE, FAILED, WAITING = "done", "finished before", "failed", "not reached"
COLUMNS = (
    "input",
    "status",
    "output",
    "method",
    "slices",
    "coils",
    "acceleration",
    "psnr",
    "ssim",
    "nmse",
    "expected_psnr",
    "expected_psnr_low",
    "expected_psnr_high",
    "warnings",
    "seconds",
    "error",
)
NUMBERS = ("slices", "coils", "acceleration", "seconds")


def row_of(made: Mapping[str, Any]) -> dict[str, Any]:
    """What the summary says of a volume, from what `reconstruct_file` returned."""
    known = {"method": made["method"], **{name: made[name] for name in NUMBERS}}
    metrics = list(made["metrics"].values())
    known |= dict(metrics[-1]) if metrics else {}  # of the estimate; those before it are compared with
    expected = made.get("expected", {})
    known |= {f"expected_{n}": expected[n] for n in ("psnr", "psnr_low", "psnr_high") if n in expected}
    return known | {"warnings": made["warnings"], "notes": made["notes"]}


def write_summary(out: Path, rows: Sequence[Mapping[str, Any]], *, shard: str, about: Mapping[str, Any]) -> list[Path]:
    """summary.json, .csv and .html in `out`, all or none; of a shard summary-3-of-16.json, …."""
    stem = f"summary-{shard}" if shard else "summary"
    targets = [out / f"{stem}{ending}" for ending in (".json", ".csv", ".html")]
    whole = json.dumps({**about, **counts(rows), "volumes": list(rows)}, indent=1, allow_nan=False) + "\n"
    texts = (whole, _csv(rows), batch_page(rows, title=_title(rows)))
    with atomic_paths(targets) as temporaries:
        for temporary, text in zip(temporaries, texts, strict=True):
            temporary.write_text(text, encoding="utf-8")
    return targets


def counts(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """How many volumes there are of each status."""
    found = Counter(row["status"] for row in rows)
    return {name.replace(" ", "_"): found[name] for name in (DONE, BEFORE, FAILED, WAITING)}


def _title(rows: Sequence[Mapping[str, Any]]) -> str:
    told = [f"{n} {name.replace('_', ' ')}" for name, n in counts(rows).items() if n]
    return f"{len(rows)} volume{'s' * (len(rows) != 1)}: {', '.join(told)}"


def _csv(rows: Sequence[Mapping[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        writer.writerow([_cell(row.get(name, "")) for name in COLUMNS])
    return text.getvalue()


def _cell(value: Any) -> Any:
    """Text that a spreadsheet would take for a formula is marked as text."""
    if isinstance(value, list):
        value = "; ".join(value)
    return f"'{value}" if isinstance(value, str) and value[:1] in tuple("=+-@\t\r") else value
