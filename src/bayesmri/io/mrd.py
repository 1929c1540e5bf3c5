"""ISMRMRD/MRD HDF5: 2-D Cartesian lines sorted into k-space, readout oversampling removed."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from bayesmri.errors import DataError, FormatError
from bayesmri.io.acquired import finish, sampling_pattern
from bayesmri.io.geometry import voxel_sizes
from bayesmri.io.guard import byte_budget, check_bytes, one_line, sizes
from bayesmri.io.ismrmrd_xml import Encoding, parse_header
from bayesmri.io.lps import crop_start, is_frame, lps_affine, slice_step
from bayesmri.io.mrd_lines import Lines, read_lines, samples, separate_lines
from bayesmri.io.safe_h5 import member, names, open_h5, read_text, where
from bayesmri.kspace import Header, KSpace, check_grid

Shape = tuple[int, int, int, int]
LARGEST = 1e15  # beyond, squares leave single precision


@dataclass(frozen=True)
class Placing:
    """Where each line goes: slice s, column w, first sample at row `start` of X; H rows of its image stay."""

    s: NDArray[np.int64]
    w: NDArray[np.int64]
    start: NDArray[np.int64]
    slices: NDArray[np.int64]  # the file's slice counters in the order of s
    X: int
    H: int
    W: int


def mrd_group(file: Any) -> str | None:
    """The top-level group that holds `xml` and `data`; None where there is none."""
    found = [name for name in names(file) if _is_mrd(file, name)]
    if len(found) > 1 and "dataset" not in found:
        raise FormatError(
            f"the MRD file holds the groups {one_line(', '.join(found))}, expected one group; split it with h5copy"
        )
    return "dataset" if "dataset" in found else found[0] if found else None


def read_mrd(path: Path, *, budget: int | None = None) -> KSpace:
    """z (slices, Q, H = readout, W = phase encoding): encode step `center` lands on W//2, the echo on H//2."""
    with open_h5(path) as file:
        name = mrd_group(file)
        if name is None:
            raise FormatError(f"{one_line(path)} is no MRD file, expected a group with `xml` and `data`")
        group = member(file, name)
        encoding = parse_header(read_text(group, "xml"), name=where(group, "xml"))
        matrix = _cartesian_matrix(encoding)
        lines = read_lines(group, calibration=encoding.calibration, budget=budget)
        placing, notes = _place(lines, encoding, matrix)
        shape = _checked_shape(lines, placing, budget)
        z, counts = _fill(group, lines, placing, shape)
        reference, told = _reference(group, encoding, matrix, placing, shape, budget)
    mask, more = _common_lines(z, counts)
    kspace = finish(z, _header(encoding, lines, placing, lines.notes + notes + told + more), mask=mask)
    return replace(kspace, reference=reference)


def _reference(
    group: Any, encoding: Encoding, matrix: tuple[int, int, int], imaging: Placing, shape: Shape, budget: int | None
) -> tuple[NDArray[np.complex64] | None, tuple[str, ...]]:
    """K-space of separate calibration scans, on the grid of the image, where there are any that fit."""
    n = separate_lines(group, calibration=encoding.calibration)
    if n == 0:
        return None, ()
    try:
        lines = read_lines(group, calibration=encoding.calibration, budget=budget, reference=True)
        placing, _ = _place(lines, encoding, matrix)
        fits = (len(placing.slices), lines.channels, placing.H, placing.W) == shape
        if fits and np.array_equal(np.sort(placing.slices), np.sort(imaging.slices)):
            found = _fill(group, lines, placing, shape)[0][_places(placing.slices, imaging.slices)]
            if 0 < np.abs(found).max() < LARGEST:  # NaN is neither
                return found, (f"{n} separate calibration lines were read for the sensitivities",)
            return None, (
                f"separate calibration scans hold nothing, NaN, Inf or huge values and were skipped ({n} lines)",
            )
    except (FormatError, DataError):
        pass
    return None, (f"separate calibration scans do not fit the image's grid and were skipped ({n} lines)",)


