"""fastMRI HDF5: `kspace` (slices, [coils,] H, W), with or without header, reconstruction and mask."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesmri.io.acquired import finish
from bayesmri.io.h5_geometry import stored_dicom, with_geometry
from bayesmri.io.integrity.seal import check_seal
from bayesmri.io.ismrmrd_xml import Encoding, parse_header
from bayesmri.io.layout.array import arranged, checked
from bayesmri.io.layout.axes import Arranged
from bayesmri.io.layout.given import NOTHING, Given
from bayesmri.io.layout.overrule import stored_mask
from bayesmri.io.layout.truth import judged
from bayesmri.io.safe_h5 import (
    names,
    number_attribute,
    open_h5,
    read_complex,
    read_real,
    read_text,
    stored_messages,
    text_attribute,
    where,
)
from bayesmri.kspace import MIN_SIZE, Header, KSpace, check_finite, check_grid
from bayesmri.messages import Messages

BY_NUMBER = {2: ("row", "column"), 3: ("slice", "row", "column"), 4: ("slice", "coil", "row", "column")}
COILS = {**BY_NUMBER, 3: ("coil", "row", "column")}
TRUTHS = ("reconstruction_rss", "reconstruction_esc", "reconstruction")


@dataclass(frozen=True)
class Truth:
    image: NDArray[np.float32] | None
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def read_fastmri(path: Path, *, budget: int | None = None, given: Given = NOTHING) -> KSpace:
    """Axis −2 is the readout x of the header's encoded space, axis −1 the phase-encoding y."""
    with open_h5(path) as file:
        check_seal(file)
        present = names(file)
        values, told = read_complex(file, "kspace", budget=budget)
        found = checked(_arranged(file, values, given, budget), given)
        z = found.z
        check_grid(z.shape, ndim=4, axes="(slices, coils, H, W)")
        mask = read_real(file, "mask", ndim=(1, 2, 3, 4), budget=budget) if "mask" in present else None
        encoding = None
        if "ismrmrd_header" in present:
            encoding = parse_header(read_text(file, "ismrmrd_header"), name=where(file, "ismrmrd_header"))
        truth = _truth(file, z.shape, budget)
        if mask is None:
            truth = _in_our_units(truth, z)
        header = _header(file, z.shape, encoding, truth)
    doubt = found.warnings if found.notes else ()  # not of a file that says what its axes are
    header = replace(header, notes=told + found.notes + header.notes, warnings=doubt + header.warnings)
    pattern = None if mask is None else stored_mask(mask, (z.shape[2], z.shape[3]))
    return judged(finish(z, header, mask=pattern, truth=truth.image, given=given))


def _arranged(file: Any, values: NDArray[np.complex64], given: Given, budget: int | None) -> Arranged:
    """Three axes are slices of one coil, as fastMRI has them, unless the file's own image is of one slice alone.

    That is certain with fastMRI's header, or with images, which count the slices; and so is what four axes are.
    """
    present = names(file)
    image = next((name for name in TRUTHS if name in present), None)
    shape = () if image is None else read_real(file, image, ndim=(2, 3), budget=budget).shape
    count = shape[0] if len(shape) == 3 else 1 if shape else None
    coils = values.ndim == 3 and count == 1 and len(values) > 1
    certain = values.ndim == 4 or "ismrmrd_header" in present or (count is not None and count in (len(values), 1))
    return arranged(values, given, COILS if coils else BY_NUMBER, certain=certain)


