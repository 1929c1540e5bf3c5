"""Templates whose visibility is asked for: kind:size:contrast as text, and the pixels that they change; no torch here.

lesion:3:0.3            a disc of radius 3 pixels, 0.3 brighter than its surroundings (−0.3: darker)
line:7:0.3[:DEGREES]    a line of half length 7, about two pixels wide; from upright, or in all directions
stripes:4:0.3[:DEGREES] stripes of a period of 4 pixels in a disc; across them from upright, or in all directions
patch:FILE.npy:0.3      one's own, a real array (h, w) that is divided by its largest magnitude
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from bayesmri.analysis.profiles import disc, line, stripes, turned
from bayesmri.errors import ConfigError
from bayesmri.io.guard import one_line

Floats = NDArray[np.float64]
TemplateKind = Literal["lesion", "line", "stripes", "patch"]
KINDS: tuple[TemplateKind, ...] = get_args(TemplateKind)
RANGES: dict[TemplateKind, tuple[float, float]] = {"lesion": (1, 32), "line": (2, 64), "stripes": (2, 16)}  # pixels
CONTRASTS = (0.01, 5.0)
MOST = 16  # templates at once
DIRECTIONS = 8  # of what has one, where none is named
HALF_WIDTH = 0.9  # of a line
STRIPED = 6.0  # pixels: the radius of the disc with stripes
PATCH_MAX = 129  # pixels
EXAMPLE = "such as lesion:3:0.3 or line:7:0.3"


WORST = "worst"  # direction, at the end of a map's name


@dataclass(frozen=True, eq=False)
class View:
    """A template in one direction, radians from upright as it was asked for. a: its pixels, odd (h, w), at most 1."""

    a: Floats = field(repr=False)
    angle: float = 0.0

    @property
    def centred(self) -> Floats:
        """â = a − mean(a): what tells it from a change of brightness."""
        return np.asarray(self.a - self.a.mean())


@dataclass(frozen=True, eq=False)
class Template:
    """text: as it was asked for, without folders. contrast: of the brightness around, negative for darker ones."""

    text: str
    kind: TemplateKind
    size: float
    contrast: float
    views: tuple[View, ...] = field(repr=False)

    @property
    def sideways(self) -> "Template":
        """For images whose rows and columns are exchanged."""
        return replace(self, views=tuple(View(view.a.T, view.angle) for view in self.views))

    @property
    def maps(self) -> tuple[str, ...]:
        """What its maps are called: of the mean over directions, and where there are several of the worst."""
        return (self.text,) if len(self.views) == 1 else (self.text, f"{self.text}:{WORST}")

    @property
    def support(self) -> float:
        """Pixels around the middle over which the brightness around is averaged."""
        return {"lesion": self.size, "line": 4.0, "stripes": STRIPED}.get(self.kind, self.size)


def templates(texts: Sequence[str]) -> tuple[Template, ...]:
    """All of them, each once."""
    if isinstance(texts, str):
        raise ConfigError(f"got the visibility of {one_line(texts, limit=80)!r}, expected a list of such texts")
    if len(texts) > MOST:
        raise ConfigError(f"got {len(texts)} templates, expected at most {MOST}; ask for the others apart")
    found = tuple(template(text) for text in texts)
    names = [one.text for one in found]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise ConfigError(f"got the visibility of {twice[0]} twice, expected it once; leave one out")
    return found


def template(text: str) -> Template:
    """One of them, from its text."""
    kind, _, rest = str(text).partition(":")
    if kind not in KINDS or not rest:
        raise ConfigError(
            f"got the template {_told(text)}, expected kind:size:contrast with a kind of {', '.join(KINDS)}, {EXAMPLE}"
        )
    if kind == "patch":
        return _own(text, rest)
    words = rest.split(":")
    if not 2 <= len(words) <= (2 if kind == "lesion" else 3):
        expected = f"{kind}:size:contrast" + ("" if kind == "lesion" else " with a direction in degrees or without")
        raise ConfigError(f"got the template {_told(text)}, expected {expected}, {EXAMPLE}")
    size = _number(text, "size", words[0], *RANGES[kind])
    contrast = _contrast(text, words[1])
    angle = math.radians(_number(text, "direction", words[2], -360, 360)) % math.pi if len(words) == 3 else None
    return Template(text, kind, size, contrast, views(kind, size, angle))


def patch_files(texts: Sequence[str]) -> list[Path]:
    """The files that templates are read from."""
    return [Path(text[len("patch:") :].rpartition(":")[0]) for text in texts if text.startswith("patch:")]


def views(kind: TemplateKind, size: float, angle: float | None = None) -> tuple[View, ...]:
    """A drawn template in one direction, or in all where none is given."""
    if kind == "lesion":
        return (View(_drawn(kind, size, 0.0)),)
    angles = np.arange(DIRECTIONS) * math.pi / DIRECTIONS if angle is None else [angle]
    return tuple(View(_drawn(kind, size, float(one)), float(one)) for one in angles)


def _drawn(kind: TemplateKind, size: float, angle: float) -> Floats:
    reach = math.ceil(1.5 * (STRIPED if kind == "stripes" else size) + 2)
    v, u = (axis.astype(np.float64) for axis in np.mgrid[-reach : reach + 1, -reach : reach + 1])
    along, across = turned(v, u, angle)
    if kind == "lesion":
        return disc(v, u, size)
    if kind == "line":
        return line(along, across, size, HALF_WIDTH)
    return stripes(along, across, STRIPED, size)


def _own(text: str, rest: str) -> Template:
    name, colon, last = rest.rpartition(":")
    if not colon or not name:
        raise ConfigError(f"got the template {_told(text)}, expected patch:FILE.npy:contrast")
    contrast, path = _contrast(text, last), Path(name)
    try:
        patch = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise ConfigError(
            f"got the patch {one_line(path.name, limit=80)}, which cannot be read ({one_line(error, limit=80)}), "
            "expected a .npy file of real numbers (h, w)"
        ) from error
    a = _odd(check_patch(patch, path.name))
    return Template(f"patch:{path.name}:{last}", "patch", max(a.shape) / 4, contrast, (View(a),))


def check_patch(patch: object, name: str) -> Floats:
    """Real, finite, not constant, (h, w) of at most PATCH_MAX pixels; divided by its largest magnitude."""
    array = np.asarray(patch)
    good = array.ndim == 2 and array.dtype.kind in "biuf" and 3 <= min(array.shape) <= max(array.shape) <= PATCH_MAX
    if not good or not np.isfinite(array).all() or np.ptp(array.astype(np.float64)) == 0:
        raise ConfigError(
            f"got the patch {one_line(name, limit=80)} of {array.dtype} and shape {array.shape}, expected finite real "
            f"numbers (h, w) that differ, 3 to {PATCH_MAX} pixels a side"
        )
    real = array.astype(np.float64)
    return np.asarray(real / np.abs(real).max())


def _odd(a: Floats) -> Floats:
    """With a middle pixel: a row or column of zeros added where it has none."""
    return np.pad(a, [(0, 1 - n % 2) for n in a.shape])


def _contrast(text: str, word: str) -> float:
    value = _number(text, "contrast", word, -CONTRASTS[1], CONTRASTS[1])
    if abs(value) < CONTRASTS[0]:
        raise ConfigError(
            f"got the template {_told(text)} with the contrast {value:g}, expected at least {CONTRASTS[0]} of the "
            "brightness around, such as 0.3, or −0.3 for a darker one"
        )
    return value


def _number(text: str, name: str, word: str, least: float, most: float) -> float:
    try:
        value = float(word.replace("−", "-"))
    except ValueError:
        value = math.nan
    if not least <= value <= most:
        raise ConfigError(
            f"got the template {_told(text)} with the {name} {one_line(word, limit=30)!r}, expected a number from "
            f"{least:g} to {most:g}, {EXAMPLE}"
        )
    return value


def _told(text: object) -> str:
    return repr(one_line(text, limit=80))