def _places(found: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where the slices of one order are in another, by the file's counters."""
    return np.array([int(np.flatnonzero(found == counter)[0]) for counter in wanted])


def _is_mrd(file: Any, name: str) -> bool:
    hard = isinstance(file.get(name, getlink=True), h5py.HardLink)
    group = file[name] if hard else None
    return isinstance(group, h5py.Group) and {"xml", "data"} <= set(names(group))


def _cartesian_matrix(encoding: Encoding) -> tuple[int, int, int]:
    if encoding.trajectory not in ("", "cartesian"):
        raise FormatError(f"the trajectory is {encoding.trajectory!r}, expected Cartesian k-space; grid the data first")
    if encoding.matrix is None:
        raise FormatError("the MRD header has no encoded matrix size, expected <encodedSpace><matrixSize>")
    if encoding.matrix[2] > 1:
        raise FormatError(
            f"the MRD file is a 3-D acquisition (encoded matrix {sizes(encoding.matrix)}), expected 2-D slices; "
            "apply the inverse FFT along the second phase encoding first"
        )
    return encoding.matrix


def _place(lines: Lines, encoding: Encoding, matrix: tuple[int, int, int]) -> tuple[Placing, tuple[str, ...]]:
    X, W, _ = matrix
    center = W // 2 if encoding.center is None else encoding.center
    w = lines.step + W // 2 - center
    if w.min() < 0 or w.max() >= W:
        raise FormatError(
            f"encode steps {lines.step.min()} to {lines.step.max()} around centre {center} do not fit "
            f"{W} phase-encoding lines: the header and the data disagree"
        )
    slices, s = np.unique(lines.slice, return_inverse=True)
    order = _slice_order(lines, slices)
    start, notes = _readout_start(lines, X)
    H, more = _readout_window(encoding, X)
    placing = Placing(s=np.argsort(order)[s], w=w, start=start, slices=slices[order], X=X, H=H, W=W)
    return placing, notes + more


def _slice_order(lines: Lines, slices: NDArray[np.int64]) -> NDArray[np.int64]:
    """By place along the slice direction where the file knows it: interleaved scans count slices in time."""
    first = np.array([np.flatnonzero(lines.slice == s)[0] for s in slices])
    along = lines.position[first] @ lines.slice_dir[first[0]]
    if not is_frame(lines.slice_dir[first[0]]) or not np.isfinite(along).all() or len(np.unique(along)) < len(slices):
        return np.arange(len(slices))
    return np.argsort(along)


def _readout_start(lines: Lines, X: int) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """The row of the first sample, so that the echo (center_sample) lies on X//2."""
    center = np.where(lines.reverse, lines.samples - 1 - lines.center, lines.center)
    if lines.samples == X:
        # a full readout fits in one way only; an echo off the middle is a phase ramp in the image, no shift of it
        off = bool((np.abs(center - X // 2) > 1).any())
        return np.zeros_like(center), (("the echo is not in the middle of the full readout",) if off else ())
    start = X // 2 - center
    if lines.samples > X or start.min() < 0 or start.max() + lines.samples > X:
        raise FormatError(
            f"readouts of {lines.samples} samples with the echo at {int(lines.center[0])} do not fit "
            f"the encoded matrix of {X}: the header and the data disagree"
        )
    return start, (f"{lines.samples} of {X} readout samples were acquired (asymmetric echo); the rest is zero",)


def _readout_window(encoding: Encoding, X: int) -> tuple[int, tuple[str, ...]]:
    """Rows kept of X: the part of the encoded field of view that the scanner shows."""
    if encoding.recon_matrix is None or encoding.recon_matrix[0] >= X:
        return X, ()
    H = encoding.recon_matrix[0]
    if encoding.fov_mm and encoding.recon_fov_mm:
        H = round(X * encoding.recon_fov_mm[0] / encoding.fov_mm[0])
    if not 1 <= H < X:
        return X, ()
    return H, (f"readout oversampling was removed: {X} to {H} rows",)


def _checked_shape(lines: Lines, placing: Placing, budget: int | None) -> Shape:
    shape = (len(placing.slices), lines.channels, placing.H, placing.W)
    check_grid(shape, ndim=4, axes="(slices, coils, H, W)")
    held = len(lines.row) * lines.channels * lines.samples * 8
    full = (*shape[:2], placing.X, placing.W)
    check_bytes("the encoded matrix", full, 8, stored=held, budget=byte_budget(budget))
    return shape


def _fill(group: Any, lines: Lines, placing: Placing, shape: Shape) -> tuple[NDArray[np.complex64], NDArray[np.int64]]:
    """Mean over all lines at the same place, and how many there were: z (slices, Q, H, W), counts (slices, W)."""
    z = np.zeros(shape, dtype=np.complex64)
    counts = np.zeros((shape[0], shape[3]), dtype=np.int64)
    with np.errstate(over="ignore", invalid="ignore"):  # Inf and NaN pass through to check_finite
        for which, data in samples(group, lines):
            rows = _readouts(data, lines, placing, which)
            for s, w, row in zip(placing.s[which], placing.w[which], rows, strict=True):
                z[s, :, :, w] += row
                counts[s, w] += 1
        z /= np.maximum(counts, 1)[:, None, None, :].astype(np.float32)
    return z, counts


def _readouts(data: NDArray[np.complex64], lines: Lines, placing: Placing, which: slice) -> NDArray[np.complex64]:
    """(n, Q, H): samples on the grid of X, the central H rows of their image, back in k-space.

    Both transforms are unitary, so the pixels of the cropped image keep the values they had in the full one.
    """
    n = data.shape[-1]
    grid = np.zeros((*data.shape[:2], placing.X), dtype=np.complex64)
    for i, line in enumerate(range(which.start, which.stop)):
        first, last = int(lines.discard_pre[line]), n - int(lines.discard_post[line])
        kept = data[i].copy()
        kept[:, :first] = 0
        kept[:, max(last, 0) :] = 0
        start = int(placing.start[line])
        grid[i, :, start : start + n] = kept[:, ::-1] if lines.reverse[line] else kept
    return grid if placing.H == placing.X else crop_readout(grid, placing.H)


def crop_readout(k: NDArray[np.complex64], H: int) -> NDArray[np.complex64]:
    """F_H · crop · F_X⁻¹ along the last axis, with centred unitary transforms."""
    first = crop_start(k.shape[-1], H)
    image = np.fft.fftshift(np.fft.ifft(np.fft.ifftshift(k, axes=-1), norm="ortho"), axes=-1)[..., first : first + H]
    out = np.fft.fftshift(np.fft.fft(np.fft.ifftshift(image, axes=-1), norm="ortho"), axes=-1)
    return out.astype(np.complex64, copy=False)


def _common_lines(z: NDArray[np.complex64], counts: NDArray[np.int64]) -> tuple[NDArray[np.bool_], tuple[str, ...]]:
    """One mask for all slices: a line is acquired where every slice has it."""
    every: NDArray[np.bool_] = np.min(counts, axis=0) > 0
    some: NDArray[np.bool_] = np.max(counts, axis=0) > 0
    notes: tuple[str, ...] = ()
    if (every != some).any():
        notes = (f"{int((some & ~every).sum())} lines that are missing in some slices were left out in all",)
        z[..., ~every] = 0
    mask, more = sampling_pattern(every)
    return mask, notes + more


def _header(encoding: Encoding, lines: Lines, placing: Placing, notes: tuple[str, ...]) -> Header:
    facts = dict(encoding.facts)
    if encoding.n_encodings > 1:
        notes = (f"of {encoding.n_encodings} encodings the first was read", *notes)
    shown = placing.W
    if encoding.fov_mm and encoding.recon_fov_mm:
        shown = round(placing.W * min(1.0, encoding.recon_fov_mm[1] / encoding.fov_mm[1]))
    voxel = None
    if encoding.fov_mm:
        voxel = encoding.fov_mm[0] / placing.X, encoding.fov_mm[1] / placing.W, encoding.fov_mm[2]
    affine = None if voxel is None else _affine(lines, placing, voxel)
    return Header(
        source="ISMRMRD/MRD HDF5",
        acquisition=facts.get("protocol", ""),
        recon_shape=(placing.H, shown) if 1 <= shown < placing.W else None,
        affine=affine,
        voxel_mm=voxel if affine is None else voxel_sizes(affine),
        facts=facts,
        notes=notes,
    )


def _affine(lines: Lines, placing: Placing, voxel: tuple[float, float, float]) -> NDArray[np.float64] | None:
    """`position` is the middle of the slice, where the centred FFT puts pixel (H//2, W//2)."""
    first = np.array([np.flatnonzero(lines.slice == s)[0] for s in placing.slices])
    read, phase, normal = lines.read_dir[first[0]], lines.phase_dir[first[0]], lines.slice_dir[first[0]]
    positions = lines.position[first]
    if not is_frame(read, phase, normal) or not np.isfinite(positions).all():
        return None
    step = slice_step(positions, normal, voxel[2])
    if step is None:
        return None
    along_h, along_w = read * voxel[0], phase * voxel[1]
    origin = positions[0] - along_h * (placing.H // 2) - along_w * (placing.W // 2)
    return lps_affine(along_h, along_w, step, origin)
