# ruff: noqa: E501  (a way is one line)
"""The scan of `campaign.py` as scanners write it: MRD files with flags, counters, noise, echoes and contradictions."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from campaign import RIGHT, Array, N, Q, Scan, Way, kspace, padded, refused, right, told
from reader_files import header_xml, mrd_line, write_mrd

NOISE, CALIBRATION, REVERSE, NAVIGATION, PHASE_CORRECTION, DUMMY = (1 << bit for bit in (18, 19, 21, 22, 23, 26))
HALF = N // 2


def mrd(make: Callable[[Scan], list[Any]], **header: Any) -> Callable[[Path, Scan], Path]:
    """Lines under a header of N x N unless it says otherwise."""

    def write(folder: Path, scan: Scan) -> Path:
        changes = {**header}
        xml = header_xml(changes.pop("X", N), changes.pop("W", N), **changes)
        return write_mrd(folder / "scan.h5", xml, make(scan))

    return write


def given(write: Callable[[Path, Scan], Path], mask: Callable[[Scan], Array]) -> Callable[[Path, Scan], Path]:
    """The file, and mask.npy for `--mask`."""

    def both(folder: Path, scan: Scan) -> Path:
        np.save(folder / "mask.npy", mask(scan).astype(np.uint8))
        return write(folder, scan)

    return both


def lines(scan: Scan, k: Array | None = None, steps: Iterable[int] | None = None, **changes: Any) -> list[Any]:
    """The acquired ones of k (Q, X, W), the scan's own unless given."""
    k = scan.z if k is None else k.astype(np.complex64)
    return [mrd_line(k[:, :, w], int(w), **changes) for w in (np.flatnonzero(scan.mask) if steps is None else steps)]


def noise(n: int, strengths: Array | float = 1.0) -> list[Any]:
    rng = np.random.default_rng(7)
    z = 1e-3 * (rng.standard_normal((Q, n)) + 1j * rng.standard_normal((Q, n))) * np.broadcast_to(strengths, Q)[:, None]
    return [mrd_line(z.astype(np.complex64), 0, flags=NOISE)]


def oversampled(s: Scan) -> Array:
    """The readout twice as dense: the image with as much air around it."""
    x = np.fft.fftshift(np.fft.ifft(np.fft.ifftshift(s.z, axes=1), axis=1, norm="ortho"), axes=1)
    wide = np.pad(x, ((0, 0), (HALF, HALF), (0, 0)))
    return np.fft.fftshift(np.fft.fft(np.fft.ifftshift(wide, axes=1), axis=1, norm="ortho"), axes=1)


def other(s: Scan) -> Array:
    """What must not get into the image."""
    return kspace(np.roll(np.ones((Q, N, N)), 5, axis=1)) + 0.1 * s.u[:, ::-1, ::-1]


def turns(s: Scan) -> list[Any]:
    """Every second line backwards."""
    steps = np.flatnonzero(s.mask)
    return [
        mrd_line(s.z[:, :: (-1) ** i, w], int(w), flags=REVERSE * (i % 2), center_sample=HALF - i % 2)
        for i, w in enumerate(steps)
    ]


def bent(s: Scan) -> list[Any]:
    """Coordinates of a spoke in a file that calls itself Cartesian."""
    made = lines(s, trajectory_dimensions=2)
    for line in made:
        line["traj"][0] = np.repeat(np.linspace(-0.5, 0.5, N, dtype=np.float32), 2)
    return made


def short(s: Scan) -> list[Any]:
    made = lines(s)
    made[3]["data"][0] = made[3]["data"][0][:-2]
    return made


def with_nan(s: Scan) -> list[Any]:
    made = lines(s)
    made[3]["data"][0][5] = np.nan
    return made


def embedded(s: Scan) -> list[Any]:
    """Central lines off the grid flagged as calibration."""
    return [mrd_line(s.z[:, :, w], int(w), flags=CALIBRATION * (w % 4 != 0)) for w in np.flatnonzero(s.mask)]


