"""The image scanned once more: what a reconstruction makes of itself under other lines shows where it errs.

    x'_j = x_S(M_j F x),   M_j other lines that might have been measured, j = 0 … K − 1

x is known, so that x'_j − x is an error that can be seen. It is where this anatomy, with these coils and as many lines,
is hard to reconstruct, and it ranks the unknown error better than draws of the weights do.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from bayesmri.complexes import rss
from bayesmri.machine.workers import one_thread, ordered
from bayesmri.physics.data_terms import Coupled, DataTerm
from bayesmri.physics.fourier import fft2c
from bayesmri.physics.other_lines import other_lines

RESCANS = 2  # of every slice: a third is worth next to nothing

Begin = Callable[[Tensor, Tensor, Tensor | None], DataTerm]
Solve = Callable[[DataTerm], Tensor]


class Rescans(NamedTuple):
    """Root mean squares over j of X'_j − X and of the distance of the coil images, both (B, H, W)."""

    changed: Tensor
    distance: Tensor


@torch.no_grad()
def rescanned(D: DataTerm, x: Tensor, begin: Begin, solve: Solve, K: int = RESCANS) -> Rescans:
    """Of slices (B, Q, H, W) in the scale of D; those of a batch have their masks, all lines or all points.

    begin: (z, mask, None) → a data term, where D knows no sensitivities. The same bits with any number of threads.
    """
    u, X = fft2c(x), rss(x)

    def once(j: int) -> tuple[Tensor, Tensor]:
        with one_thread():
            lines = _other(D.mask, j)
            z = u * lines
            y = solve(replace(D, z=z, mask=lines) if isinstance(D, Coupled) else begin(z, lines, None))
            return (rss(y) - X).square(), rss(y - x).square()

    squares = list(ordered(once, range(K), workers=None if x.device.type == "cpu" else 1))
    return Rescans(*(torch.stack(part).mean(dim=0).sqrt() for part in zip(*squares, strict=True)))


def _other(mask: Tensor, j: int) -> Tensor:
    """Of its shape: (W,), (H, W), or (B, 1, 1 or H, W)."""
    if mask.ndim == 4:
        return torch.stack([_other(one[0], j)[None] for one in mask])
    lines = mask.ndim == 2 and mask.shape[0] == 1
    found = torch.from_numpy(other_lines((mask[0] if lines else mask).cpu().numpy(), j)).to(mask.device)
    return found[None] if lines else found
