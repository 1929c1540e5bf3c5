"""How much a page may carry, and in which order slices are given up."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bayesmri.report.pack import Packed


@dataclass
class Budget:
    """Characters that are left, and what did not fit."""

    left: int
    notes: list[str] = field(default_factory=list)

    def take(self, packed: Mapping[str, Packed] | list[Packed]) -> bool:
        """Spend what these need, if it is there."""
        parts = packed.values() if isinstance(packed, Mapping) else packed
        needed = sum(len(part.text) for part in parts)
        if needed > self.left:
            return False
        self.left -= needed
        return True


def middle_out(slices: Sequence[int]) -> list[int]:
    middle = slices[len(slices) // 2]
    return sorted(slices, key=lambda s: (abs(s - middle), s))


def as_json(parts: list[Packed]) -> list[dict[str, float | str]]:
    return [part.as_json() for part in parts]


def slices_text(slices: list[int]) -> str:
    return f"slice {slices[0] + 1}" if len(slices) == 1 else f"slices {slices[0] + 1} to {slices[-1] + 1}"
