"""M_R: which columns of k-space are acquired, or which points.

Every mask keeps exactly round(W/R) of the W columns, or round(HW/R) of the points.
"""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from bayesmri.errors import MaskError
from bayesmri.physics.pattern import PARTIAL, POINTS, mask_kind
from bayesmri.physics.pattern import MaskKind as MaskKind
from bayesmri.physics.pattern import n_center_lines as n_center_lines
from bayesmri.physics.points import poisson_mask


@dataclass(frozen=True)
class MaskSpec:
    """A rule that draws masks.

    kind: random or equispaced lines, lines of 5/8 of k-space (partial-fourier), points of a Poisson disc (poisson), the
        same without the corners of k-space (elliptical).
    acceleration: R ≥ 1; the mask keeps round(W/R) lines, or round(HW/R) points, fully sampled centre included.
    center_fraction: share of the W lines in that centre; None: 0.32/R (the paper's 8 % at R=4, 4 % at R=8).
        Of points, share of the rows and of the columns; None: 0.64/R.
    offset: of an equispaced mask, the first line taken outside the centre; None draws it.
    also: further R, so that training sees several; every mask has one of them, drawn with equal chances.
    around: R is drawn between R e^(−around) and R e^around.
    equispaced_share, poisson_share: of random masks, how many are equispaced, or points of a Poisson disc, instead.
    """

    kind: MaskKind = "random"
    acceleration: float = 4.0
    center_fraction: float | None = None
    offset: int | None = None
    also: tuple[float, ...] = ()
    around: float = 0.0
    equispaced_share: float = 0.0
    poisson_share: float = 0.0

    def __post_init__(self) -> None:
        mask_kind(self.kind)
        for R in (self.acceleration, *self.also):
            if not 1 <= R < float("inf"):
                raise MaskError(f"got an acceleration of {R:g}, expected a number of at least 1 (1 keeps every line)")
        if self.center_fraction is not None and not 0 <= self.center_fraction <= 1:
            raise MaskError(
                f"got a center fraction of {self.center_fraction:g}, expected a share between 0 and 1, such as 0.08"
            )
        shares = (self.equispaced_share, self.poisson_share)
        if not (0 <= self.around <= 1 and min(shares) >= 0 and sum(shares) <= 1):
            raise MaskError(
                f"got around = {self.around:g}, equispaced_share = {shares[0]:g} and poisson_share = {shares[1]:g}, "
                "expected numbers between 0 and 1, the shares no more than 1 together"
            )

    def plain(self) -> "MaskSpec":
        """The same without variety in R and kind, to judge by."""
        return replace(self, around=0.0, equispaced_share=0.0, poisson_share=0.0)

    @property
    def points(self) -> bool:
        """Whether masks can be of points, for which the height of k-space counts, too."""
        return self.kind in POINTS or self.poisson_share > 0

    def draw(self, shape: int | tuple[int, int], rng: torch.Generator) -> Tensor:
        """One mask for k-space of a shape W or (H, W): bool (W,), or (H, W) where it is of points."""
        H, W = (None, shape) if isinstance(shape, int) else shape
        R = self.acceleration
        if self.also:
            R = (R, *self.also)[int(torch.randint(1 + len(self.also), (1,), generator=rng))]
        if self.around:
            R = max(1.0, R * math.exp(self.around * (2 * float(torch.rand(1, generator=rng)) - 1)))
        kind = self._kind(rng)
        if kind in POINTS:
            if H is None:
                raise MaskError(f"got only a width, {W}, for a mask of points, expected rows and columns")
            ellipse = kind == "elliptical"
            return poisson_mask((H, W), R, center_fraction=self.center_fraction, ellipse=ellipse, rng=rng)
        if kind == "equispaced":
            return equispaced_mask(W, R, center_fraction=self.center_fraction, offset=self.offset, rng=rng)
        draw = partial_fourier_mask if kind == "partial-fourier" else random_mask
        return draw(W, R, center_fraction=self.center_fraction, rng=rng)

    def _kind(self, rng: torch.Generator) -> MaskKind:
        if self.kind != "random" or not self.equispaced_share + self.poisson_share:
            return self.kind
        place = float(torch.rand(1, generator=rng))
        if place < self.equispaced_share:
            return "equispaced"
        return "poisson" if place < self.equispaced_share + self.poisson_share else "random"


def random_mask(W: int, R: float, *, center_fraction: float | None = None, rng: torch.Generator) -> Tensor:
    """Fully sampled centre, and the rest of round(W/R) lines uniformly without replacement (the paper's mask)."""
    mask, outer, n_rest = _centred(W, R, center_fraction)
    mask[outer[torch.randperm(len(outer), generator=rng)[:n_rest]]] = True
    return mask


def partial_fourier_mask(W: int, R: float, *, center_fraction: float | None = None, rng: torch.Generator) -> Tensor:
    """Fully sampled centre, and the rest of round(W/R) lines within 5/8 of k-space, from one of its edges on."""
    mask, outer, n_rest = _centred(W, R, center_fraction)
    covered = round(PARTIAL * W)
    outer = outer[outer < covered] if float(torch.rand(1, generator=rng)) < 0.5 else outer[outer >= W - covered]
    if n_rest > len(outer):
        raise MaskError(
            f"R={R:g} keeps {n_rest + int(mask.sum())} lines, partial Fourier covers {covered} of {W}: raise the "
            "acceleration"
        )
    mask[outer[torch.randperm(len(outer), generator=rng)[:n_rest]]] = True
    return mask


def equispaced_mask(
    W: int, R: float, *, center_fraction: float | None = None, offset: int | None = None, rng: torch.Generator
) -> Tensor:
    """Fully sampled centre, and the rest of round(W/R) lines evenly over the others; gaps differ by at most one line.

    offset: the first outer line taken, less than the spacing; None draws it from `rng`.
    """
    mask, outer, n_rest = _centred(W, R, center_fraction)
    n_outer = len(outer)
    largest = 0 if n_rest == 0 else (n_outer - 1) // n_rest
    if offset is not None and not 0 <= offset <= largest:
        wanted = f"a whole number from 0 to {largest}, less than the spacing" if largest else "0, the only one possible"
        raise MaskError(
            f"got the offset {offset} for {n_rest} of {n_outer} lines outside the centre, expected {wanted}"
        )
    if n_rest == 0:
        return mask
    if offset is None:
        offset = int(torch.randint(max(1, n_outer // n_rest), (1,), generator=rng))
    mask[outer[torch.arange(n_rest) * n_outer // n_rest + offset]] = True
    return mask


def _centred(W: int, R: float, center_fraction: float | None) -> tuple[Tensor, Tensor, int]:
    """The mask with its fully sampled centre only, the indices of the other lines, and how many of those to take."""
    n_keep = round(W / R)
    n_center = n_center_lines(W, R, center_fraction)
    if n_keep < 1:
        raise MaskError(f"R={R:g} keeps none of {W} lines: lower the acceleration")
    if n_center > n_keep:
        raise MaskError(
            f"a centre of {n_center} lines exceeds the {n_keep} of {W} lines that R={R:g} keeps: "
            "lower the center fraction or the acceleration"
        )
    mask = torch.zeros(W, dtype=torch.bool)
    first = (W - n_center + 1) // 2
    mask[first : first + n_center] = True
    return mask, torch.nonzero(~mask).flatten(), n_keep - n_center
