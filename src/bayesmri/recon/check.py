"""The error of a scan without its truth: measured lines are left out, reconstructed without, and compared.

What they say of the lines that were never measured is in `bounds/left_out.py`; here the reconstructions are made, and
the energy of the complex error becomes that of the magnitude image:

    κ_r = ‖ |x − e| − |x| ‖² / ‖e‖²,   e = F⁻¹r on the left-out lines, scaled to the energy expected
    κ = κ_r exp(g₀ + g₁ c + g₂ ν)

c says how far the outer part of the fully sampled centre is in phase with its inner part, ν how much of the error is
noise of the missing lines; g is fitted (`ErrorScale`).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bayesmri.bounds.expected import ErrorScale, Expected, scale_for
from bayesmri.bounds.left_out import LEAST, N_FOLDS, folds, lost_share
from bayesmri.complexes import rss
from bayesmri.kspace import KSpace
from bayesmri.machine.workers import one_thread, ordered
from bayesmri.metrics import CROP, center_crop
from bayesmri.physics.data_terms import DataTerm
from bayesmri.physics.fourier import fft2c, ifft2c
from bayesmri.physics.pattern import radius
from bayesmri.recon.expectation import TINY, Told, expect
from bayesmri.recon.method import Method

HOT = 1.8  # times the maximum of the zero-filled image, which few truths exceed


@dataclass(frozen=True, eq=False)
class Scan:
    """A volume as its method takes it.

    z: k-space (slices, Q, H, W), zero-filled, in the units of the input. mask: bool (W,) or (H, W).
    solve: x, complex (Q, H, W) in the same units, of slice s from the lines given alone, a part of the mask.
    begin: the data term of the same, in the method's scale, which `factor` times is that of the input.
    """

    z: Tensor
    mask: Tensor
    solve: Callable[[int, Tensor], Tensor]
    begin: Callable[[int, Tensor], DataTerm]
    factor: float = 1.0


@dataclass(frozen=True, eq=False)
class HeldOut:
    """One slice. residual: F x₋ − z where left out, else 0, complex (Q, H, W).

    energy: E of every column (W,) or point (H, W), were it missing; its sum over missing ones is ‖e‖² expected there.
    misfit: ‖F x − z‖² on acquired lines, which is known. power: ‖u‖² expected of all lines.
    """

    residual: Tensor
    energy: NDArray[np.float64]
    missing: float
    misfit: float
    power: float

    @property
    def total(self) -> float:
        """‖e‖² of the coil images, by Parseval."""
        return self.missing + self.misfit

    @property
    def error_map(self) -> Tensor:
        """|F⁻¹r| over the coils, scaled to that total: where the left-out lines place the error, (H, W)."""
        e = rss(ifft2c(self.residual))
        return e * math.sqrt(self.total / max(float(e.double().square().sum()), TINY))


def left_out_residual(
    scan: Scan,
    s: int,
    fold: NDArray[np.int64],
    step: Callable[[], None] | None = None,
    made: Sequence[Tensor | None] = (),
) -> Tensor:
    """F x₋ − z on the cells of every fold, from the reconstruction without them; 0 elsewhere: (Q, H, W).

    made: x₋ of every fold, where they are there already.
    """
    z = scan.z[s]
    residual = torch.zeros_like(z)
    for j, x in enumerate(made):
        if x is not None:
            residual += (fft2c(x.to(z.device)) - z) * torch.from_numpy(fold == j).to(z.device)
    if made:
        return residual

    def without(j: int) -> tuple[Tensor, Tensor | None]:
        gone = torch.from_numpy(fold == j).to(z.device)
        with one_thread():
            return gone, scan.solve(s, scan.mask.to(z.device) & ~gone).to(z.device) if bool(gone.any()) else None

    for gone, x in ordered(without, range(N_FOLDS), workers=None if scan.mask.device.type == "cpu" else 1):
        if x is not None:
            residual += (fft2c(x) - z) * gone
        if step is not None:
            step()
    return residual


def holdout_energy(
    scan: Scan, s: int, x: Tensor, step: Callable[[], None] | None = None, made: Sequence[Tensor | None] = ()
) -> HeldOut:
    """What four reconstructions without a quarter of the outer lines each tell about slice s. x: the one with all.

    made: the four, where they are there already.
    energy is NaN-free and 0 everywhere where too few lines could be left out.
    """
    mask = scan.mask.cpu().numpy()
    fold = folds(mask)
    z, x = scan.z[s], x.to(scan.z.device)
    residual = left_out_residual(scan, s, fold, step, made)
    known = _cells(z, mask.ndim)
    u = fft2c(x)
    filled = _cells(u, 1) if mask.ndim == 1 else None  # single points are as noisy as dice
    found = lost_share(known, _cells(residual, mask.ndim), mask, fold, filled=filled)
    energy = np.zeros(mask.shape) if found is None else found.energy
    power = known[mask].sum() + (0.0 if found is None else found.power[~mask].sum())
    misfit = float(((u - z) * scan.mask.to(z.device)).abs().double().square().sum())
    return HeldOut(residual, energy, float(energy[~mask].sum()), misfit, float(power))


@dataclass
class Checker:
    """Slices of a volume as they are reconstructed. crop: what is shown of the grid; on_step: after each of four."""

    scan: Scan
    scale: ErrorScale
    crop: Callable[[Tensor], Tensor]
    on_step: Callable[[], None] | None = None
    slices: list[Told] = field(default_factory=list)

    @staticmethod
    def of(
        scan: Scan,
        kspace: KSpace,
        method: Method,
        crop: tuple[int, int] | None,
        on_step: Callable[[], None] | None = None,
    ) -> "Checker":
        """By the numbers that were fitted for such data. crop: (h, w) of the image, None: the whole grid."""
        scale = scale_for(method.scales, coils=kspace.z.shape[1], acceleration=kspace.acceleration)
        return Checker(scan, scale, lambda X: X if crop is None else center_crop(X, crop), on_step)

    def add(self, s: int, x: Tensor, made: Sequence[Tensor | None] = ()) -> HeldOut:
        """Slice s, reconstructed as x from all its lines, in the units of the input. made: without each fold."""
        x = x.to(self.scan.z.device)
        held = holdout_energy(self.scan, s, x, self.on_step, made)
        X = self._shown(rss(x)).double()
        share = float(X.square().sum()) / max(float(x.abs().double().square().sum()), TINY)
        seen, peak, error = self._magnitude(s, X, x, held)
        self.slices.append(
            Told(
                missing=held.missing,
                misfit=held.misfit,
                seen=seen,
                coherence=phase_coherence(self.scan.z[s], self.scan.mask),
                noise=missing_noise(self.scan.z[s], self.scan.mask),
                power=share * held.power,
                peak=peak,
                pixels=X.numel(),
                grid=math.prod(self.scan.z.shape[-2:]),
                error=error,
            )
        )
        return held

    @property
    def left_out(self) -> int:
        """Lines, or points, of all folds together."""
        return int((folds(self.scan.mask.cpu().numpy()) >= 0).sum())

    def expected(self) -> tuple[Expected | None, str]:
        """Of the volume; None and a reason where it cannot be told."""
        exact = bool(self.scan.mask.all())
        if not exact and self.left_out < LEAST:
            cells = "lines" if self.scan.mask.ndim == 1 else "points"
            return None, (
                f"the error to be expected cannot be told: {self.left_out} {cells} outside the centre are too few to "
                f"leave some out, {LEAST} are needed"
            )
        return expect(self.slices, self.scale, left_out=0 if exact else self.left_out), ""

    def _shown(self, X: Tensor) -> Tensor:
        """As metrics count: the image of the file, its central part."""
        return center_crop(self.crop(X), CROP)

    def _magnitude(self, s: int, X: Tensor, x: Tensor, held: HeldOut) -> tuple[float, float, float | None]:
        """κ_r of what is shown, max |y|, and ‖ |x| − |y| ‖² where nothing is missing, so that y is known.

        The maximum lies between that of the image, which has lost detail and noise, and that of |x − e|, and not far
        above that of the zero-filled image: a hot pixel is none of the truth's.
        """
        if bool(self.scan.mask.all()):
            Y = self._shown(rss(ifft2c(self.scan.z[s]))).double()
            return 1.0, float(Y.max()), float((X - Y).square().sum())
        e = ifft2c(held.residual)
        energy = float(e.abs().double().square().sum())
        if energy == 0 or held.total == 0:
            return 1.0, float(X.max()), None
        Y = self._shown(rss(x - e * math.sqrt(held.total / energy))).double()
        most = HOT * float(self._shown(rss(ifft2c(self.scan.z[s]))).max())
        return float((X - Y).square().sum()) / held.total, min(most, math.sqrt(float(X.max()) * float(Y.max()))), None


def phase_coherence(z: Tensor, mask: Tensor) -> float:
    """(Re − Im)/(Re + Im) of the energies of v* h, in [−1, 1]: 1 where all that is fine shares the coarse phase.

    v: the image of the innermost part of the fully sampled centre, divided by its root-sum-of-squares; h: of the rest
    of that centre, which for lines has all rows. z: (Q, H, W). 0 where the centre is too small.
    """
    k = torch.from_numpy(radius(tuple(z.shape[-2:]))).to(z.device)
    centre, reach = _centre_of(mask.to(z.device), k)
    inner = torch.where(k < reach, torch.cos(0.5 * torch.pi * k / max(reach, TINY)) ** 2, torch.zeros_like(k))
    v, h = ifft2c(z * (inner * centre).to(z.real.dtype)), ifft2c(z * (centre & (k >= reach)))
    seen = (v.conj() * h).sum(dim=-3) / rss(v).clamp(min=torch.finfo(z.real.dtype).tiny)
    re, im = (float(part.double().square().sum()) for part in (seen.real, seen.imag))
    return (re - im) / (re + im) if re + im > 0 else 0.0


def _centre_of(mask: Tensor, k: Tensor) -> tuple[Tensor, float]:
    """The fully sampled centre on the grid, bool (H, W), and the |k| that parts it into inner and outer."""
    if mask.ndim == 2:
        edge = float(k[~mask].min()) if not bool(mask.all()) else float(k.max())
        return k < edge, edge / 2
    W = mask.numel()
    apart = (torch.arange(W, device=mask.device) - W // 2).abs()
    edge = int(apart[~mask].min()) if not bool(mask.all()) else W // 4
    return (apart < edge).expand(k.shape), edge / W


def noise_variance(z: Tensor, mask: Tensor) -> float:
    """E|ν|² of a sample of k-space (Q, H, W): ln 2 times it is the median of |z|² on the outermost acquired tenth.

    Where signal reaches as far, it is too large.
    """
    k = torch.from_numpy(radius(tuple(z.shape[-2:]))).to(z.device)
    there = mask.to(z.device).expand(k.shape)
    outer = there & (k >= torch.quantile(k[there], 0.9))
    return float(z[..., outer].abs().double().square().median()) / math.log(2)


def missing_noise(z: Tensor, mask: Tensor) -> float:
    """The energy of the noise on what is missing of a slice (Q, H, W)."""
    Q, H, _ = z.shape
    return Q * int((~mask).sum()) * (H if mask.ndim == 1 else 1) * noise_variance(z, mask)


def _cells(z: Tensor, ndim: int) -> NDArray[np.float64]:
    """|z|² over coils, and over rows where cells are columns."""
    power = z.abs().double().square().sum(dim=-3)
    found: NDArray[np.float64] = (power.sum(dim=-2) if ndim == 1 else power).cpu().numpy()
    return found
