"""Samples on a page, as what they differ from the mean by: of every slice, or of the middle ones alone."""

from typing import Any

from bayesmri.io.results import Result
from bayesmri.report.pack import Packed, change
from bayesmri.report.page_budget import Budget, as_json, middle_out, slices_text
from bayesmri.report.page_names import samples_name

SAMPLES_MAX = 16  # a flicker tells no more with the seventeenth
SAMPLES_FEW = 6  # of a slice, where not all slices can have some
STRONG = 0.5  # of the largest difference of a sample from the mean: where the colours of differences end


def page_samples(result: Result, slices: list[int], budget: Budget) -> dict[str, Any] | None:
    """Samples as what they differ from the mean by: the first of every slice, or else of the middle ones alone."""
    if not result.n_samples:
        return None
    if result.n_samples == 1:
        budget.notes.append("The sample in the file is left out: one does not flicker.")
        return None
    kept = _samples_of_all(result, slices, budget) or _samples_of_middle(result, slices, budget)
    if not kept:
        budget.notes.append("To keep the page small the samples in the file are left out.")
        return None
    count = len(next(iter(kept.values())))
    if count < result.n_samples:
        budget.notes.append(f"To keep the page small it shows {count} of the {result.n_samples} samples kept.")
    if len(kept) < len(slices):
        budget.notes.append(f"To keep the page small it shows samples of {slices_text(sorted(kept))} only.")
    top = max(STRONG * 127 * part.step for parts in kept.values() for part in parts)
    data = [as_json(kept[s]) if s in kept else None for s in slices]
    return {**samples_name(), "count": count, "top": top or 1.0, "data": data}


def _samples_of_all(result: Result, slices: list[int], budget: Budget) -> dict[int, list[Packed]]:
    """As many of every slice as fit, at least two; {} where two do not."""
    kept: dict[int, list[Packed]] = {}
    done = 0
    while done < (most := min(result.n_samples, SAMPLES_MAX)):
        further = range(done, min(most, max(2, done + 1)))
        packed = {s: _changes(result, s, further) for s in slices}
        if not budget.take([part for parts in packed.values() for part in parts]):
            break
        kept = {s: kept.get(s, []) + packed[s] for s in slices}
        done = further.stop
    return kept


def _samples_of_middle(result: Result, slices: list[int], budget: Budget) -> dict[int, list[Packed]]:
    """A few of each slice that fits, from the middle outwards."""
    kept: dict[int, list[Packed]] = {}
    for s in middle_out(slices):
        packed = _changes(result, s, range(min(result.n_samples, SAMPLES_FEW)))
        if not budget.take(packed):
            break
        kept[s] = packed
    return kept


def _changes(result: Result, s: int, samples: range) -> list[Packed]:
    return [change(result.sample(s, i) - result.mean[s]) for i in samples]