WAYS = [
    Way("MRD", mrd(lines), RIGHT),
    Way("MRD in any order", mrd(lambda s: lines(s)[::-1]), RIGHT),
    Way("MRD, readout oversampled", mrd(lambda s: lines(s, oversampled(s)), X=2 * N, h=N), right("oversampling was removed")),
    Way("MRD, header cuts the object", mrd(lines, h=N // 4), told("cut away")),
    Way("MRD with averages", mrd(lambda s: lines(s, s.z * 1.5) + lines(s, s.z * 0.5, average=1)), right("2 averages")),
    Way("MRD, averages of some lines", mrd(lambda s: lines(s) + lines(s, steps=range(46, 50), average=1)), right("1 to 2 lines")),
    Way("MRD, first repetition", mrd(lambda s: lines(s) + lines(s, other(s), repetition=1)), right("--repetition takes another")),
    Way("MRD, second repetition", mrd(lambda s: lines(s, other(s)) + lines(s, repetition=1)), right("1 was taken"), ("--repetition", "1")),
    Way("MRD, no such repetition", mrd(lambda s: lines(s) + lines(s, repetition=1)), refused("expected 0 to 1"), ("--repetition", "2")),
    Way("MRD, second contrast", mrd(lambda s: lines(s, other(s)) + lines(s, contrast=1)), right("`contrast`"), ("--contrast", "1")),
    Way("MRD, second set", mrd(lambda s: lines(s, other(s)) + lines(s, set=1)), right("`set`"), ("--set", "1")),
    Way("MRD, third phase", mrd(lambda s: lines(s, other(s)) + lines(s, phase=2)), right("`phase`"), ("--phase", "2")),
    Way("MRD with noise scans", mrd(lambda s: noise(20_000) + lines(s)), right("were prewhitened")),
    Way("MRD with noise scans, left out", mrd(lambda s: noise(20_000) + lines(s)), right("left out, as asked"), ("--no-prewhiten",)),
    Way("MRD with little noise", mrd(lambda s: noise(16) + lines(s)), right("not prewhitened")),
    Way("MRD with a dead coil's noise", mrd(lambda s: noise(999, np.arange(Q) != 3) + lines(s)), right("singular")),
    Way("MRD with embedded calibration", mrd(embedded, calibration="embedded"), right("embedded calibration lines")),
    Way("MRD with separate calibration", mrd(lambda s: lines(s) + lines(s, s.u, range(36, 60), flags=CALIBRATION), calibration="separate"), right("24 separate calibration")),
    Way("MRD with other scans", mrd(lambda s: [line for flags in (NAVIGATION, PHASE_CORRECTION, DUMMY) for line in lines(s, other(s), flags=flags)] + lines(s)), right("phase-correction scans were skipped")),
    Way("MRD, lines backwards", mrd(turns), right("read out backwards")),
    Way("MRD, asymmetric echo", mrd(lambda s: lines(s, s.z[:, 24:], center_sample=HALF - 24)), told("asymmetric echo")),
    Way("MRD, samples discarded", mrd(lambda s: lines(s, discard_pre=30)), told("asymmetric echo")),
    Way("MRD, partial Fourier", mrd(lambda s: [mrd_line(s.u[:, :, w], w - 24) for w in range(24, N)], center=HALF - 24), told("partial Fourier")),
    Way("MRD, padded", mrd(lambda s: lines(s, padded(s.z, N, 160), np.flatnonzero(s.mask) + 32), W=160), right("zero padding: 9. of 160 columns")),
    Way("MRD, partitions in the header alone", mrd(lines, depth=4), right("read as 2-D slices")),
    Way("MRD, radial", mrd(lines, trajectory="radial"), refused("'radial'")),
    Way("MRD, echo-planar", mrd(lines, trajectory="epi"), refused("'epi'")),
    Way("MRD, bent lines", mrd(bent), refused("Cartesian, but")),
    Way("MRD, steps beyond the matrix", mrd(lines, W=64, center=32), refused("do not fit 64")),
    Way("MRD, a short line", mrd(short), refused("its header says")),
    Way("MRD with a NaN", mrd(with_nan), refused("NaN or Inf")),
    Way("MRD of noise alone", mrd(lambda s: noise(99)), refused("no imaging line")),
    Way("MRD, its mask given", given(mrd(lines), lambda s: s.mask), RIGHT, ("--mask", "mask.npy")),
    Way("MRD, some of its lines given", given(mrd(lines), lambda s: s.mask & (np.arange(N) % 8 != 0)), told("given says .* left out"), ("--mask", "mask.npy")),
    Way("MRD, some of its points given", given(mrd(lines), lambda s: s.mask & (np.arange(N)[:, None] > 20)), told("given says .* left out"), ("--mask", "mask.npy")),
    Way("MRD, a mask of other lines", given(mrd(lines), lambda s: np.ones(N, bool)), refused("of which the data has nothing"), ("--mask", "mask.npy")),
    Way("MRD, a mask of other points", given(mrd(lines), lambda s: np.ones((N, N), bool)), refused("points of which the data has nothing"), ("--mask", "mask.npy")),
    Way("MRD, a mask of another size", given(mrd(lines), lambda s: np.ones(N - 1, bool)), refused("the mask has 95"), ("--mask", "mask.npy")),
    Way("MRD with axes said", mrd(lines), refused("leave"), ("--axes", "row column")),
]  # fmt: skip
