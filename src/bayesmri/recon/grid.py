"""The grids of a reconstruction: the encoded part of padded k-space, and rows that took the place of columns."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bayesmri.errors import ConfigError
from bayesmri.io.layout.turn import turned_header
from bayesmri.kspace import KSpace
from bayesmri.physics.fourier import fft2c, ifft2c
from bayesmri.recon.request import Options

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
        top, bottom, left, right = self.window
        u = x.new_zeros((*x.shape[:-2], *self.grid))
        u[..., top:bottom, left:right] = fft2c(x)
        return ifft2c(u)

    def narrow(self, x: Tensor) -> Tensor:
        """The adjoint of `widen`, complex (…, H, W) → (…, h, w): only what was encoded."""
        top, bottom, left, right = self.window
        return ifft2c(fft2c(x)[..., top:bottom, left:right].contiguous())


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


def check_survey(kspace: KSpace, asked: Options) -> None:
    """Maps of visibility are of the grid and the orientation that were encoded."""
    if asked.visibility:
        check_as_encoded(kspace, "maps of visibility", otherwise="leave the visibility out")


def check_as_encoded(kspace: KSpace, what: str, *, otherwise: str) -> None:
    """Neither padded nor turned."""
    if kspace.header.turned or kspace.header.encoded is not None:
        why = "undersampled along its rows" if kspace.header.turned else "zero-padded"
        raise ConfigError(
            f"got a request for {what} with k-space that is {why}, expected neither padding nor a turn; "
            f"store the encoded lines alone, the undersampled axis last, or {otherwise}"
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
        mean=_sideways(result.mean),
        zero_filled=_sideways(result.zero_filled),
        truth=_sideways(result.truth),
        std=_sideways(result.std),
        deterministic=_sideways(result.deterministic),
        samples=_sideways(result.samples),
        kspace_mean=_sideways(result.kspace_mean),
        kspace_std=_sideways(result.kspace_std),
        coil_std=_sideways(result.coil_std),
        error_std=_sideways(result.error_std),
        error_bound=_sideways(result.error_bound),
        mask=np.ascontiguousarray(mask.T if mask.ndim == 2 else np.broadcast_to(mask[:, None], (H, W))),
        header=turned_header(result.header),
        grid=(H, W),
    )


def _sideways(X: Any) -> Any:
    return None if X is None else np.ascontiguousarray(X.swapaxes(-1, -2))
