"""The values that travel: measured k-space and magnitude images, as read, with what the file knows about them."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from bayesmri.errors import DataError, MaskError, ShapeError

MIN_SIZE = 8  # pixels; the 7x7 window of SSIM must fit


@dataclass(frozen=True)
class Header:
    """What a file says about its acquisition.

    source: the format, in words ("fastMRI HDF5").
    recon_shape: (h, w) of the image the scanner would show, where the grid is larger (readout oversampling).
    affine: index (h, w, slice) of the full H x W grid → RAS+ millimetres, where the file knows it.
    voxel_mm: spacing along (h, w, slice), where only that is known.
    dicom: what the file says of patient, study, machine and sequence, by DICOM's keywords.
    facts: short header facts for `inspect`; notes: what the reader did or assumed, one sentence each.
    warnings: what may make the image wrong, one sentence each.
    turned: rows and columns were exchanged, since the file was undersampled along its rows; images are turned back.
    encoded: the part of the grid that was encoded, from row to row and from column to column, where the rest is zero
        padding: reconstructed on that part, images keep the whole grid.
    """

    source: str
    acquisition: str = ""
    patient_id: str = ""
    recon_shape: tuple[int, int] | None = None
    affine: NDArray[np.float64] | None = None
    voxel_mm: tuple[float, float, float] | None = None
    dicom: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    turned: bool = False
    encoded: tuple[int, int, int, int] | None = None


@dataclass(frozen=True)
class KSpace:
    """z: complex64 (slices, Q, H, W), zero-filled where `mask` is False.

    mask: acquired columns, bool (W,), or acquired points, bool (H, W), where whole columns are not what is missing; a
        mask (H, W) of whole columns becomes one of columns.

    truth: the file's own fully sampled magnitude image (slices, h, w), where it carries one.
    reference: k-space of a separate scan of the same coils, (slices, Q, H, W), fully sampled in its centre.
    sensitivities: the user's own, complex64 (slices or 1, sets, Q, H, W).
    measured: the coils as they were measured, where z is a combination of them.
    """

    z: NDArray[np.complex64]
    mask: NDArray[np.bool_]
    header: Header
    truth: NDArray[np.float32] | None = None
    reference: NDArray[np.complex64] | None = None
    sensitivities: NDArray[np.complex64] | None = None
    measured: NDArray[np.complex64] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_grid(self.z.shape, ndim=4, axes="(slices, coils, H, W)")
        if self.mask.shape not in (self.z.shape[-1:], self.z.shape[-2:]):
            raise MaskError(
                f"got a mask of shape {self.mask.shape} with {self.z.shape[-1]} columns of k-space, "
                "expected one bool per column (phase encoding is the last axis), or one per row and column"
            )
        if not self.mask.any():
            raise DataError("k-space holds no acquired line: every column is zero")
        object.__setattr__(self, "mask", as_columns(self.mask))

    def part(self, slices: slice) -> "KSpace":
        """Some of the slices."""
        maps = self.sensitivities
        return replace(
            self,
            z=self.z[slices],
            truth=None if self.truth is None else self.truth[slices],
            reference=None if self.reference is None else self.reference[slices],
            sensitivities=maps if maps is None or len(maps) == 1 else maps[slices],
            measured=None if self.measured is None else self.measured[slices],
        )

    def contents(self) -> list[str]:
        """`slice_digest` of every slice, of the measured coils: what combines them may differ in its last bits."""
        return [slice_digest(z, self.mask) for z in (self.z if self.measured is None else self.measured)]

    @property
    def fully_sampled(self) -> bool:
        return bool(self.mask.all())

    @property
    def acceleration(self) -> float:
        """Lines, or points, of the encoded grid for each acquired one: what the data really has."""
        inside = self.encoded_mask
        return inside.size / max(1, int(inside.sum()))

    @property
    def encoded_mask(self) -> NDArray[np.bool_]:
        """The mask without zero padding."""
        if self.header.encoded is None:
            return self.mask
        top, bottom, left, right = self.header.encoded
        return self.mask[left:right] if self.mask.ndim == 1 else self.mask[top:bottom, left:right]


def as_columns(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """A mask (H, W) whose rows are all the same as (W,); others as they are."""
    columns: NDArray[np.bool_] = mask[0].copy() if mask.ndim == 2 and (mask == mask[0]).all() else mask
    return columns


def slice_digest(z: NDArray[np.complexfloating], mask: NDArray[np.bool_]) -> str:
    """sha256 of what was measured of one slice (Q, H, W): its acquired columns or points, and which they are.

    A file undersampled before and one undersampled on the fly have the same digest, whatever they are called.
    """
    lines = np.ascontiguousarray(z[..., mask], dtype="<c8") + np.complex64(0)  # −0 and 0 are the same measurement
    digest = hashlib.sha256(f"{z.shape}/{np.flatnonzero(mask).tolist()}/".encode())
    digest.update(lines.astype("<c8", copy=False).tobytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class Images:
    """Magnitude slices, float32 (slices, H, W) ≥ 0, from which k-space can be simulated."""

    magnitude: NDArray[np.float32]
    header: Header

    def __post_init__(self) -> None:
        check_grid(self.magnitude.shape, ndim=3, axes="(slices, H, W)")


def check_grid(shape: tuple[int, ...], *, ndim: int, axes: str) -> None:
    """Every axis is there and none is empty; the image is large enough to mean something."""
    if len(shape) != ndim:
        raise ShapeError(f"got an array of shape {shape}, expected {ndim} axes {axes}")
    if 0 in shape:
        empty = axes.strip("()").split(", ")[shape.index(0)]
        raise ShapeError(f"got an array of shape {shape}, whose axis of {empty} is empty, expected at least 1")
    if min(shape[-2:]) < MIN_SIZE:
        raise ShapeError(f"got an image of {shape[-2]}x{shape[-1]} pixels, expected at least {MIN_SIZE}x{MIN_SIZE}")


def check_finite(name: str, array: NDArray[np.generic]) -> None:
    """No NaN and no Inf, found without a copy of the whole array."""
    for index, part in enumerate(array):
        bad = int(part.size - np.count_nonzero(np.isfinite(part)))
        if bad:
            raise DataError(
                f"{name} holds {bad} NaN or Inf values, first in slice {index}, "
                "expected finite numbers; export the data again or drop that slice"
            )
