"""docs/speed.md's table of figures: bayesmri bench --json > FILE && python scripts/speed.py FILE."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "docs" / "speed.md"
BEGIN, END = "<!-- figures -->\n", "<!-- end of figures -->\n"
KEYS = {
    "recon16_speedup": "16 samples of 320x320, 8 coils",
    "scaling_2_workers": "samples by two workers against one",
    "grad16_share_of_peak": "∇R, 16 features, against the convolution peak",
    "recon_seconds_over_bart_pics": "a slice, against BART's ecalib and pics",
    "train_speedup_vs_previous": "a training step, all threads",
    "train_speedup_one_core": "a training step, one core",
    "startup_seconds": "`recon` of a small slice, in all, seconds",
    "grad_share_of_peak": "∇R, 64 features, compiled, against the convolution peak",
    "grad_speedup_vs_eager": "∇R, 64 features, compiled, against plain eager code",
    "train_speedup_vs_autograd": "a training step, compiled, against autograd through the energy",
}


def table(found: Mapping[str, Any]) -> str:
    """One row for every key that was measured."""
    rows = [f"| `{key}` | {what} | {found[key]:.2f} |" for key, what in KEYS.items() if found.get(key) is not None]
    return "\n".join(["| key | what | |", "|---|---|---|", *rows, ""])


if __name__ == "__main__":
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    found = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    PAGE.write_text(before + BEGIN + table(found) + END + after, encoding="utf-8")
