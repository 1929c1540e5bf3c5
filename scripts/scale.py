"""Writes docs/scale.md's numbers: python scripts/scale.py [FILE].

FILE is what `bayesmri bench --cluster --cost --json` printed on idle cores; it is kept as docs/data/scale.json, from
which the blocks between <!-- NAME --> and <!-- /NAME --> are made. Without FILE they are made anew of what is kept.
"""

import json
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE, KEPT = ROOT / "docs" / "scale.md", ROOT / "docs" / "data" / "scale.json"


def cost(found: Mapping[str, Any]) -> str:
    """The four rates, and the sizes that they were not fitted to."""
    rates, R = found["rates"], 4
    a, b, d = (f"{1e6 * rates[name]:.2g}" for name in ("gradient", "coils", "sensitivities"))
    words = (
        f"to {_word(len(found['fit']))} small volumes. Here (`{found['model']}`, R = {R}, one thread, an idle core): "
        f"a = {a}, b = {b}, d = {d} millionths of a second, e = {rates['volume']:.2g} s. At "
        f"{_word(len(found['checks']))} sizes that it was not fitted to:"
    )
    rows = [
        (
            str(one["slices"]),
            f"{one['shape'][0]}x{one['shape'][1]}",
            *(str(one[name]) for name in ("coils", "samples")),
            *(f"{one[name]:.2f}" for name in ("seconds", "predicted")),
        )
        for one in found["checks"]
    ]
    head = ("slices", "grid", "coils", "samples", "measured / s", "predicted / s")
    return f"{_filled(words)}\n\n{_table(head, rows)}"


def plans(found: Mapping[str, Any]) -> str:
    """What it comes to, far beyond what was measured."""
    names = ("core_hours", "terabytes_read", "terabytes_moved", "terabytes_written")
    rows = [(plan["what"], *(_two_digits(plan[name]) for name in names)) for plan in found["plans"]]
    return _table(("what", "core-hours", "TB read", "TB moved", "TB written"), rows)


def cluster(found: Mapping[str, Any]) -> str:
    """Efficiency, overhead, memory, killed workers."""
    one, two = found["cluster_seconds"]
    share, memory = found["cluster_efficiency_2"], found["batch_memory_last_over_first_tenth"]
    lost, other = (found[name] or "no" for name in ("cluster_volumes_lost", "cluster_results_that_differ"))
    return _filled(
        f"`bayesmri bench --cluster` measures the rest. On two idle cores: two workers take {two:.0f} s for what one "
        f"does in {one:.0f} s, an efficiency of {share:.2f}; {found['batch_volumes']} tiny volumes in one run, memory "
        f"of the last tenth {memory:.2f} of the first; {found['batch_overhead_seconds']:.2f} s a volume beside its "
        f"reconstruction, where a single command takes {found['command_seconds']:.1f} s in all; "
        f"{found['cluster_workers_killed']} workers killed in 200 slices, {lost} volume lost and {other} bit "
        "different."
    )


def renewed(page: str, found: Mapping[str, Any]) -> str:
    """The page with its three blocks of these numbers; one that is not there is an error."""
    texts = {"cost": cost(found["cost"]), "plans": plans(found["cost"]), "cluster": cluster(found)}
    for name, text in texts.items():
        start, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        if page.count(start) != 1 or page.count(end) != 1:
            raise ValueError(f"the page wants one block {start.strip()} … {end}")
        before, _, rest = page.partition(start)
        page = f"{before}{start}{text}\n{end}{rest.partition(end)[2]}"
    return page


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in (head, *rows)]
    return "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:]])


def _two_digits(value: float) -> str:
    """1,650; 36; 0.12."""
    return f"{float(f'{value:.3g}'):,.0f}" if value >= 10 else f"{value:.2g}"


def _word(n: int) -> str:
    return {3: "three", 7: "seven"}.get(n, str(n))


def _filled(text: str) -> str:
    return textwrap.fill(text, 125, break_long_words=False, break_on_hyphens=False)


def main(words: Sequence[str]) -> int:
    if words:
        found = json.loads(Path(words[0]).read_text(encoding="utf-8"))
        KEPT.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    kept = json.loads(KEPT.read_text(encoding="utf-8"))
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8"), kept), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
