"""Where each line of an MRD file goes on the encoded grid, and which of its samples count."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayesmri.errors import FormatError
from bayesmri.io.ismrmrd_xml import Encoding
from bayesmri.io.lps import is_frame
from bayesmri.io.mrd.source import Ints
from bayesmri.io.mrd.table import Lines
from bayesmri.messages import Messages, noted, warned


@dataclass(frozen=True)
class Grid:
    """X samples of the readout, of whose image H rows are kept; W lines; P partitions, 1 in 2-D."""

    X: int
    H: int
    W: int
    P: int

    @property
    def three_d(self) -> bool:
        return self.P > 1


@dataclass(frozen=True)
class Placing:
    """Where each line goes: slice s, column w, partition p; its samples `first` to `last` − 1 lie on rows of X.

    start: the row of sample 0, after lines read backwards were turned round. slices: the file's slice counters in the
    order of s.
    """

    s: Ints
    w: Ints
    p: Ints
    start: Ints
    first: Ints
    last: Ints
    slices: Ints
    grid: Grid


def encoded_grid(encoding: Encoding, lines: Lines) -> tuple[Grid, Messages]:
    """The grid of the header; 3-D where the lines say so, and not by the header alone."""
    if encoding.matrix is None:
        raise FormatError("the MRD header has no encoded matrix size, expected <encodedSpace><matrixSize>")
    X, W, P = encoding.matrix
    H, said = _readout_window(encoding, X)
    if P > 1 and not lines.step_2.any():
        P, said = (
            1,
            said
            + warned(f"the header encodes {P} partitions and no line has a second phase encoding: read as 2-D slices"),
        )
    return Grid(X, H, W, P), said


def place(lines: Lines, encoding: Encoding, grid: Grid) -> tuple[Placing, Messages]:
    """The step `center` of each phase encoding lands on the middle of its axis, the echo on that of the readout."""
    w = _columns(lines.step, encoding.center, grid.W, "phase-encoding lines")
    p = _columns(lines.step_2, encoding.center_2 if grid.three_d else 0, grid.P, "partitions")
    slices, s = np.unique(lines.slice, return_inverse=True)
    order = _slice_order(lines, slices)
    start, said = _readout_start(lines, grid.X)
    pre = np.where(lines.reverse, lines.discard_post, lines.discard_pre)
    post = np.where(lines.reverse, lines.discard_pre, lines.discard_post)
    first, last = start + pre, start + lines.samples - post
    if (first >= last).any():
        line = int(lines.row[np.flatnonzero(first >= last)[0]])
        raise FormatError(
            f"acquisition {line} discards all of its {lines.samples} samples: the header and the data disagree"
        )
    return Placing(np.argsort(order)[s], w, p, start, first, last, slices[order], grid), said


def _columns(step: Ints, center: int | None, n: int, what: str) -> Ints:
    middle = n // 2 if center is None else center
    at = step + n // 2 - middle
    if at.min() < 0 or at.max() >= n:
        raise FormatError(
            f"encode steps {step.min()} to {step.max()} around centre {middle} do not fit "
            f"{n} {what}: the header and the data disagree"
        )
    return at


def _slice_order(lines: Lines, slices: Ints) -> Ints:
    """By place along the slice direction where the file knows it: interleaved scans count slices in time."""
    first = np.array([np.flatnonzero(lines.slice == s)[0] for s in slices])
    along = lines.position[first] @ lines.slice_dir[first[0]]
    if not is_frame(lines.slice_dir[first[0]]) or not np.isfinite(along).all() or len(np.unique(along)) < len(slices):
        return np.arange(len(slices))
    return np.argsort(along)


def _readout_start(lines: Lines, X: int) -> tuple[Ints, Messages]:
    """The row of the first sample, so that the echo (center_sample) lies on X//2."""
    center = np.where(lines.reverse, lines.samples - 1 - lines.center, lines.center)
    if lines.samples == X:
        # a full readout fits in one way only; an echo off the middle is a phase ramp in the image, no shift of it
        off = bool((np.abs(center - X // 2) > 1).any())
        return np.zeros_like(center), noted(*(["the echo is not in the middle of the full readout"] if off else []))
    start = X // 2 - center
    if lines.samples > X or start.min() < 0 or start.max() + lines.samples > X:
        raise FormatError(
            f"readouts of {lines.samples} samples with the echo at {int(lines.center[0])} do not fit "
            f"the encoded matrix of {X}: the header and the data disagree"
        )
    return start, Messages()


def _readout_window(encoding: Encoding, X: int) -> tuple[int, Messages]:
    """Rows kept of X: the part of the encoded field of view that the scanner shows."""
    if encoding.recon_matrix is None or encoding.recon_matrix[0] >= X:
        return X, Messages()
    H = encoding.recon_matrix[0]
    if encoding.fov_mm and encoding.recon_fov_mm:
        H = round(X * encoding.recon_fov_mm[0] / encoding.fov_mm[0])
    if not 1 <= H < X:
        return X, Messages()
    return H, noted(f"readout oversampling was removed: {X} to {H} rows")


def shown(n: int, axis: int, encoding: Encoding) -> int:
    """How many of n pixels along an axis of the encoded matrix (x, y, z) the scanner shows."""
    if not (encoding.fov_mm and encoding.recon_fov_mm):
        return n
    return round(n * min(1.0, encoding.recon_fov_mm[axis] / encoding.fov_mm[axis]))


def crop_readout(k: NDArray[np.complex64], H: int) -> NDArray[np.complex64]:
    """F_H · crop · F_X⁻¹ along the last axis, with centred unitary transforms."""
    first = k.shape[-1] // 2 - H // 2
    image = np.fft.fftshift(np.fft.ifft(np.fft.ifftshift(k, axes=-1), norm="ortho"), axes=-1)[..., first : first + H]
    out = np.fft.fftshift(np.fft.fft(np.fft.ifftshift(image, axes=-1), norm="ortho"), axes=-1)
    return out.astype(np.complex64, copy=False)
