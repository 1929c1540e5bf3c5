"""The grids of a reconstruction: the encoded part of padded k-space, and rows that took the place of columns."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bayesmri.io.layout.turn import turned_header
from bayesmri.kspace import KSpace
from bayesmri.physics.fourier import fft2c, ifft2c

if TYPE_CHECKING:
    from bayesmri.recon.reconstruct import Reconstruction


@dataclass(frozen=True)
class Padding:
    """The stored grid (H, W) and the encoded window [top, bottom) x [left, right) of it."""

    grid: tuple[int, int]
    window: tuple[int, int, int, int]

    @property
    def gain(self) -> float:
        """(hw / HW)^½: by what a unitary transform makes the padded image fainter than the encoded one."""
        top, bottom, left, right = self.window
        return float(np.sqrt((bottom - top) * (right - left) / (self.grid[0] * self.grid[1])))

    def inner(self, crop: tuple[int, int] | None) -> tuple[int, int] | None:
        """The part of the encoded grid that shows what a crop of the stored one does."""
        if crop is None:
            return None
        top, bottom, left, right = self.window
        return round(crop[0] * (bottom - top) / self.grid[0]), round(crop[1] * (right - left) / self.grid[1])

    def widen(self, x: Tensor) -> Tensor:
        """F⁻¹ of F x with zeros around it: complex (…, h, w) → (…, H, W), the same field of view in smaller pixels."""
        return ifft2c(self.around(fft2c(x)))

    def narrow(self, x: Tensor) -> Tensor:
        """The adjoint of `widen`, complex (…, H, W) → (…, h, w): only what was encoded."""
        return ifft2c(self.inside(fft2c(x)))

    def around(self, u: Tensor) -> Tensor:
        """With zeros around, (…, h, w) → (…, H, W)."""
        top, bottom, left, right = self.window
        wide = u.new_zeros((*u.shape[:-2], *self.grid))
        wide[..., top:bottom, left:right] = u
        return wide

    def inside(self, u: Tensor) -> Tensor:
        """The encoded part, (…, H, W) → (…, h, w)."""
        top, bottom, left, right = self.window
        return u[..., top:bottom, left:right].contiguous()


def padding(kspace: KSpace) -> Padding | None:
    """None where the whole grid was encoded."""
    window = kspace.header.encoded
    return None if window is None else Padding((kspace.z.shape[2], kspace.z.shape[3]), window)


def encoded(kspace: KSpace) -> KSpace:
    """K-space, mask, reference and sensitivities of the encoded grid; the header's images stay on the stored one."""
    pad = padding(kspace)
    if pad is None:
        return kspace
    top, bottom, left, right = pad.window

    def cut(z: NDArray[np.complex64] | None) -> NDArray[np.complex64] | None:
        return None if z is None else np.ascontiguousarray(z[..., top:bottom, left:right])

    maps = kspace.sensitivities
    if maps is not None:
        maps = (pad.narrow(torch.from_numpy(maps)) / pad.gain).numpy()
    z = cut(kspace.z)
    assert z is not None
    return replace(
        kspace,
        z=z,
        mask=kspace.encoded_mask,
        header=replace(kspace.header, encoded=None),
        truth=None,
        reference=cut(kspace.reference),
        sensitivities=maps,
        measured=cut(kspace.measured),
    )


def turned_back(result: "Reconstruction") -> "Reconstruction":
    """A reconstruction with rows and columns exchanged again, where the reader had exchanged them.

    Its mask then names points (H, W): whole rows.
    """
    if not result.header.turned:
        return result
    mask, H, W = result.mask, result.grid[1], result.grid[0]
    return replace(
        result,
        mean=sideways(result.mean),
        zero_filled=sideways(result.zero_filled),
        truth=sideways(result.truth),
        std=sideways(result.std),
        deterministic=sideways(result.deterministic),
        samples=sideways(result.samples),
        kspace_mean=sideways(result.kspace_mean),
        kspace_std=sideways(result.kspace_std),
        coil_std=sideways(result.coil_std),
        error_std=sideways(result.error_std),
        error_bound=sideways(result.error_bound),
        visibility={name: found.sideways for name, found in result.visibility.items()},
        mask=np.ascontiguousarray(mask.T if mask.ndim == 2 else np.broadcast_to(mask[:, None], (H, W))),
        header=turned_header(result.header),
        grid=(H, W),
    )


def sideways(X: Any) -> Any:
    """(…, h, w) → (…, w, h); None stays."""
    return None if X is None else np.ascontiguousarray(X.swapaxes(-1, -2))