def _truth(file: Any, shape: tuple[int, ...], budget: int | None) -> Truth:
    """The file's own image: RSS for several coils, ESC for one, where either is there and fits."""
    order = TRUTHS if shape[1] > 1 else ("reconstruction_esc", "reconstruction_rss", "reconstruction")
    name = next((name for name in order if name in names(file)), None)
    if name is None:
        return Truth(None)
    image = read_real(file, name, ndim=(2, 3), budget=budget)
    image = image if image.ndim == 3 else image[None]
    h, w = image.shape[-2:]
    if len(image) != shape[0] or min(h, w) < MIN_SIZE or h > shape[-2] or w > shape[-1]:
        note = f"`{name}` of shape {image.shape} does not fit k-space of shape {shape} and was left out"
        return Truth(None, (note,))
    with np.errstate(over="ignore"):
        image = image.astype(np.float32)
    check_finite(f"`{name}`", image)
    if image.max() <= 0:
        return Truth(None, (f"`{name}` has no positive pixel and was left out",))
    return Truth(image, warnings=_disagreement(file, name, float(image.max())))


def _in_our_units(truth: Truth, z: NDArray[np.complex64]) -> Truth:
    """Where the writer's FFT was not the unitary one, its image is too small or too large by √(HW): multiplied back.

    Judged by the middle slice, of data without a mask: its lines are all there unless some are zero, and a factor of
    √(HW) is far beyond what missing lines do.
    """
    image, middle = truth.image, len(z) // 2
    if image is None or image.shape[-2:] != z.shape[-2:]:
        return truth
    own = np.sqrt((np.abs(np.fft.ifft2(z[middle], norm="ortho")) ** 2).sum(axis=0)).max()
    root = float(np.sqrt(z.shape[-2] * z.shape[-1]))
    ratio = float(own / max(float(image[middle].max()), 1e-30))
    factor = next((f for f in (root, 1 / root) if 0.5 < ratio / f < 2), None)
    if factor is None or root < 4:
        return truth
    note = f"the file's own image is in other units than its k-space: multiplied by {factor:.4g}, for a unitary FFT"
    return replace(truth, image=image * np.float32(factor), notes=(*truth.notes, note))


def _disagreement(file: Any, name: str, largest: float) -> tuple[str, ...]:
    stated = number_attribute(file, "max", shape=())
    if stated is None or abs(float(stated) - largest) <= 0.01 * abs(largest):
        return ()
    return (f"attribute max = {float(stated):.4g} but the largest value of `{name}` is {largest:.4g}",)


def _header(file: Any, shape: tuple[int, ...], encoding: Encoding | None, truth: Truth) -> Header:
    facts = dict(encoding.facts) if encoding else {}
    facts |= {key: value for key in ("licence", "source", "norm") if (value := text_attribute(file, key))}
    header = Header(
        source="fastMRI HDF5",
        acquisition=text_attribute(file, "acquisition"),
        patient_id=text_attribute(file, "patient_id"),
        recon_shape=_recon_shape(shape, encoding, truth),
        dicom=stored_dicom(file) or (encoding.dicom if encoding else {}),
        facts=facts,
        **vars(stored_messages(file) + Messages(truth.notes, truth.warnings)),
    )
    return _with_geometry(header, file, shape, encoding)


def _recon_shape(shape: tuple[int, ...], encoding: Encoding | None, truth: Truth) -> tuple[int, int] | None:
    """The window the scanner shows, only where it is smaller than the grid.

    It is the truth's, unless the truth covers the whole grid: then the header may still ask for less of it.
    """
    H, W = shape[-2:]
    h, w = (H, W) if truth.image is None else truth.image.shape[-2:]
    if (h, w) == (H, W) and encoding and encoding.recon_matrix:
        h, w = encoding.recon_matrix[:2]
    window = min(h, H), min(w, W)
    return window if window != (H, W) and min(window) >= MIN_SIZE else None


def _with_geometry(header: Header, file: Any, shape: tuple[int, ...], encoding: Encoding | None) -> Header:
    """The attributes of our own files, else the header's field of view over the grid.

    The spacing of k-space lines fixes the field of view, so zero padding (a larger grid) makes the voxels smaller.
    """
    header = with_geometry(header, file)
    if header.voxel_mm is not None or encoding is None or encoding.fov_mm is None:
        return header
    x, y, z = encoding.fov_mm
    depth = encoding.matrix[2] if encoding.matrix else 1
    return replace(header, voxel_mm=(x / shape[-2], y / shape[-1], z / depth))
