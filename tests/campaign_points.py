# ruff: noqa: E501  (a way is one line)
"""One 3-D scan of points, and one of its slices, stored or damaged in many ways, each with its verdict.

Masks of two axes: a Poisson disc, the same within an ellipse, every second row and column, partial Fourier of lines, and
of both axes. A way names its mask; `flat` ways store one slice, the others the whole slab (Q, RO, N, N).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bayesmri.data.phantom import PhantomSpec, phantom
from bayesmri.data.simulate import Scanner, acquire
from bayesmri.physics.points import poisson_mask
from campaign import RIGHT, Array, Verdict, padded, pairs, refused, right, single, told
from reader_files import write_cfl, write_h5

N, Q, RO = 48, 4, 16
MIDDLE = RO // 2


@dataclass(frozen=True)
class Points:
    """u: one slice (Q, N, N), fully sampled; k: the slab (Q, RO, N, N), whose middle slice it is; mask: (N, N)."""

    u: Array
    k: Array
    mask: Array

    @property
    def z(self) -> Array:
        return (self.u * self.mask).astype(np.complex64)

    @property
    def z3(self) -> Array:
        return (self.k * self.mask).astype(np.complex64)


@dataclass(frozen=True)
class Way:
    """flat: one slice and not a slab. turned: rows and columns are exchanged in the file. size: of its grid."""

    name: str
    mask: str
    write: Callable[[Path, Points], Path]
    verdict: Verdict
    flags: tuple[str, ...] = ()
    turned: bool = False
    flat: bool = True
    size: int = N


@cache
def slab() -> tuple[Array, Array]:
    """(u, k): a head that fades towards both ends of the readout."""
    X = phantom(PhantomSpec(anatomy="head", shape=(N, N)), rng=torch.Generator().manual_seed(5))
    u = acquire(X / X.max(), Scanner(coils=Q, snr_db=30.0), rng=torch.Generator().manual_seed(6)).numpy()[0]
    bump = np.cos(np.pi * (np.arange(RO) - MIDDLE) / (RO + 2)) ** 2
    return u, along_readout(np.multiply.outer(bump, u), inverse=False).swapaxes(0, 1)


@cache
def points(name: str) -> Points:
    return Points(*slab(), mask(name))


def mask(name: str) -> Array:
    h, w = np.indices((N, N))
    if name == "grid":
        block = (abs(h - N // 2) < 8) & (abs(w - N // 2) < 8)
        return np.asarray(((h % 2 == 0) & (w % 2 == 0)) | block)
    if name == "one side":
        return w >= N // 2 - 12
    if name == "one corner":
        return (w >= N // 2 - 12) & (h >= N // 2 - 12)
    if name == "lines":
        return np.asarray((w % 3 == 0) | (abs(w - N // 2) < 8))
    rng = torch.Generator().manual_seed(7)
    return np.asarray(poisson_mask((N, N), 3, center_fraction=0.3, ellipse=name == "ellipse", rng=rng).numpy())


def along_readout(k: Array, *, inverse: bool) -> Array:
    """Centred and unitary, along the first axis."""
    transform = np.fft.ifft if inverse else np.fft.fft
    return np.fft.fftshift(transform(np.fft.ifftshift(k, axes=0), axis=0, norm="ortho"), axes=0)


def hybrid(k: Array) -> Array:
    """(Q, RO, N, N) with the readout transformed already."""
    return along_readout(k.swapaxes(0, 1), inverse=True).swapaxes(0, 1).astype(np.complex64)


def npy(make: Callable[[Points], Array]) -> Callable[[Path, Points], Path]:
    def write(folder: Path, scan: Points) -> Path:
        np.save(folder / "scan.npy", make(scan))
        return folder / "scan.npy"

    return write


def npz(make: Callable[[Points], dict[str, Array]]) -> Callable[[Path, Points], Path]:
    def write(folder: Path, scan: Points) -> Path:
        np.savez(folder / "scan.npz", **make(scan))  # type: ignore[arg-type]
        return folder / "scan.npz"

    return write


def h5(make: Callable[[Points], dict[str, Any]]) -> Callable[[Path, Points], Path]:
    return lambda folder, scan: write_h5(folder / "scan.h5", make(scan))


def cfl(make: Callable[[Points], Array]) -> Callable[[Path, Points], Path]:
    return lambda folder, scan: write_cfl(folder / "scan", make(scan))


def said(make: Callable[[Points], Array], given: Callable[[Points], Array]) -> Callable[[Path, Points], Path]:
    """A .npy file, and mask.npy for `--mask`."""

    def write(folder: Path, scan: Points) -> Path:
        np.save(folder / "mask.npy", given(scan).astype(np.uint8))
        return npy(make)(folder, scan)

    return write


def bart(z: Array) -> Array:
    """(Q, …) as BART has it: coils in dimension 3."""
    return np.moveaxis(z, 0, -1) if z.ndim == 4 else np.moveaxis(z, 0, -1)[:, :, None]


def shifted(z: Array) -> Array:
    return np.fft.ifftshift(z, axes=(-2, -1))


def image(z: Array) -> Array:
    return np.fft.fftshift(np.fft.ifft2(shifted(z), norm="ortho"), axes=(-2, -1))


def turn(z: Array) -> Array:
    return np.swapaxes(z, -1, -2)


def lacking(z: Array, q: int) -> Array:
    """One coil without half of its points."""
    out = z.copy()
    out[q, ..., ::2, :] = 0
    return out


AXES, MASK = "--axes", ("--mask", "mask.npy")
READOUT = (AXES, "coil readout row column")
TWO = "along two axes"
FLAT = [
    Way("Poisson", "poisson", npy(lambda s: s.z), right(TWO)),
    Way("Poisson, single coil", "poisson", npy(lambda s: s.z[:1]), told(TWO)),
    Way("Poisson, its mask", "poisson", npz(lambda s: {"kspace": s.u, "mask": s.mask}), RIGHT),
    Way("Poisson, HDF5 with its mask", "poisson", h5(lambda s: {"kspace": s.u[None], "mask": s.mask}), RIGHT),
    Way("Poisson, HDF5 without", "poisson", h5(lambda s: {"kspace": s.z[None]}), right(TWO)),
    Way("Poisson, a wrong mask", "poisson", h5(lambda s: {"kspace": s.z[None], "mask": np.ones((N, N))}), refused("hold nothing but zeros")),
    Way("Poisson, a mask of another size", "poisson", h5(lambda s: {"kspace": s.z[None], "mask": s.mask[1:]}), refused("the mask has shape")),
    Way("Poisson, a mask of fractions", "poisson", h5(lambda s: {"kspace": s.z[None], "mask": 0.5 * s.mask}), refused("other than 0 and 1")),
    Way("Poisson, rounding noise", "poisson", npy(lambda s: single(s.z)), right(TWO)),
    Way("Poisson, a mask of lines", "poisson", npz(lambda s: {"kspace": s.z, "mask": np.ones(N)}), refused("one value per row and column")),
    Way("Poisson, int16", "poisson", npy(lambda s: pairs(s.z, "i2", 3e4 / np.abs(s.u).max())), right(TWO)),
    Way("Poisson, int8", "poisson", npy(lambda s: pairs(s.z, "i1", 120 / np.abs(s.u).max())), refused("one mask for all")),
    Way("Poisson, transposed", "poisson", npy(lambda s: turn(s.z)), right(TWO), turned=True),
    Way("Poisson, coils last, said", "poisson", npy(lambda s: np.moveaxis(s.z, 0, -1)), right(TWO), (AXES, "row column coil")),
    Way("Poisson, coils last", "poisson", npy(lambda s: np.moveaxis(s.z, 0, -1)), refused("--axes 'row column coil'")),
    Way("Poisson, shifted", "poisson", npy(lambda s: shifted(s.z)), refused("--shifted")),
    Way("Poisson, shifted, said", "poisson", npy(lambda s: shifted(s.z)), right(TWO), ("--shifted",)),
    Way("Poisson, coil images", "poisson", npy(lambda s: image(s.z)), refused("--images")),
    Way("Poisson, coil images, said", "poisson", npy(lambda s: image(s.z).astype("c8")), right(TWO), ("--images",)),
    Way("Poisson, padded", "poisson", npy(lambda s: padded(s.z, 72, 72)), right("zero padding: 48 of 72 columns"), size=72),
    Way("Poisson, cfl", "poisson", cfl(lambda s: bart(s.z)), right(TWO)),
    Way("Poisson, a mask that was given", "poisson", said(lambda s: s.z, lambda s: s.mask), right("mask that was given"), MASK),
    Way("Poisson, a mask on full data", "poisson", said(lambda s: s.u, lambda s: s.mask), RIGHT, MASK),
    Way("Poisson, a mask without data", "poisson", said(lambda s: s.z, lambda s: ~s.mask), refused("data has nothing"), MASK),
    Way("Poisson, a mask turned", "poisson", said(lambda s: s.z, lambda s: s.mask[:, ::-1]), refused("data has nothing"), MASK),
    Way("Poisson, a coil with fewer points", "poisson", npy(lambda s: lacking(s.z, 1)), refused("one mask for all")),
    Way("Poisson, a coil with fewer points, rounding noise", "poisson", npy(lambda s: single(lacking(s.z, 1))), refused("one mask for all")),
    Way("Poisson, no centre", "poisson", npy(lambda s: s.z * (np.hypot(*(np.indices((N, N)) - N // 2)) > 5)), told("centr")),
    Way("ellipse", "ellipse", npy(lambda s: s.z), right("lie outside the ellipse")),
    Way("ellipse, transposed", "ellipse", npy(lambda s: turn(s.z)), right("lie outside the ellipse"), turned=True),
    Way("ellipse, rounding noise", "ellipse", npy(lambda s: single(s.z)), right("lie outside the ellipse")),
    Way("ellipse, cfl", "ellipse", cfl(lambda s: bart(s.z)), right("lie outside the ellipse")),
    Way("ellipse, padded", "ellipse", npy(lambda s: padded(s.z, 72, 72)), right("zero padding"), size=72),
    Way("every second row and column", "grid", npy(lambda s: s.z), right(TWO)),
    Way("every second row and column, rounding noise", "grid", npy(lambda s: single(s.z)), right(TWO)),
    Way("one side", "one side", npy(lambda s: s.z), right("partial Fourier")),
    Way("one side, rounding noise", "one side", npy(lambda s: single(s.z)), right("partial Fourier")),
    Way("one side, transposed", "one side", npy(lambda s: turn(s.z)), told("asymmetric echo")),
    Way("one side, cfl", "one side", cfl(lambda s: bart(s.z)), right("partial Fourier")),
    Way("one corner", "one corner", npy(lambda s: s.z), told("asymmetric echo")),
]  # fmt: skip
SLABS = [
    Way("3-D, said", "poisson", npy(lambda s: s.z3), right("3-D: the readout of 16"), READOUT, flat=False),
    Way("3-D, readout last", "poisson", npy(lambda s: np.moveaxis(s.z3, 1, -1)), right("3-D"), (AXES, "coil row column readout"), flat=False),
    Way("3-D, HDF5, said", "poisson", h5(lambda s: {"kspace": s.z3}), right("3-D"), READOUT, flat=False),
    Way("3-D, not said", "poisson", npy(lambda s: s.z3), refused("3-D scan.*--axes 'coil readout row column'"), flat=False),
    Way("3-D, HDF5, not said", "poisson", h5(lambda s: {"kspace": s.z3}), refused("3-D scan.*--axes 'coil readout row column'"), flat=False),
    Way("3-D, lines", "lines", npy(lambda s: s.z3), right("3-D"), READOUT, flat=False),
    Way("3-D, ellipse", "ellipse", npy(lambda s: s.z3), right("lie outside the ellipse"), READOUT, flat=False),
    Way("3-D, partial Fourier", "one side", npy(lambda s: s.z3), right("partial Fourier"), READOUT, flat=False),
    Way("3-D, rounding noise", "poisson", npy(lambda s: single(s.z3)), right(TWO), READOUT, flat=False),
    Way("3-D, shifted", "poisson", npy(lambda s: shifted(s.z3)), refused("--shifted"), READOUT, flat=False),
    Way("3-D, shifted, said", "poisson", npy(lambda s: np.fft.ifftshift(s.z3, axes=(1, 2, 3))), right(TWO), (*READOUT, "--shifted"), flat=False),
    Way("3-D, padded", "poisson", npy(lambda s: padded(s.z3, 72, 72)), right("zero padding"), READOUT, flat=False, size=72),
    Way("3-D, readout transformed, as slices", "poisson", npy(lambda s: hybrid(s.z3)), right(TWO), (AXES, "coil slice row column"), flat=False),
    Way("3-D, readout and slice", "poisson", npy(lambda s: s.z3), refused("readout and slice"), (AXES, "slice readout row column"), flat=False),
    Way("3-D, cfl", "poisson", cfl(lambda s: bart(s.z3)), right("3-D: the readout of 16"), flat=False),
    Way("3-D, cfl, lines", "lines", cfl(lambda s: bart(s.z3)), right("3-D: the readout of 16"), flat=False),
    Way("3-D, cfl, rounding noise", "poisson", cfl(lambda s: bart(single(s.z3))), right(TWO), flat=False),
    Way("3-D, cfl, ellipse", "ellipse", cfl(lambda s: bart(s.z3)), right("lie outside the ellipse"), flat=False),
    Way("3-D, cfl, padded", "poisson", cfl(lambda s: bart(padded(s.z3, 72, 72))), right("zero padding"), flat=False, size=72),
    Way("3-D, cfl, coils first", "poisson", cfl(lambda s: s.z3), refused("--axes|bart transpose"), flat=False),
    Way("3-D, cfl, readout transformed", "poisson", cfl(lambda s: bart(hybrid(s.z3))), refused("--axes 'slice row column coil'"), flat=False),
    Way("3-D, cfl, transformed, said", "poisson", cfl(lambda s: bart(hybrid(s.z3))), right(TWO), (AXES, "slice row column coil"), flat=False),
    Way("3-D, cfl of images", "poisson", cfl(lambda s: bart(image(hybrid(s.z3)))), refused("--axes|--images"), flat=False),
    Way("3-D, cfl, slices in dimension 2", "poisson", cfl(lambda s: hybrid(s.z3).transpose(2, 3, 1, 0)), told("bart transpose 2 13"), flat=False),
]  # fmt: skip
WAYS = [*FLAT, *SLABS]
