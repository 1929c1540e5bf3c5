"""The page of an evaluation: the command, the table of means, and every volume's PSNR."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from bayesmri.report.tables import Row, markdown


def page(result: Mapping[str, Any], means: Sequence[Row]) -> str:
    """Markdown; nothing in it is typed by hand."""
    rows, record = result["rows"], result["provenance"]
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    slices = {row["file"]: row["slices"] for row in rows}
    parts = [
        "# Results",
        f"Printed on {record['time'][:10]} ({versions}; {record['threads']} threads) by",
        f"    {result['command']}",
        f"Means over {len(slices)} volumes of {sum(slices.values())} slices in all, each with the same coil images and "
        f"masks for every method (seed {record['seed']}); PSNR in dB; s: seconds per volume. "
        f"{_settings(result['study'], reused=bool(result.get('reused')))}".strip(),
        markdown(means).strip(),
        "## PSNR of every volume",
        _volumes(rows),
    ]
    if result["skipped"]:
        parts += ["## Left out", "\n".join(f"- {line}" for line in result["skipped"])]
    return "\n\n".join(parts) + "\n"


def _settings(study: Mapping[str, Any], *, reused: bool) -> str:
    """How coils came about, where tracks were asked for; reused: some rows are of earlier evaluations."""
    words = []
    if study.get("slices"):
        middle = "middle slice" if study["slices"] == 1 else f"{study['slices']} middle slices"
        words.append(f"Used of every volume: only the {middle}.")
    if study.get("masks", 1) > 1:
        words.append(f"{study['masks']} masks of every volume.")
    if "single" in study["tracks"]:
        words.append("Single-coil: measured arrays are combined into one emulated coil.")
    if "multi" in study["tracks"]:
        words.append(
            "Multi-coil: magnitude images are simulated with, and measured k-space of one coil is multiplied by, the "
            "sensitivities of a simulated array (whose coils then share one noise, unlike those of a real one); "
            "measured arrays stay as they are."
        )
    if study["samples"]:
        words.append(f"Mean of {study['samples']}: X̄ of as many posterior samples; the other rows of models are at μ.")
    if reused:
        words.append("Rows were taken over from earlier evaluations: seconds are those of several runs, not of one.")
    return " ".join(words)


def _volumes(rows: Sequence[Row]) -> str:
    """One row for each setting and volume, one column for each method."""
    methods = list(dict.fromkeys(row["method"] for row in rows))
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        found.setdefault((row.get("track"), row["acceleration"], row["file"], row["method"]), []).append(row)
    lines = [["acquisition", "R", "file", "slices", "coils", *methods], ["---"] * (5 + len(methods))]
    for track, R, file in dict.fromkeys((row.get("track"), row["acceleration"], row["file"]) for row in rows):
        given = [found.get((track, R, file, method), []) for method in methods]
        first = next(group[0] for group in given if group)
        start = [f"{track}-coil" if track else "as it is", f"{R:g}", file, str(first["slices"]), str(first["coils"])]
        lines.append(start + [f"{fmean(row['psnr'] for row in group):.2f}" if group else "" for group in given])
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
