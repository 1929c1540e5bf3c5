"""What both anatomies are drawn with: a plane of coordinates, random plane waves, signed distances and paint.

Shapes are signed distances d (negative inside), in units where the shorter side of the field of view is [−1, 1].
An edge is a ramp as wide as a pixel and a half, so that boundary pixels hold partial volumes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Field = NDArray[np.floating[Any]]  # float32 throughout; numpy's annotations forget it in mixed arithmetic
Point = tuple[float, float]  # (x, y): x to the right, y downwards


@dataclass(frozen=True)
class Scene:
    """One slice of one subject: where it is cut, and the subject's own random numbers.

    Every slice replays the draws of its subject from the same seed and differs in z alone; hence no draw may depend
    on z, nor on the size of the grid: a subject is the same at every depth and at every resolution.
    """

    y: Field  # (H, 1)
    x: Field  # (1, W)
    px: float  # pixel pitch
    z: float  # depth of the slice; 0 is the middle of the volume
    rng: np.random.Generator

    def draw(self, lo: float, hi: float) -> float:
        """One number of the subject, uniform on [lo, hi], the same in all its slices."""
        return float(self.rng.uniform(lo, hi))

    def vary(self, lo: float, hi: float) -> float:
        """c + a sin(ωz + φ) ∈ [lo, hi]: a number of the subject that drifts from slice to slice."""
        share, rate, phase = self.draw(0.25, 0.6), self.draw(1.5, 4.0), self.draw(0.0, 2 * np.pi)
        half = (hi - lo) / 2
        centre = self.draw(lo + half * share, hi - half * share)
        return float(centre + half * share * np.sin(rate * self.z + phase))

    def bulge(self, z0: float, reach: float) -> float:
        """Radius at this depth of a unit ball centred at z0 and `reach` deep; 0 where the slice misses it."""
        return float(np.sqrt(max(0.0, 1 - ((self.z - z0) / reach) ** 2)))

    def side(self) -> float:
        """−1 or 1, of the subject."""
        return 1.0 if self.rng.random() < 0.5 else -1.0

    def waves(self, longest: float, shortest: float, n: int = 48, *, tall: float = 1.0, decay: float = 1.0) -> Field:
        """√(2/Σa²) Σ_j a_j cos(k_j·(x, y, z) + φ_j): close to a Gaussian field of unit variance, band limited.

        Amplitudes are a = λ^decay over the band of wavelengths λ; `tall` > 1 stretches the field along y.
        A plane wave is a product of a function of x and one of y, so the sum is one matrix product,
        cos(a + b) = cos a cos b − sin a sin b.
        """
        wavelength = np.exp(self.rng.uniform(np.log(shortest), np.log(longest), n))
        angle = (np.arange(n) + self.rng.random(n)) * np.pi / n  # stratified: no preferred direction by chance
        k = 2 * np.pi / wavelength
        kx, ky = k * np.cos(angle), k * np.sin(angle) / tall
        phase = self.rng.uniform(0, 2 * np.pi, n) + 0.4 * k * self.rng.standard_normal(n) * self.z
        a = wavelength**decay
        a *= np.sqrt(2 / np.sum(a**2))
        across, down = kx[:, None] * self.x, ky * self.y + phase
        left = np.concatenate((a * np.cos(down), -a * np.sin(down)), axis=1).astype(np.float32)
        right = np.concatenate((np.cos(across), np.sin(across)), axis=0).astype(np.float32)
        field: Field = left @ right
        return field


@dataclass(frozen=True)
class Canvas:
    """The picture being painted: water and fat signal apart, so that fat can be suppressed; and what is a lesion."""

    water: Field
    fat: Field
    lesion: Field

    def paint(self, cover: Field, water: float | Field, fat: float | Field = 0.0) -> None:
        """v ← v + cover (tissue − v): `cover` ∈ [0, 1] is the share of each pixel that the tissue fills."""
        self.water[...] += cover * (water - self.water)
        self.fat[...] += cover * (fat - self.fat)

    def paint_lesion(self, cover: Field, water: float | Field, fat: float | Field = 0.0) -> None:
        self.paint(cover, water, fat)
        np.maximum(self.lesion, cover, out=self.lesion)


def blank(scene: Scene) -> Canvas:
    shape = (scene.y.shape[0], scene.x.shape[1])
    return Canvas(np.zeros(shape, np.float32), np.zeros(shape, np.float32), np.zeros(shape, np.float32))


def ramp(d: Field, width: float) -> Field:
    """1 inside (d ≪ 0), 0 outside, a smooth step of the given width about d = 0."""
    t: Field = np.clip(0.5 - d / np.float32(width), 0, 1)
    return t * t * (3 - 2 * t)


def merge(a: Field, b: Field, k: float) -> Field:
    """Union of two shapes with a fillet of size k."""
    h = np.maximum(k - np.abs(a - b), 0)
    union: Field = np.minimum(a, b) - h * h * np.float32(0.25 / k)
    return union


def carve(a: Field, b: Field, k: float) -> Field:
    """Intersection of two shapes with an edge rounded by k."""
    return -merge(-a, -b, k)


def ellipse(x: Field, y: Field, centre: Point, radii: Point, angle: float = 0.0) -> Field:
    """First-order distance to an ellipse, ρ(ρ − 1)/|∇|, turned by `angle` (radians)."""
    c, s = np.float32(np.cos(angle)), np.float32(np.sin(angle))
    dx, dy = x - np.float32(centre[0]), y - np.float32(centre[1])
    u, v = (c * dx + s * dy) / np.float32(radii[0]), (c * dy - s * dx) / np.float32(radii[1])
    rho = np.sqrt(u * u + v * v)
    slope = np.sqrt((u / np.float32(radii[0])) ** 2 + (v / np.float32(radii[1])) ** 2)
    d: Field = rho * (rho - 1) / np.maximum(slope, np.float32(1e-6))
    return d


def strand(x: Field, y: Field, points: Sequence[Point], radii: Sequence[float]) -> Field:
    """Distance to a chain of segments whose radius goes from point to point: ligaments, fissures, horns."""
    d = np.full(np.broadcast_shapes(x.shape, y.shape), np.inf, np.float32)
    for (x0, y0), (x1, y1), r0, r1 in zip(points, points[1:], radii, radii[1:], strict=False):
        ex, ey = x1 - x0, y1 - y0
        t = np.clip(((x - x0) * ex + (y - y0) * ey) / (ex * ex + ey * ey), 0, 1)
        d = np.minimum(d, np.hypot(x - x0 - t * ex, y - y0 - t * ey) - (r0 + t * (r1 - r0)))
    return d.astype(np.float32, copy=False)
