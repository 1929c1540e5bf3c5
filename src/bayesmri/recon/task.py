"""A volume as its method takes it: coils, scale, mask and what is known of the sensitivities."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bayesmri.errors import ConfigError, DataError
from bayesmri.io.geometry import center_window
from bayesmri.kspace import KSpace
from bayesmri.physics.data_terms import Coupled, DataTerm
from bayesmri.physics.espirit import FEWEST
from bayesmri.physics.measured import central_lines, measured_lines
from bayesmri.physics.sense import sensitivity_sets
from bayesmri.posterior.rescans import Rescans, rescanned
from bayesmri.recon.check import Scan
from bayesmri.recon.grid import Padding, encoded, padding
from bayesmri.recon.method import Method
from bayesmri.recon.samples import Window
from bayesmri.recon.sound import check_finite
from bayesmri.sampler import Stream

FAR = 1e6  # times the volume's own scale, beyond which another is none of it


@dataclass(frozen=True, eq=False)
class Task:
    """A volume as its method takes it.

    volume: k-space (slices, Q, H, W), not yet divided by `factor`. window: what the images show of the grid.
    maps: sensitivities in the same coils, (slices or 1, J, Q, H, W); reference: k-space to learn them from.
    pad: what lies around the grid in the file, None for nothing. own: the factor that the volume itself would have.
    """

    method: Method
    volume: Tensor
    mask: Tensor
    factor: float
    window: Window
    maps: Tensor | None = None
    reference: Tensor | None = None
    pad: Padding | None = None
    own: float = 1.0

    def shown(self, x: Tensor) -> Tensor:
        """Coil images (…, H, W) on the grid of the file."""
        return x if self.pad is None else self.pad.widen(x)

    @staticmethod
    def of(kspace: KSpace, method: Method, window: Window, *, scale: float | None = None) -> "Task":
        """scale: the factor. Where it is given, every slice is taken as if alone, with virtual coils of its own."""
        method = method if scale is None else apart(method)
        z = torch.from_numpy(kspace.z)
        volume = method.prepare(z)
        mask = torch.from_numpy(kspace.mask).to(method.device)
        own = method.scaling.factor(volume)
        if scale is not None and not 1 / FAR < scale / own < FAR:
            raise DataError(
                f"got the scale {scale:g} for data whose own is {own:g}, expected one of the same volume, as a result "
                "of the same method records it"
            )
        task = Task(method, volume, mask, own if scale is None else scale, window, own=own)
        if kspace.sensitivities is not None:
            if method.prepare_maps is None:
                raise ConfigError(
                    f"got sensitivities with {method.name}, which has no use for them, expected a model that knows "
                    "them, such as tdv-r4; or leave them out"
                )
            return replace(task, maps=method.prepare_maps(torch.from_numpy(kspace.sensitivities), z))
        if kspace.reference is not None and method.prepare_maps is not None and z.shape[1] > 1:
            reference = torch.from_numpy(kspace.reference)
            largest = reference.abs().amax(dim=(1, 2, 3), keepdim=True)  # only ratios between coils count
            reference = reference / torch.where(largest > 0, largest, 1)
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
        """The same, to be reconstructed again from some of its lines.

        Sensitivities stay those of all lines: what is asked is what the image lacks, and to learn them anew from fewer
        lines is no part of that.
        """
        whole = lru_cache(maxsize=1)(self.begin)

        def begin(s: int, lines: Tensor) -> DataTerm:
            mask = lines.to(self.method.device)
            if self.method.prepare_maps is None:
                return replace(self, mask=mask).begin(s)
            D = whole(s)
            if isinstance(D, Coupled):
                return replace(D, z=D.z * mask, mask=mask)
            return self.method.begin(D.z * mask, mask, None)

        def solve(s: int, lines: Tensor) -> Tensor:
            return self.method.solve(begin(s, lines))[0] * self.factor

        return Scan(self.volume, self.mask, solve, begin, self.factor)

    def rescans(self, D: DataTerm, x: Tensor) -> Rescans:
        """What becomes of x_μ, (Q, H, W) in the method's scale, under other lines."""
        return rescanned(D, x[None], self.method.begin, self.method.solve)

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


def apart(method: Method) -> Method:
    """The same method for slices that know nothing of each other: virtual coils are of each."""

    def prepare(z: Tensor) -> Tensor:
        return torch.stack([method.prepare(part.clone()[None])[0] for part in z])

    def prepare_maps(s: Tensor, z: Tensor) -> Tensor:
        assert method.prepare_maps is not None
        several = s if len(s) == len(z) else s.expand(len(z), *s.shape[1:])
        made = [
            method.prepare_maps(own.clone()[None], part.clone()[None])[0] for own, part in zip(several, z, strict=True)
        ]
        return torch.stack(made)

    return replace(method, prepare=prepare, prepare_maps=None if method.prepare_maps is None else prepare_maps)


def task_of(kspace: KSpace, method: Method, *, full_fov: bool = False, scale: float | None = None) -> Task:
    """The encoded grid of a volume; the window is what its images show of the stored one."""
    grid = (kspace.z.shape[2], kspace.z.shape[3])
    crop = None if full_fov else kspace.header.recon_shape
    window = center_window(grid, crop or grid)
    return replace(Task.of(encoded(kspace), method, window, scale=scale), pad=padding(kspace))


def solved_slice(task: Task, D: DataTerm, s: int) -> tuple[Tensor, NDArray[np.float32] | None]:
    """x (Q, H, W) in the method's scale, and σ of its image in the units of the input where the method predicts it."""
    if task.method.moments is None:
        return task.method.solve(D)[0], None
    (x,), (variance,) = task.method.moments(D)
    std = variance.sqrt() * task.factor
    if task.pad is not None:
        std = task.pad.widen(std.to(x.dtype)).real.clamp(min=0)
    found: NDArray[np.float32] = std.cpu().numpy()
    check_finite("the standard deviation", found, task.method, s)
    return x, found


def drawn_samples(task: Task, D: DataTerm, stream: Stream, indices: Sequence[int], s: int) -> Iterator[Tensor]:
    """The samples of these indices of slice s, complex (Q, H, W) on the grid of the file, in the units of the input."""
    assert task.method.sampler is not None
    for i, x in zip(indices, task.method.sampler.samples(D, stream, indices), strict=True):
        check_finite(f"sample {i}", x, task.method, s)
        yield task.shown(x[0]) * task.factor
