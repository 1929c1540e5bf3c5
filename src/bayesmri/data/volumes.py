"""From a volume of the catalogue to one slice in the image domain: measured coil images, or a magnitude image."""

import hashlib
import math
from pathlib import Path
from typing import get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bayesmri.complexes import rss
from bayesmri.data.cache import Array, ArrayCache
from bayesmri.data.catalog import Volume
from bayesmri.data.phantom import Anatomy, Contrast, PhantomSpec, phantom
from bayesmri.errors import DataError
from bayesmri.io.formats import read
from bayesmri.io.safe_h5 import dataset, open_h5
from bayesmri.kspace import KSpace, check_finite
from bayesmri.physics.coils import emulate_single_coil
from bayesmri.physics.fourier import ifft2c

WHOLE = 64 * 2**20  # bytes; smaller volumes are decoded at once, larger ones slice by slice
LEVELS = 65535  # magnitude is kept as uint16: half the memory, finer than any scanner's 12 bits


class SliceReader:
    """Slices of volumes through a bounded cache.

    single: files of several coils give their emulated single coil.
    """

    def __init__(self, *, single: bool, cache_bytes: int) -> None:
        self.single = single
        self.cache = ArrayCache(cache_bytes)
        self._peaks: dict[tuple[int, str], float] = {}

    def coil_images(self, volume: Volume, index: int) -> Tensor:
        """y of one slice of a measured volume, complex64 (Q, H, W)."""
        return torch.from_numpy(self._slice(volume, index))

    def magnitude(self, volume: Volume, index: int) -> Tensor:
        """X of one slice of a magnitude volume, float32 (H, W).

        Its volume has maximum 1; where slices are read one by one, each slice has.
        """
        return torch.from_numpy(self._slice(volume, index).astype(np.float32) / LEVELS)

    def share(self, volume: Volume, y: Tensor) -> float:
        """max RSS(y) over that of its whole volume, in (0, 1]: the brightest slice sets the scale that models see.

        y: coil images of a slice, or of a part of one, complex (Q, H, W).
        """
        peak, own = self._peak(volume), float(rss(y).max())
        return min(1.0, own / peak) if own > 0 and 0 < peak < math.inf else 1.0

    def _peak(self, volume: Volume) -> float:
        """max RSS of the volume; 0 where that is not known without reading all of a large file."""
        if not volume.coils:
            return 1.0  # see `magnitude`
        key = _key(volume)
        if key not in self._peaks:
            self._peaks[key] = (
                _stated_peak(volume)
                if _large(volume)
                else max(float(rss(torch.from_numpy(y)).max()) for y in self._whole(volume))
            )
        return self._peaks[key]

    def _slice(self, volume: Volume, index: int) -> Array:
        if _large(volume):
            return self.cache.get((*_key(volume), index), lambda: self._decode(volume, index)[0])
        return np.asarray(self._whole(volume)[index])

    def _whole(self, volume: Volume) -> Array:
        return self.cache.get(_key(volume), lambda: self._decode(volume, None))

    def _decode(self, volume: Volume, index: int | None) -> Array:
        if volume.path is None:
            return _levels(draw_phantom(volume).numpy())
        if index is not None:
            raw = _read_slice(volume.path, volume.layout, index)
            return self._images(raw) if volume.coils else _levels(raw.astype(np.float32))
        data = read(volume.path)
        return self._images(data.z) if isinstance(data, KSpace) else _levels(data.magnitude)

    def _images(self, z: NDArray[np.complex64]) -> Array:
        """k-space (slices, Q, H, W) → coil images, slice by slice to bound the memory."""
        y = torch.stack([ifft2c(torch.from_numpy(part)) for part in z])
        if self.single and y.shape[1] > 1:
            y = emulate_single_coil(y)
        return np.asarray(y.numpy())


def _key(volume: Volume) -> tuple[int, str]:
    """What tells a volume from all others: its path, since files in several folders may share a name."""
    return volume.source, str(volume.path or volume.name)


def _large(volume: Volume) -> bool:
    return volume.nbytes > WHOLE and bool(volume.layout)


def _stated_peak(volume: Volume) -> float:
    """What fastMRI's files say of the maximum of their reconstruction; 0 where one says nothing."""
    assert volume.path is not None
    with open_h5(volume.path) as file:
        stated = file.attrs.get("max", 0.0)
    return float(stated) if isinstance(stated, (int, float, np.number)) else 0.0


def draw_phantom(volume: Volume) -> Tensor:
    """The phantom that a volume's name stands for: the name is its seed."""
    anatomy = next(name for name in get_args(Anatomy) if volume.name.startswith(name))
    seed = int.from_bytes(hashlib.sha256(volume.name.encode()).digest()[:4])
    contrast: Contrast = "PD-FS" if seed % 2 and anatomy == "knee" else "PD"
    spec = PhantomSpec(anatomy=anatomy, contrast=contrast, shape=volume.shape)
    return phantom(spec, rng=torch.Generator().manual_seed(seed))


def _read_slice(path: Path, layout: str, index: int) -> Array:
    """One slice of an HDF5 file as (1, [Q,] H, W)."""
    with open_h5(path) as file:
        data = dataset(file, layout)
        if data.dtype.kind not in ("c" if layout == "kspace" else "uif"):
            raise DataError(
                f"`{layout}` in {path.name} has dtype {data.dtype}, expected complex k-space or a real image"
            )
        part = np.asarray(data[index : index + 1])
    check_finite(f"`{layout}` in {path.name}", part)
    if layout == "image":
        return part
    part = part.astype(np.complex64)
    return part if part.ndim == 4 else part[:, None]


def _levels(magnitude: NDArray[np.float32]) -> Array:
    """Non-negative values → uint16 with the maximum at LEVELS."""
    peak = max(float(magnitude.max()), 1e-30)
    levels: Array = np.rint(np.clip(magnitude, 0, None) * (LEVELS / peak)).astype(np.uint16)
    return levels
