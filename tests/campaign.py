# ruff: noqa: E501  (a way is one line)
"""One scan stored or damaged in many ways, each with its verdict: the right image, words on the cause, or exit 2.

A way is one line: `Way(name, write, verdict, flags)`. `write(folder, scan)` stores the scan and gives its path; the
verdicts are `RIGHT` (within 0.1 dB of the plain file's image, whatever is said), `right(words)` (the same, and a note
or warning that matches), `told(words)` (an image, and a warning or note that matches), `refused(words)` (exit code 2).
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bayesmri.data.phantom import PhantomSpec, phantom
from bayesmri.data.simulate import Scanner, acquire
from reader_files import write_cfl, write_h5

Array = NDArray[Any]
N, Q, R = 96, 8, 4
CLOSE = 0.1  # dB


@dataclass(frozen=True)
class Scan:
    """u: fully sampled k-space (Q, N, N); mask: lines (N,); truth: its image (N, N)."""

    u: Array
    mask: Array
    truth: Array

    @property
    def z(self) -> Array:
        return (self.u * self.mask).astype(np.complex64)


@dataclass(frozen=True)
class Verdict:
    """code: of the command. words: a pattern that notes, warnings or the error match. close: the image is right."""

    code: int = 0
    words: str = ""
    close: bool = True


RIGHT = Verdict()


def right(words: str) -> Verdict:
    return Verdict(words=words)


def told(words: str) -> Verdict:
    return Verdict(words=words, close=False)


def refused(words: str) -> Verdict:
    return Verdict(2, words, close=False)


@dataclass(frozen=True)
class Way:
    """turned: the file's rows are the scan's columns, and so are those of its image."""

    name: str
    write: Callable[[Path, Scan], Path]
    verdict: Verdict
    flags: tuple[str, ...] = ()
    turned: bool = False


@cache
def plain_scan() -> Scan:
    """A head, 8 coils, every fourth line and 8 central ones."""
    X = phantom(PhantomSpec(anatomy="head", shape=(N, N)), rng=torch.Generator().manual_seed(3))
    u = acquire(X / X.max(), Scanner(coils=Q, snr_db=30.0), rng=torch.Generator().manual_seed(4)).numpy()[0]
    lines = np.arange(N)
    mask = (lines % R == 0) | (abs(lines - N // 2) < 6)
    truth = np.sqrt((np.abs(image(u)) ** 2).sum(axis=0))
    return Scan(u, mask, truth)


def image(u: Array) -> Array:
    axes = (-2, -1)
    return np.fft.fftshift(np.fft.ifft2(np.fft.ifftshift(u, axes=axes), norm="ortho"), axes=axes)


def kspace(x: Array) -> Array:
    axes = (-2, -1)
    return np.fft.fftshift(np.fft.fft2(np.fft.ifftshift(x, axes=axes), norm="ortho"), axes=axes)


def psnr(X: Array, truth: Array) -> float:
    """dB after the best factor: files have units of their own."""
    c = float((X * truth).sum() / (X * X).sum())
    return float(10 * np.log10(truth.max() ** 2 / np.mean((c * X - truth) ** 2)))


def npy(make: Callable[[Scan], Array]) -> Callable[[Path, Scan], Path]:
    """An array in a .npy file."""

    def write(folder: Path, scan: Scan) -> Path:
        np.save(folder / "scan.npy", make(scan))
        return folder / "scan.npy"

    return write


def npz(make: Callable[[Scan], dict[str, Array]]) -> Callable[[Path, Scan], Path]:
    def write(folder: Path, scan: Scan) -> Path:
        np.savez(folder / "scan.npz", **make(scan))  # type: ignore[arg-type]
        return folder / "scan.npz"

    return write


def h5(make: Callable[[Scan], dict[str, Any]]) -> Callable[[Path, Scan], Path]:
    return lambda folder, scan: write_h5(folder / "scan.h5", make(scan))


def cfl(make: Callable[[Scan], Array]) -> Callable[[Path, Scan], Path]:
    """BART's axes: (read, phase, 1, coils, …)."""
    return lambda folder, scan: write_cfl(folder / "scan", make(scan))


def bart(z: Array) -> Array:
    return np.moveaxis(z, 0, -1)[:, :, None]


def padded(z: Array, H: int, W: int) -> Array:
    h, w = z.shape[-2:]
    top, left = H // 2 - h // 2, W // 2 - w // 2
    return np.pad(z, [(0, 0)] * (z.ndim - 2) + [(top, H - h - top), (left, W - w - left)])


def single(z: Array) -> Array:
    """An FFT round trip in single precision, scaled on the way."""
    x = torch.fft.ifft2(torch.from_numpy(z)) * 0.333
    return np.asarray(torch.fft.fft2(x).numpy())


