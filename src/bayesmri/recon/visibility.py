"""Maps of visibility, slice by slice as they are reconstructed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from bayesmri.analysis.foreground import foreground
from bayesmri.analysis.sight import Sight
from bayesmri.analysis.templates import WORST, Template, templates
from bayesmri.analysis.visibility import MEANING, Survey, shipped_weights, survey
from bayesmri.io.results import GROUP
from bayesmri.physics.data_terms import DataTerm
from bayesmri.recon.grid import Padding, sideways
from bayesmri.recon.request import Options
from bayesmri.recon.samples import Window
from bayesmri.recon.task import Task

if TYPE_CHECKING:
    from bayesmri.recon.reconstruct import Reconstruction

Maps = NDArray[np.float32]
Watch = Callable[[DataTerm, Tensor], None]


@dataclass(frozen=True, eq=False)
class Visibility:
    """A template in a volume, float32 (slices, h, w).

    mean: percent of its contrast that would come out right; over all directions where none was named. worst: in the
    worst of several directions, else None. visible_from: the smallest contrast of which half would.
    """

    template: str
    contrast: float
    mean: Maps
    worst: Maps | None
    visible_from: Maps
    weights: str

    def maps(self) -> dict[str, Maps]:
        """In percent, by name."""
        return {self.template: self.mean} | ({} if self.worst is None else {f"{self.template}:{WORST}": self.worst})

    @property
    def sideways(self) -> "Visibility":
        """With rows and columns exchanged."""
        images = {name: sideways(getattr(self, name)) for name in ("mean", "worst", "visible_from")}
        return replace(self, **images)

    def about(self, model: str) -> dict[str, object]:
        """Attributes of its datasets."""
        return {
            "meaning": MEANING,
            "template": self.template,
            "model": model,
            "weights": self.weights,
            "unit": "percent",
        }

    def facts(self, inside: NDArray[np.bool_]) -> dict[str, Any]:
        """JSON values over the body: median and lower decile in percent, and the contrast that half of it shows."""
        there = inside if inside.any() else np.ones_like(inside)
        low, median = np.quantile(self.mean[there], (0.1, 0.5))
        known: dict[str, Any] = {"median": float(median), "lower_decile": float(low)}
        if self.worst is not None:
            known["worst_direction_median"] = float(np.median(self.worst[there]))
        return known | {"visible_from": float(np.median(self.visible_from[there]))}


@final
@dataclass(eq=False)
class Surveyor:
    """Looks at every slice as it comes. window: what the images show of the stored grid; pad: what it has around the
    encoded one.
    """

    templates: Sequence[Template]
    window: Window
    pad: Padding | None = None
    found: list[list[Survey]] = field(default_factory=list)

    def __call__(self, D: DataTerm, x: Tensor) -> None:
        sight = sight_of(D, x, self.pad)
        self.found.append([survey(sight, template) for template in self.templates])

    def maps(self) -> dict[str, Visibility]:
        return {template.text: self._volume(i, template) for i, template in enumerate(self.templates)}

    def _volume(self, i: int, template: Template) -> Visibility:
        slices = [part[i] for part in self.found]
        worst = [part.worst for part in slices if part.worst is not None]
        return Visibility(
            template=template.text,
            contrast=template.contrast,
            mean=self._cut([part.mean for part in slices]),
            worst=self._cut(worst) if worst else None,
            visible_from=self._cut([part.visible_from for part in slices]),
            weights=shipped_weights().name,
        )

    def _cut(self, maps: Sequence[NDArray[np.float64]]) -> Maps:
        return np.stack([part[self.window] for part in maps]).astype(np.float32)


@final
@dataclass(eq=False)
class Sights:
    """What every slice tells, kept as it comes, in the method's scale."""

    found: list[Sight] = field(default_factory=list)

    def __call__(self, D: DataTerm, x: Tensor) -> None:
        self.found.append(sight_of(D, x))


def surveyor_of(options: Options, task: Task, *, turned: bool) -> Surveyor | None:
    """None where nothing was asked for. turned: rows took the place of columns; directions stay those of the file."""
    if not options.visibility:
        return None
    asked = templates(options.visibility)
    return Surveyor([one.sideways for one in asked] if turned else asked, task.window, task.pad)


def sight_of(D: DataTerm, x: Tensor, pad: Padding | None = None) -> Sight:
    """One slice in the method's scale, x complex (Q', H, W); with padding on the stored grid, whose other lines no one
    measured.
    """
    mask, z = D.mask.reshape(D.mask.shape[-2:]) if D.mask.ndim > 1 else D.mask, D.z[0]
    if pad is not None:
        mask = pad.around(mask.expand(z.shape[-2:]))
        x, z = pad.widen(x), pad.around(z)
    lines = mask[0] if mask.ndim == 2 and mask.shape[0] == 1 else mask
    return Sight(x.cpu().numpy(), z.cpu().numpy(), lines.cpu().numpy(), 1.0 if pad is None else 1 / pad.gain)


def visibility_maps(result: "Reconstruction") -> dict[str, Maps]:
    """All maps of a reconstruction, in percent, by name."""
    return {name: volume for found in result.visibility.values() for name, volume in found.maps().items()}


def about_visibility(result: "Reconstruction") -> dict[str, dict[str, object]]:
    """Attributes of the maps, by their names in the HDF5 file; visible_from: the median over the body."""
    return {
        f"{GROUP}/{name}": found.about(result.method)
        | {"visible_from": found.facts(foreground(result.mean))["visible_from"]}
        for found in result.visibility.values()
        for name in found.maps()
    }
