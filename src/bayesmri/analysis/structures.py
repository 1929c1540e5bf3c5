"""Small structures to plant into an image or to erase from it: lesions, fine lines, textures, patches made smooth.

A structure is a change a of the magnitude Y at one place; nothing is said here about coils or k-space.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import distance_transform_edt, gaussian_filter

from bayesmri.analysis.profiles import disc, line, stripes, turned
from bayesmri.errors import ShapeError

Floats = NDArray[np.float64]
StructureKind = Literal["lesion", "line", "texture", "erased", "untouched"]
KINDS: tuple[StructureKind, ...] = get_args(StructureKind)

SIZES: dict[StructureKind, tuple[float, float]] = {  # radius, or half the length of a line, in pixels
    "lesion": (1.5, 5.0),
    "line": (4.0, 10.0),
    "texture": (4.0, 8.0),
    "erased": (3.0, 7.0),
    "untouched": (1.5, 5.0),
}
CONTRASTS = (0.1, 0.8)  # of the brightness around
SURROUND = 2.0  # pixels of a place beyond 1.5 times the structure's size
BODY = 0.1  # of the maximum: as in `foreground`, of an image blurred by BLUR, so that dark tissue inside belongs to it
BLUR = 2.0
LEAST = 1e-3  # of a pixel, which stays where a dark structure would take more
TRIES = 40  # for one place
CHOICES = 6  # of places to erase, of which the one with the most detail within these contrasts is taken


@dataclass(frozen=True, eq=False)
class Structure:
    """A change at one place.

    row, column: the centre. size: in pixels. contrast: largest |a| over the brightness b of the place, with the sign
    of the change. rows, columns: the place, a box around the structure. change: a inside it.
    angle: from upright, in radians from 0 to π: of a line's length, of the direction across stripes.
    period: of stripes, in pixels, else 0.
    planted: False for `untouched`, a lesion that is only looked for, not put there.
    """

    kind: StructureKind
    row: float
    column: float
    size: float
    contrast: float
    rows: slice
    columns: slice
    change: Floats = field(repr=False)
    angle: float = 0.0
    period: float = 0.0

    @property
    def planted(self) -> bool:
        return self.kind != "untouched"

    def of(self, image: NDArray[np.floating]) -> Floats:
        """The part of an image (h, w) at the place."""
        return np.asarray(image[self.rows, self.columns], dtype=np.float64)

    def meets(self, other: "Structure") -> bool:
        """Whether the places share a pixel."""
        return all(
            a.start < b.stop and b.start < a.stop for a, b in ((self.rows, other.rows), (self.columns, other.columns))
        )


def draw_structures(
    image: NDArray[np.floating], peak: float, *, rng: np.random.Generator, count: int
) -> list[Structure]:
    """Up to `count` structures of an image Y (h, w), kinds in turn, fewer where there is no room: places never meet.

    peak: the maximum of the volume, that says what is body and what is air.
    """
    if image.ndim != 2:
        raise ShapeError(f"got an image of shape {image.shape}, expected (h, w) to plant structures into")
    Y = np.asarray(image, dtype=np.float64)
    depth = distance_transform_edt(body(Y, peak))
    found: list[Structure] = []
    first = int(rng.integers(len(KINDS)))
    for i in range(count):
        kind = KINDS[(first + i) % len(KINDS)]
        for candidate in _candidates(kind, Y, depth, rng=rng):
            if not any(candidate.meets(other) for other in found):
                found.append(candidate)
                break
    return found


def body(image: NDArray[np.floating], peak: float) -> NDArray[np.bool_]:
    """Where structures may be: tissue and what it encloses, without the air around."""
    return np.asarray(gaussian_filter(np.asarray(image, dtype=np.float64), BLUR) > BODY * peak)


def change_of(structures: list[Structure], shape: tuple[int, int]) -> Floats:
    """a of all planted structures on the whole image."""
    total = np.zeros(shape)
    for structure in structures:
        if structure.planted:
            total[structure.rows, structure.columns] += structure.change
    return total


def _candidates(kind: StructureKind, Y: Floats, depth: Floats, *, rng: np.random.Generator) -> Iterator[Structure]:
    """Random structures of a kind that lie inside the body, one after the other."""
    for _ in range(TRIES):
        size = float(rng.uniform(*SIZES[kind]))
        rows, columns = np.nonzero(depth >= size)
        if rows.size == 0:
            continue
        picks = rng.integers(rows.size, size=CHOICES if kind == "erased" else 1)
        options = [_structure(kind, Y, rows[i], columns[i], size, rng=rng) for i in picks]
        fitting = [s for s in options if CONTRASTS[0] / 2 <= abs(s.contrast) <= CONTRASTS[1]]
        if fitting:
            yield max(fitting, key=lambda s: abs(s.contrast))


def _structure(
    kind: StructureKind, Y: Floats, row: int, column: int, size: float, *, rng: np.random.Generator
) -> Structure:
    reach = math.ceil(1.5 * size + SURROUND)
    rows = slice(max(0, int(row) - reach), min(Y.shape[0], int(row) + reach + 1))
    columns = slice(max(0, int(column) - reach), min(Y.shape[1], int(column) + reach + 1))
    y, x = row + rng.uniform(-0.5, 0.5), column + rng.uniform(-0.5, 0.5)  # centres lie between pixels, too
    v = np.arange(rows.start, rows.stop)[:, None] - y
    u = np.arange(columns.start, columns.stop)[None] - x
    place = Y[rows, columns]
    brightness = float(np.average(place, weights=disc(v, u, size)))
    profile = Profile(np.zeros_like(place))
    if kind == "erased":
        change = disc(v, u, size) * (gaussian_filter(Y, size)[rows, columns] - place)
    else:
        contrast = math.exp(rng.uniform(*np.log(CONTRASTS))) * rng.choice((-1, 1))
        profile = PROFILES[kind](v, u, size, rng)
        change = contrast * brightness * profile.values
    change = np.maximum(change, (LEAST - 1) * place)  # Y + a stays positive
    largest = change.flat[int(np.argmax(np.abs(change)))]
    contrast = float(largest / brightness)
    return Structure(
        kind, float(y), float(x), size, contrast, rows, columns, change, angle=profile.angle, period=profile.period
    )


@dataclass(frozen=True, eq=False)
class Profile:
    """The shape of a structure, at most 1; angle and period as in `Structure`."""

    values: Floats
    angle: float = 0.0
    period: float = 0.0


def _lesion(v: Floats, u: Floats, size: float, rng: np.random.Generator) -> Profile:
    """An ellipse, down to 0.6 times as wide as long."""
    angle = rng.uniform(0, math.pi)
    along, across = turned(v, u, angle)
    return Profile(disc(along, across / rng.uniform(0.6, 1.0), size), angle)


def _line(v: Floats, u: Floats, size: float, rng: np.random.Generator) -> Profile:
    """Straight, 1.2 to 2.4 pixels wide at half its height."""
    angle = rng.uniform(0, math.pi)
    along, across = turned(v, u, angle)
    return Profile(line(along, across, size, rng.uniform(0.6, 1.2)), angle)


def _texture(v: Floats, u: Floats, size: float, rng: np.random.Generator) -> Profile:
    """Stripes of 3 to 6 pixels inside a disc."""
    angle = rng.uniform(0, math.pi)
    along, across = turned(v, u, angle)
    period = rng.uniform(3, 6)
    return Profile(stripes(along, across, size, period, rng.uniform(0, 2 * math.pi)), angle, period)


Draw = Callable[[Floats, Floats, float, np.random.Generator], Profile]
PROFILES: dict[StructureKind, Draw] = {"lesion": _lesion, "line": _line, "texture": _texture, "untouched": _lesion}
