"""What `whatif` changes: a structure taken out of the image or put into it; no torch here."""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from bayesmri.errors import ConfigError
from bayesmri.io.atomic import check_target
from bayesmri.io.formats import read_kspace
from bayesmri.io.guard import one_line
from bayesmri.io.provenance import seen_since, stamps
from bayesmri.recon.acquisition import Sampling
from bayesmri.recon.files import check_ending, check_file, with_ending
from bayesmri.recon.request import Options
from bayesmri.zoo import own_files

Kind = Literal["erase", "plant"]
LEAST, MOST = 0.5, 128.0  # pixels of a radius
CONTRASTS = (0.01, 10.0)


@dataclass(frozen=True)
class Intervention:
    """x, y: column and row of the middle in the image as it is shown, from 0. r: radius in pixels.

    contrast: of what is planted, over the brightness around, negative for darker; None for what is erased.
    slice: of the volume, from 0; None for the middle one.
    """

    x: float
    y: float
    r: float
    contrast: float | None = None
    slice: int | None = None

    def __post_init__(self) -> None:
        if not all(map(math.isfinite, (self.x, self.y))):
            raise ConfigError(f"got the place {self.x:g},{self.y:g}, expected column and row as finite numbers")
        if not LEAST <= self.r <= MOST:
            raise ConfigError(f"got the radius {self.r:g}, expected {LEAST:g} to {MOST:g} pixels")
        if self.contrast is not None and not CONTRASTS[0] <= abs(self.contrast) <= CONTRASTS[1]:
            raise ConfigError(
                f"got the contrast {self.contrast:g}, expected {CONTRASTS[0]:g} to {CONTRASTS[1]:g} of the brightness "
                "around, such as 0.3, or −0.3 for a darker structure"
            )

    @property
    def kind(self) -> Kind:
        return "erase" if self.contrast is None else "plant"

    @property
    def sideways(self) -> "Intervention":
        """For images whose rows and columns are exchanged."""
        return replace(self, x=self.y, y=self.x)

    def at(self, shape: tuple[int, int], slices: int) -> int:
        """The slice, once it and the place are known to be inside. shape: (h, w) as it is shown."""
        s = slices // 2 if self.slice is None else self.slice
        if not 0 <= s < slices:
            raise ConfigError(f"got slice {s}, expected 0 to {slices - 1}, counted from 0")
        if not (0 <= self.x <= shape[1] - 1 and 0 <= self.y <= shape[0] - 1):
            raise ConfigError(
                f"got the place {self.x:g},{self.y:g} in an image of {shape[1]} columns and {shape[0]} rows, expected "
                "column,row inside it, counted from 0"
            )
        if 3 * self.r >= min(shape):
            raise ConfigError(
                f"got the radius {self.r:g} in an image of {shape[1]} columns and {shape[0]} rows, expected less than "
                "a third of it; nothing would be left around it"
            )
        return s


def intervention(erase: str | None, plant: str | None, slice: int | None = None) -> Intervention:
    """From the texts x,y,r and x,y,r,c, of which one is given."""
    if (erase is None) == (plant is None):
        given = "neither" if erase is None else "both"
        raise ConfigError(f"got {given} of --erase x,y,r and --plant x,y,r,c, expected one of them")
    option, text, names = ("--erase", erase, "x,y,r") if plant is None else ("--plant", plant, "x,y,r,c")
    try:
        numbers = [float(word.replace("−", "-")) for word in str(text).split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != len(names.split(",")):
        raise ConfigError(
            f"got {option} {one_line(text, limit=60)!r}, expected {names}: column, row and radius in pixels"
            f"{', and the contrast' if plant is not None else ''}, such as 120,96,4{'' if plant is None else ',0.3'}"
        )
    x, y, r, *contrast = numbers
    return Intervention(x, y, r, contrast[0] if contrast else None, slice)


def whatif_file(
    path: Path,
    out: Path,
    asked: Intervention,
    options: Options,
    sampling: Sampling | None,
    *,
    png: bool = False,
    anonymise: bool = False,
    force: bool = False,
) -> dict[str, Any]:
    """Reconstruct a slice of a file with the structure and without; write HDF5 and a PNG; return what was found.

    force: outputs that are there are overwritten. anonymise: without what identifies a patient.
    """
    check_file(path)
    targets = {"h5": out} | ({"png": with_ending(out, ".png")} if png else {})
    sources = [path, *([] if sampling is None else sampling.files)]
    sources += own_files(options.model) if isinstance(options.model, str) else []
    for target in targets.values():
        check_target(target, *sources, force=force)
    check_ending(out)
    before = stamps([path])
    kspace = read_kspace(path)
    (seen,) = seen_since(before, [path])
    from bayesmri.recon.whatif import whatif_to

    return whatif_to(kspace, path.name, seen, targets, asked, options, sampling, anonymise=anonymise)
