"""What commands print: JSON for programs, aligned lines for people."""

import json
import sys
from collections.abc import Mapping
from typing import Any


def print_json(value: object) -> None:
    print(json.dumps(value, indent=2, allow_nan=False))


def print_metrics(metrics: Mapping[str, Mapping[str, float]]) -> None:
    """One row per method: PSNR, SSIM, NMSE."""
    if not metrics:
        return
    width = max(len("method"), *map(len, metrics))
    print(f"{'method':<{width}}  PSNR/dB    SSIM      NMSE")
    for name, row in metrics.items():
        print(f"{name:<{width}}  {row['psnr']:7.2f}  {row['ssim']:6.4f}  {row['nmse']:8.5f}")


def sampling_line(facts: Mapping[str, Any]) -> str:
    """ "59 of 236 lines (R = 4.00), 8 coils"."""
    what = "points" if "points" in facts else "lines"
    share = f"{facts[f'acquired_{what}']} of {facts[what]} {what} (R = {facts['acceleration']:.2f})"
    return f"{share}, {count(facts['coils'], 'coil')}"


def count(n: int, noun: str) -> str:
    """ "1 coil", "8 coils"."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def print_messages(made: Mapping[str, Any]) -> None:
    """Notes and warnings of what was made, for people: one line each, beside the results and not among them."""
    for level, word in (("notes", "note:"), ("warnings", "warning:")):
        for text in made.get(level, ()):
            print(word, " ".join(text.split()), file=sys.stderr)