def pairs(z: Array, dtype: str = "f4", scale: float = 1.0) -> Array:
    return np.stack((z.real * scale, z.imag * scale), axis=-1).astype(dtype)


def records(z: Array, names: tuple[str, str], dtype: str = "<f4", scale: float = 1.0) -> Array:
    out = np.empty(z.shape, dtype=[(name, dtype) for name in names])
    out[names[0]], out[names[1]] = z.real * scale, z.imag * scale
    return out


def damaged(z: Array, index: Any, value: complex) -> Array:
    out = z.copy()
    out[index] = value
    return out


def whole(scan: Scan) -> float:
    """A factor with which integers of 16 bits keep most of the scan."""
    return 3e4 / float(np.abs(scan.u).max())


def with_mask(make: Callable[[Scan], Array], mask: Callable[[Scan], Array]) -> Callable[[Path, Scan], Path]:
    """A .npy file, and mask.npy for `--mask`."""

    def write(folder: Path, scan: Scan) -> Path:
        np.save(folder / "mask.npy", mask(scan).astype(np.uint8))
        return npy(make)(folder, scan)

    return write


def rows(scan: Scan) -> Array:
    return np.swapaxes(scan.z, -1, -2)


def points(scan: Scan) -> Array:
    """Points of a chequerboard, and a full centre."""
    h, w = np.indices((N, N))
    return np.asarray(((h + w) % 2 == 0) | ((abs(h - N // 2) < 10) & (abs(w - N // 2) < 10)))


def matches(words: str, said: list[str]) -> bool:
    return any(re.search(words, text) for text in said)


AXES = "--axes"
MASK = ("--mask", "mask.npy")
ARRAYS = [
    Way("npy", npy(lambda s: s.z), right("taken as .coil, row, column.")),
    Way("npy of four axes", npy(lambda s: s.z[None]), right("taken as .slice, coil, row, column.")),
    Way("complex128", npy(lambda s: s.z.astype(np.complex128)), RIGHT),
    Way("complex256", npy(lambda s: s.z.astype(np.clongdouble)), RIGHT),
    Way("big-endian", npy(lambda s: s.z.astype(">c8")), RIGHT),
    Way("Fortran order", npy(lambda s: np.asfortranarray(s.z)), RIGHT),
    Way("pairs of float32", npy(lambda s: pairs(s.z)), right("real and imaginary part")),
    Way("pairs of int16", npy(lambda s: pairs(s.z, "i2", whole(s))), right("real and imaginary part")),
    Way("pairs of int32, big-endian", npy(lambda s: pairs(s.z, ">i4", 1e4 * whole(s))), RIGHT),
    Way("records r, i", npy(lambda s: records(s.z, ("r", "i"))), RIGHT),
    Way("records real, imag of int32", npy(lambda s: records(s.z, ("real", "imag"), "<i4", 1e4 * whole(s))), RIGHT),
    Way("real numbers", npy(lambda s: s.z.real), refused("expected complex k-space")),
    Way("magnitude", npy(lambda s: np.abs(s.z)), refused("expected complex k-space")),
    Way("tiny units", npy(lambda s: s.z * np.float32(1e-7)), RIGHT),
    Way("huge units", npy(lambda s: s.z * np.float32(1e7)), RIGHT),
    Way("out of single precision", npy(lambda s: s.z.astype(complex) * 1e30), refused("multiply the data")),
    Way("npz", npz(lambda s: {"kspace": s.z}), RIGHT),
    Way("npz with its mask", npz(lambda s: {"kspace": s.u, "mask": s.mask}), RIGHT),
    Way("npz with a wrong mask", npz(lambda s: {"kspace": s.z, "mask": np.ones(N)}), refused("hold nothing but zeros")),
    Way("coils last", npy(lambda s: np.moveaxis(s.z, 0, -1)), refused("--axes 'row column coil'")),
    Way("coils last, said", npy(lambda s: np.moveaxis(s.z, 0, -1)), RIGHT, (AXES, "row column coil")),
    Way("coils between", npy(lambda s: np.moveaxis(s.z, 0, 1)), refused("--axes")),
    Way("coils between, said", npy(lambda s: np.moveaxis(s.z, 0, 1)), RIGHT, (AXES, "row coil column")),
    Way("an axis dropped", npy(lambda s: np.stack((s.z, 0 * s.z))), right("the first was taken"), (AXES, "- coil row column")),
    Way("five axes", npy(lambda s: s.z[None, None]), refused("say what each of them is: --axes")),
    Way("too few names", npy(lambda s: s.z), refused("one name for each"), (AXES, "row column")),
    Way("an unknown name", npy(lambda s: s.z), refused("expected row and column once"), (AXES, "coil row line")),
    Way("shifted", npy(lambda s: np.fft.ifftshift(s.z, axes=(-2, -1))), refused("--shifted")),
    Way("shifted, said", npy(lambda s: np.fft.ifftshift(s.z, axes=(-2, -1))), right("fftshift"), ("--shifted",)),
    Way("shifted along columns", npy(lambda s: np.fft.ifftshift(s.z, axes=-1)), refused("its columns .*--shifted")),
    Way("shifted along columns, said", npy(lambda s: np.fft.ifftshift(s.z, axes=-1)), RIGHT, ("--shifted",)),
    Way("shifted along rows", npy(lambda s: np.fft.ifftshift(s.z, axes=-2)), refused("its rows .*--shifted")),
    Way("shifted, said of centred data", npy(lambda s: s.z), refused("leave it out"), ("--shifted",)),
    Way("rolled by a third", npy(lambda s: np.roll(s.u, N // 3, axis=-1)), told("far from the centre")),
    Way("coil images", npy(lambda s: image(s.z)), refused("like an image.*--images")),
    Way("coil images, said", npy(lambda s: image(s.z)), right("as --images says"), ("--images",)),
    Way("images along the readout", npy(lambda s: np.fft.ifft(np.fft.ifftshift(s.z, axes=-2), axis=-2)), refused("--images")),
    Way("images along the columns", npy(lambda s: np.fft.ifft(np.fft.ifftshift(s.u, axes=-1), axis=-1)), refused("along its columns like an image")),
    Way("rolled images", npy(lambda s: np.fft.fftshift(np.fft.fft2(image(s.u)), axes=(-2, -1))), told("multiply k-space by .*row .+ column")),
    Way("rolled images, undersampled", npy(lambda s: s.z * (-1.0) ** np.arange(N)), told("multiply k-space by .-1..column")),
    Way("images, said of k-space", npy(lambda s: s.z), refused("leave it out"), ("--images",)),
    Way("rounding noise, single", npy(lambda s: single(s.z)), right("only rounding noise .*R = ")),
    Way("rounding noise, double", npy(lambda s: kspace(image(s.z.astype(complex)))), right("only rounding noise")),
    Way("rounding noise, pairs", npy(lambda s: pairs(single(s.z))), right("only rounding noise")),
    Way("rounding noise along rows", npy(lambda s: single(rows(s))), right("rows hold only rounding noise|along its rows"), turned=True),
    Way("transposed", npy(rows), right("undersampled along its rows"), turned=True),
    Way("transposed, said", npy(rows), RIGHT, (AXES, "coil column row")),
    Way("padded columns", npy(lambda s: padded(s.z, N, 160)), right("zero padding: 96 of 160 columns")),
    Way("padded rows", npy(lambda s: padded(s.z, 160, N)), right("zero padding: 96 of 160 rows")),
    Way("padded both", npy(lambda s: padded(s.z, 128, 160)), right("zero padding: 96 of 160 columns")),
    Way("padded, rounding noise", npy(lambda s: single(padded(s.z, N, 160))), right("zero padding: 96 of 160 columns")),
    Way("padded and transposed", npy(lambda s: np.swapaxes(padded(s.z, N, 160), -1, -2)), right("zero padding"), turned=True),
    Way("partial Fourier", npy(lambda s: s.u * (np.arange(N) >= 24)), told("partial Fourier")),
    Way("asymmetric echo", npy(lambda s: s.z * (np.arange(N) >= 20)[:, None]), told("asymmetric echo")),
    Way("points", npy(lambda s: s.u * points(s)), told("undersampled along two axes")),
    Way("points, rounding noise", npy(lambda s: single((s.u * points(s)).astype("c8"))), told("along two axes")),
    Way("a mask of the user", with_mask(lambda s: s.z, lambda s: s.mask), right("mask that was given"), MASK),
    Way("a mask of points", with_mask(lambda s: s.u * points(s), points), told("mask that was given"), MASK),
    Way("a mask against rounding", with_mask(lambda s: single(s.z), lambda s: s.mask), RIGHT, MASK),
    Way("a mask without data", with_mask(lambda s: s.z, lambda s: ~s.mask), refused("data has nothing"), MASK),
    Way("a mask of rounding noise", with_mask(lambda s: single(s.z), lambda s: np.ones(N)), told("only rounding noise: the"), MASK),
    Way("a mask of another size", with_mask(lambda s: s.z, lambda s: np.ones(N - 1)), refused("the mask has 95"), MASK),
    Way("a NaN", npy(lambda s: damaged(s.z, (0, 5, 48), np.nan)), refused("NaN or Inf")),
    Way("zeros", npy(lambda s: 0 * s.z), refused("nothing to reconstruct")),
    Way("a dead coil", npy(lambda s: s.z * (np.arange(Q) != 2)[:, None, None]), told("coils without signal: 2")),
    Way("no centre", npy(lambda s: s.z * (abs(np.arange(N) - N // 2) > 6)), told("central line .* not acquired")),
    Way("every second line, no centre", npy(lambda s: s.u * (np.arange(N) % 2 == 0)), told("images are the zero-filled ones")),
    Way("every second line, no centre, by TV", npy(lambda s: s.u * (np.arange(N) % 2 == 0)), told("cannot unfold"), ("--method", "tv")),
    Way("one coil", npy(lambda s: s.z[0]), told("single coil.* zero-filled ones")),
    Way("half a line lost", npy(lambda s: damaged(s.z, (slice(None), slice(N // 2, None), 44), 0)), told("48 points .* exactly zero")),
    Way("coils of other masks", npy(lambda s: damaged(s.z, (1, slice(None), 8), 0)), refused("one mask for all")),
    Way("undersampled as full", npy(lambda s: s.z), refused("already undersampled"), ("--acceleration", "4")),
    Way("rounding noise as full", npy(lambda s: single(s.z)), refused("already undersampled"), ("--acceleration", "4")),
]  # fmt: skip
FILES = [
    Way("HDF5", h5(lambda s: {"kspace": s.z[None]}), RIGHT),
    Way("HDF5 with its mask", h5(lambda s: {"kspace": s.u[None], "mask": s.mask}), RIGHT),
    Way("HDF5 of complex128", h5(lambda s: {"kspace": s.z[None].astype(complex)}), RIGHT),
    Way("HDF5 of int16 pairs", h5(lambda s: {"kspace": pairs(s.z[None], "i2", whole(s))}), right("imaginary part")),
    Way("HDF5 of int32 records", h5(lambda s: {"kspace": records(s.z[None], ("r", "i"), "<i4", 1e4 * whole(s))}), RIGHT),
    Way("HDF5 coils as slices", h5(lambda s: {"kspace": s.z}), told("shaded from different sides.*--axes 'coil row column'")),
    Way("HDF5 coils, said", h5(lambda s: {"kspace": s.z}), RIGHT, (AXES, "coil row column")),
    Way("HDF5 coils, one image", h5(lambda s: {"kspace": s.z, "reconstruction_rss": s.truth[None]}), RIGHT),
    Way("HDF5 coils last", h5(lambda s: {"kspace": np.moveaxis(s.z, 0, -1)[None]}), refused("--axes")),
    Way("HDF5 coils last, said", h5(lambda s: {"kspace": np.moveaxis(s.z, 0, -1)[None]}), RIGHT, (AXES, "slice row column coil")),
    Way("HDF5 with a truth of its own lines", h5(lambda s: {"kspace": s.z[None], "reconstruction_rss": np.sqrt((np.abs(image(s.z)) ** 2).sum(0))[None]}), right("zero-filled one")),
    Way("HDF5 with another truth", h5(lambda s: {"kspace": s.u[None], "reconstruction_rss": s.truth[None, ::-1]}), told("differs by .* left out")),
    Way("HDF5 with a mask of rows", h5(lambda s: {"kspace": rows(s)[None], "mask": np.repeat(s.mask[:, None], N, 1)}), right("along its rows"), turned=True),
    Way("HDF5 with a wrong mask", h5(lambda s: {"kspace": single(s.z)[None], "mask": np.ones(N)}), refused("rounding noise")),
    Way("HDF5 shifted", h5(lambda s: {"kspace": np.fft.ifftshift(s.z, axes=(-2, -1))[None]}), refused("--shifted")),
    Way("HDF5 padded", h5(lambda s: {"kspace": padded(s.z, 128, 160)[None]}), right("zero padding")),
    Way("cfl", cfl(lambda s: bart(s.z)), RIGHT),
    Way("cfl with averages", cfl(lambda s: np.stack([bart(s.z)] * 2, -1).reshape(N, N, 1, Q, *[1] * 10, 2)), right("2 averages")),
    Way("cfl, rounding noise", cfl(lambda s: bart(single(s.z))), right("only rounding noise")),
    Way("cfl transposed", cfl(lambda s: bart(rows(s))), right("along its rows"), turned=True),
    Way("cfl padded", cfl(lambda s: bart(padded(s.z, N, 160))), right("zero padding")),
    Way("cfl, coils first", cfl(lambda s: s.z), refused("--axes|--images|bart transpose|phase")),
    Way("cfl, coils first, said", cfl(lambda s: s.z), RIGHT, (AXES, "coil row column")),
    Way("cfl of images", cfl(lambda s: bart(image(s.z))), refused("--images")),
    Way("cfl shifted, said", cfl(lambda s: bart(np.fft.ifftshift(s.z, axes=(-2, -1)))), RIGHT, ("--shifted",)),
]  # fmt: skip
WAYS = [*ARRAYS, *FILES]
