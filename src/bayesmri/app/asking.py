"""The child that is asked: model, data and the slice stay warm, so that a structure is planted or erased in seconds."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesmri.analysis.templates import template
from bayesmri.analysis.visibility import survey
from bayesmri.app.frames import Say, Told, answer
from bayesmri.app.origin import Origin, origin_of
from bayesmri.errors import ConfigError, DataError
from bayesmri.io.apart.reading import reading
from bayesmri.io.formats import read_kspace
from bayesmri.io.guard import one_line
from bayesmri.io.inputs import input_files
from bayesmri.io.provenance import sha256
from bayesmri.io.results import glance
from bayesmri.kspace import KSpace
from bayesmri.machine.memory import keep_memory
from bayesmri.messages import NOTHING
from bayesmri.recon.choice import chosen
from bayesmri.recon.grid import sideways
from bayesmri.recon.intervention import Intervention
from bayesmri.recon.method import Method, make_method
from bayesmri.recon.undersample import as_sampled, single_coil
from bayesmri.recon.visibility import sight_of
from bayesmri.recon.whatif import Look, look, look_again, whatif_facts
from bayesmri.report.pack import QUICK, image

LOOKS = 8  # slices that stay warm


@dataclass(eq=False)
class Warm:
    """One result's scan and method, and the slices that were looked at."""

    origin: Origin
    kspace: KSpace
    method: Method
    looks: dict[int, Look]

    def look(self, s: int) -> Look:
        if not 0 <= s < len(self.kspace.z):
            raise ConfigError(f"got slice {s}, expected 0 to {len(self.kspace.z) - 1}, counted from 0")
        if s not in self.looks:
            if len(self.looks) >= LOOKS:
                del self.looks[next(iter(self.looks))]
            full_fov, scale = self.origin.options.full_fov, self.origin.options.scale
            self.looks[s] = look(self.kspace, s, self.method, known=NOTHING, full_fov=full_fov, scale=scale)
        return self.looks[s]


class Asker:
    """The last result that was asked about."""

    def __init__(self) -> None:
        self.stamp: tuple[str, ...] = ()
        self.warm: Warm | None = None

    def ready(self, asked: Told, say: Say) -> dict[str, Any]:
        """The slice is reconstructed, to be asked."""
        seen = self._warm(asked).look(asked["slice"])
        return {"method": seen.task.method.name, "slice": seen.s}

    def whatif(self, asked: Told, say: Say) -> dict[str, Any]:
        """x, y, r, contrast (null: erase), slice; the images are packed as those of a result."""
        given = Intervention(asked["x"], asked["y"], asked["r"], asked["contrast"], asked["slice"])
        found = look_again(self._warm(asked).look(asked["slice"]), given)
        images = {"before": found.before, "after": found.after, "change": found.after - found.before}
        facts = whatif_facts(found, given) | {"seconds": found.seconds}
        return facts | {"images": {name: image(X, effort=QUICK).as_json() for name, X in images.items()}}

    def visibility(self, asked: Told, say: Say) -> dict[str, Any]:
        """The map of one template in one slice, in percent, and the contrast of which half would be seen."""
        wanted = template(asked["template"])
        seen = self._warm(asked).look(asked["slice"])
        found = survey(sight_of(seen.D, seen.x, seen.task.pad), wanted.sideways if seen.turned else wanted)

        def packed(values: NDArray[np.float64]) -> dict[str, Any]:
            shown = values[seen.task.window].astype(np.float32)
            return image(sideways(shown) if seen.turned else shown, effort=QUICK).as_json()

        return {"template": wanted.text, "mean": packed(found.mean), "visible_from": packed(found.visible_from)}

    def _warm(self, asked: Told) -> Warm:
        stamp = (asked["result"], asked["scan"], asked["changed"])
        if self.warm is None or stamp != self.stamp:
            self.warm = _begin(Path(asked["result"]), Path(asked["scan"]))
            self.stamp = stamp
        return self.warm


def _begin(result: Path, scan: Path) -> Warm:
    """As the result was made: the same file, the same lines, the same method."""
    known = reading(lambda: glance(result), result, trusted=False)
    if known is None:
        raise DataError(f"{one_line(result.name)} is no result of bayesmri recon any more; list the files again")
    origin = origin_of(known.provenance)
    if origin.sums and [sha256(half) for half in input_files(scan)] != list(origin.sums):
        raise DataError(
            f"{one_line(scan.name)} is not the file that {one_line(result.name)} was made of (their checksums differ), "
            "expected the same scan; reconstruct it again"
        )
    kspace = reading(lambda: read_kspace(scan), scan, trusted=False)
    options = origin.options
    if options.single_coil:
        kspace = single_coil(kspace)
    if origin.sampling is not None:
        kspace = as_sampled(kspace, origin.sampling)
    method = make_method(chosen(options, kspace)[0])
    if origin.others - ({method.file.sha256} if method.file is not None else set()):
        raise DataError(
            f"{one_line(result.name)} was made with sensitivities of its own or another version of {method.name}, and "
            "cannot be asked; reconstruct it again"
        )
    return Warm(origin, kspace, method, {})


if __name__ == "__main__":
    keep_memory()
    asker = Asker()
    answer({"ready": asker.ready, "whatif": asker.whatif, "visibility": asker.visibility})
