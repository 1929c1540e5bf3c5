"""A procedural phantom: randomised knees and heads with fine structure and small lesions, or dead leaves."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from bayesmri.data.phantom_canvas import Canvas, Field, Scene
from bayesmri.data.phantom_head import head
from bayesmri.data.phantom_knee import knee
from bayesmri.data.phantom_leaves import leaves
from bayesmri.errors import ConfigError, ShapeError
from bayesmri.io.guard import byte_budget, sizes
from bayesmri.kspace import MIN_SIZE

Anatomy = Literal["knee", "head", "leaves"]
Contrast = Literal["PD", "PD-FS"]

FINE = 160  # pixels on the shorter side; smaller grids are drawn finer than this and averaged
MAX_PIXELS = 2**25  # of a slice as it is drawn, which takes some forty arrays of that size
SPACING = 0.04  # slice distance, in half fields of view: about 3 mm
DEPTH = 1.2  # the volume's largest extent; more slices lie closer

ANATOMIES: dict[str, Callable[[Scene], Canvas]] = {"knee": knee, "head": head, "leaves": leaves}


@dataclass(frozen=True, kw_only=True)
class PhantomSpec:
    """What to draw. Pixels are square: the anatomy fills the shorter side and is not stretched along the longer."""

    anatomy: Anatomy
    contrast: Contrast = "PD"
    shape: tuple[int, int]
    slices: int = 1

    def __post_init__(self) -> None:
        if self.anatomy not in get_args(Anatomy):
            raise ConfigError(
                f"got the unknown anatomy {self.anatomy!r}, expected one of {', '.join(get_args(Anatomy))}"
            )
        if self.contrast not in get_args(Contrast):
            raise ConfigError(
                f"got the unknown contrast {self.contrast!r}, expected one of {', '.join(get_args(Contrast))}"
            )
        if len(self.shape) != 2 or min(self.shape) < MIN_SIZE:
            raise ShapeError(
                f"got a phantom of shape {tuple(self.shape)}, expected (H, W), each at least {MIN_SIZE} pixels"
            )
        if self.slices < 1:
            raise ShapeError(f"got a phantom of {self.slices} slices, expected at least 1")
        if self.fine**2 * math.prod(self.shape) > MAX_PIXELS or 4 * self.slices * math.prod(self.shape) > byte_budget():
            raise ShapeError(
                f"got a phantom of {self.slices} slices of {sizes(self.shape)} pixels, expected fewer pixels"
            )

    @property
    def fine(self) -> int:
        """How many times finer than its pixels a slice is drawn."""
        return max(1, -(-FINE // min(self.shape)))


def phantom(spec: PhantomSpec, *, rng: torch.Generator, on_slice: Callable[[], None] | None = None) -> Tensor:
    """Magnitude, float32 (slices, H, W) in [0, 1]: one subject, its slices in order.

    on_slice: called after each slice, for a progress bar.
    """
    return phantom_with_labels(spec, rng=rng, on_slice=on_slice)[0]


def phantom_with_labels(
    spec: PhantomSpec, *, rng: torch.Generator, on_slice: Callable[[], None] | None = None
) -> tuple[Tensor, Tensor]:
    """The magnitude and where its lesions are, bool (slices, H, W).

    One number is taken from `rng`: the subject. The same subject is the same anatomy in both contrasts, at any size.
    """
    subject = int(torch.randint(2**62, (1,), generator=rng, device=rng.device).item())
    step = min(SPACING, DEPTH / spec.slices)
    depths = [step * (i - (spec.slices - 1) / 2) for i in range(spec.slices)]
    pairs = []
    for z in depths:
        pairs.append(_slice(spec, subject, z))
        if on_slice is not None:
            on_slice()
    magnitude = np.stack([m for m, _ in pairs])
    # a few hot pixels must not set the scale of the whole volume
    magnitude = np.clip(magnitude / max(float(np.quantile(magnitude, 0.999)), 1e-6), 0, 1)
    cover = np.stack([c for _, c in pairs])
    # thin lesions on coarse grids never fill a pixel: keep at least where they fill most
    lesions = cover > min(0.3, float(cover.max()) / 2)
    return torch.from_numpy(magnitude.astype(np.float32)), torch.from_numpy(lesions)


def _slice(spec: PhantomSpec, subject: int, z: float) -> tuple[Field, Field]:
    """Signal and lesion cover of one slice, drawn `fine` times finer and averaged over pixels."""
    H, W = spec.shape
    fine = spec.fine
    px = 2 / (fine * min(H, W))
    y, x = (((np.arange(n * fine) - (n * fine - 1) / 2) * px).astype(np.float32) for n in (H, W))
    scene = Scene(y[:, None], x[None, :], px, z, np.random.default_rng(subject))
    canvas = ANATOMIES[spec.anatomy](scene)
    signal = _contrast(canvas, scene, spec.contrast)
    return _point_spread(_average(signal, fine)), _average(canvas.lesion, fine)


def _contrast(canvas: Canvas, scene: Scene, contrast: Contrast) -> Field:
    """PD = (w + f)·b; PD-FS = (w + ε f)·b, where ε is what the fat pulse leaves and b the shading of the field."""
    shading = 1 + scene.draw(0.04, 0.12) * scene.waves(4.0, 1.5, 8)
    residue = scene.draw(0.06, 0.14) * (1 + 0.5 * scene.waves(3.0, 1.0, 8))  # the pulse misses where B₀ is off
    share = 1.0 if contrast == "PD" else np.clip(residue, 0.02, 0.4)
    signal: Field = np.maximum((canvas.water + share * canvas.fat) * shading, 0).astype(np.float32)
    return signal


def _average(field: Field, n: int) -> Field:
    H, W = field.shape
    mean: Field = field.reshape(H // n, n, W // n, n).mean(axis=(1, 3), dtype=np.float32)
    return mean


def _point_spread(field: Field) -> Field:
    """(0.1, 0.8, 0.1) along each axis: what the decay of the echo takes from the highest frequencies."""
    for axis in (0, 1):
        width = [(1, 1) if i == axis else (0, 0) for i in (0, 1)]
        wide = np.moveaxis(np.pad(field, width, mode="edge"), axis, 0)
        field = np.moveaxis(0.8 * wide[1:-1] + 0.1 * (wide[:-2] + wide[2:]), 0, axis)
    return np.ascontiguousarray(field, np.float32)
