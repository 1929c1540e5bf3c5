"""A volume as its method takes it: coils, scale, mask and what is known of the sensitivities."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from bayesmri.errors import ConfigError
from bayesmri.kspace import KSpace
from bayesmri.physics.data_terms import DataTerm
from bayesmri.physics.espirit import FEWEST
from bayesmri.physics.measured import central_lines, measured_lines
from bayesmri.physics.sense import sensitivity_sets
from bayesmri.recon.check import Scan
from bayesmri.recon.grid import Padding
from bayesmri.recon.method import Method
from bayesmri.recon.samples import Window


@dataclass(frozen=True, eq=False)
class Task:
    """A volume as its method takes it.

    volume: k-space (slices, Q, H, W), not yet divided by `factor`. window: what the images show of the grid.
    maps: sensitivities in the same coils, (slices or 1, J, Q, H, W); reference: k-space to learn them from.
    pad: what lies around the grid in the file, None for nothing.
    """

    method: Method
    volume: Tensor
    mask: Tensor
    factor: float
    window: Window
    maps: Tensor | None = None
    reference: Tensor | None = None
    pad: Padding | None = None

    def shown(self, x: Tensor) -> Tensor:
        """Coil images (…, H, W) on the grid of the file."""
        return x if self.pad is None else self.pad.widen(x)

    @staticmethod
    def of(kspace: KSpace, method: Method, window: Window) -> "Task":
        z = torch.from_numpy(kspace.z)
        volume = method.prepare(z)
        mask = torch.from_numpy(kspace.mask).to(method.device)
        task = Task(method, volume, mask, method.scaling.factor(volume), window)
        if kspace.sensitivities is not None:
            if method.prepare_maps is None:
                raise ConfigError(
                    f"got sensitivities with {method.name}, which has no use for them, expected a model that knows "
                    "them, such as tdv-r4; or leave them out"
                )
            return replace(task, maps=method.prepare_maps(torch.from_numpy(kspace.sensitivities), z))
        if kspace.reference is not None and method.prepare_maps is not None and z.shape[1] > 1:
            reference = torch.from_numpy(kspace.reference)
            reference = reference / reference.abs().max()  # only ratios between coils count
            n = central_lines(measured_lines(reference))
            if n >= FEWEST or n > central_lines(mask):
                return replace(task, reference=method.prepare_maps(reference, z))
        return task

    def begin(self, s: int) -> DataTerm:
        """Slice s in the method's scale, on its device."""
        z = (self.volume[s][None].to(self.method.device) / self.factor) * self.mask
        D = self.method.begin(z, self.mask, self._known(s))
        return D if self.maps is not None or self._lines() >= FEWEST else self.method.refine(D)

    def scan(self) -> Scan:
        """The same, to be reconstructed again from some of its lines."""

        def begin(s: int, lines: Tensor) -> DataTerm:
            return replace(self, mask=lines.to(self.method.device)).begin(s)

        def solve(s: int, lines: Tensor) -> Tensor:
            return self.method.solve(begin(s, lines))[0] * self.factor

        return Scan(self.volume, self.mask, solve, begin, self.factor)

    def _lines(self) -> int:
        """Central lines that sensitivities are learned from."""
        return central_lines(self.mask if self.reference is None else measured_lines(self.reference))

    def coil_lines(self) -> int | None:
        """The same, where sensitivities are wanted and not given."""
        wanted = self.method.prepare_maps is not None and self.volume.shape[1] > 1
        return self._lines() if wanted and self.maps is None else None

    def _known(self, s: int) -> Tensor | None:
        """Sensitivities of slice s, where the user or a reference scan says what they are: (1, J, Q, H, W)."""
        if self.maps is not None:
            return self.maps[s if len(self.maps) > 1 else 0][None].to(self.method.device)
        if self.reference is None:
            return None
        reference = self.reference[s][None].to(self.method.device)
        return sensitivity_sets(reference, measured_lines(reference))
