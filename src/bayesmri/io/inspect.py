"""What a file is, what it holds, and what looks wrong with it; NumPy only."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesmri.io.apart.reading import reading
from bayesmri.io.formats import read_any
from bayesmri.io.layout.given import NOTHING, Given
from bayesmri.io.mrd.choice import FIRST, Choice
from bayesmri.kspace import Images, KSpace
from bayesmri.messages import Messages, warned
from bayesmri.physics.pattern import centre_run, mask_notes

OFF_CENTRE = 0.1  # of the grid: how far from the centre the peak of k-space may lie
WIDEST_GAP = 0.5  # of the lines: a larger hole in one place is partial Fourier, not acceleration


@dataclass(frozen=True)
class Inspection:
    """kind: "k-space" or "images". acceleration: None for images. calibration_lines: the block around the centre.

    points: the mask is of points, which acquired_lines counts; calibration_lines is the shorter side of their block.
    """

    file: str
    format: str
    kind: str
    slices: int
    coils: int
    shape: tuple[int, int]
    recon_shape: tuple[int, int] | None
    acceleration: float | None
    acquired_lines: int | None
    calibration_lines: int | None
    points: bool
    has_truth: bool
    has_affine: bool
    facts: dict[str, str]
    notes: tuple[str, ...]
    warnings: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        return {**vars(self), "shape": list(self.shape), "notes": list(self.notes), "warnings": list(self.warnings)}


def inspect_file(path: Path, *, given: Given = NOTHING, choice: Choice = FIRST, trusted: bool = True) -> Inspection:
    """Read the whole file, so that what passes here also reconstructs.

    given: what the user says of an array. choice: which image of an MRD file. trusted: read in this process, and not in
    a child.
    """
    value = reading(lambda: read_any(path, given=given, choice=choice), path, trusted=trusted)
    return _inspect_kspace(path, value) if isinstance(value, KSpace) else _inspect_images(path, value)


def data_messages(value: KSpace | Images) -> Messages:
    """What `inspect` would say of it besides facts: what the reader did or doubts, and what the values look like."""
    own = Messages(value.header.notes, value.header.warnings)
    if isinstance(value, Images):
        return own + warned(*image_warnings(value))
    return own + Messages(mask_notes(value.encoded_mask), tuple(kspace_warnings(value)))


def mask_messages(mask: NDArray[np.bool_]) -> Messages:
    """Of a mask alone, where it is chosen after the data was looked at."""
    return Messages(mask_notes(mask), tuple(mask_warnings(mask)))


def _inspect_kspace(path: Path, kspace: KSpace) -> Inspection:
    slices, Q, H, W = kspace.z.shape
    header = kspace.header
    facts = dict(header.facts)
    if header.acquisition:
        facts.setdefault("acquisition", header.acquisition)
    return Inspection(
        file=path.name,
        format=header.source,
        kind="k-space",
        slices=slices,
        coils=Q,
        shape=(H, W),
        recon_shape=header.recon_shape,
        acceleration=kspace.acceleration,
        acquired_lines=int(kspace.encoded_mask.sum()),
        calibration_lines=centre_run(kspace.mask),
        points=kspace.mask.ndim == 2,
        has_truth=kspace.truth is not None,
        has_affine=header.affine is not None,
        facts=facts,
        **vars(data_messages(kspace)),
    )


def _inspect_images(path: Path, images: Images) -> Inspection:
    slices, H, W = images.magnitude.shape
    header = images.header
    return Inspection(
        file=path.name,
        format=header.source,
        kind="images",
        slices=slices,
        coils=0,
        shape=(H, W),
        recon_shape=None,
        acceleration=None,
        acquired_lines=None,
        calibration_lines=None,
        points=False,
        has_truth=False,
        has_affine=header.affine is not None,
        facts=dict(header.facts),
        **vars(data_messages(images)),
    )


def image_warnings(images: Images) -> list[str]:
    """What no k-space worth reconstructing can be made of."""
    flat = [i for i, X in enumerate(images.magnitude) if X.max() == X.min()]
    return [f"slices without contrast: {_some(flat)}"] if flat else []


def kspace_warnings(kspace: KSpace) -> list[str]:
    """What a physicist would frown at, one sentence each."""
    power = np.zeros(kspace.z.shape[2:])
    coil_energy = np.zeros(kspace.z.shape[1])
    empty = []
    for i, z in enumerate(kspace.z):
        p = z.real.astype(np.float64) ** 2 + z.imag.astype(np.float64) ** 2
        power += p.sum(axis=0)
        coil_energy += p.sum(axis=(1, 2))
        if not p.any():
            empty.append(i)
    rows = _row_warnings(power) if kspace.mask.ndim == 1 else []
    return [*_signal_warnings(power, coil_energy, empty), *rows, *mask_warnings(kspace.encoded_mask)]


def mask_warnings(mask: NDArray[np.bool_]) -> list[str]:
    """Of a mask with missing lines or points: the central one, or too many lines side by side."""
    if mask.all():
        return []
    warnings = []
    if not mask[tuple(n // 2 for n in mask.shape)]:
        what = "line" if mask.ndim == 1 else "point"
        warnings.append(f"the central {what} of k-space was not acquired: no method can know the image's mean")
    if mask.ndim == 2:
        return warnings
    gaps = np.diff(np.flatnonzero(np.concatenate(([True], mask, [True])))) - 1
    if gaps.max() > WIDEST_GAP * len(mask):
        warnings.append(f"{int(gaps.max())} neighbouring lines are missing: partial Fourier rather than acceleration?")
    return warnings


def _signal_warnings(power: NDArray[np.float64], coil_energy: NDArray[np.float64], empty: list[int]) -> list[str]:
    warnings = []
    if empty:
        warnings.append(f"slices without any signal: {_some(empty)}")
    dead = [int(q) for q in np.flatnonzero(coil_energy < 1e-8 * coil_energy.max())]
    if dead:
        warnings.append(f"coils without signal: {_some(dead)}")
    peak = np.unravel_index(int(power.argmax()), power.shape)
    for axis, name in enumerate(("readout", "phase-encoding")):
        n = power.shape[axis]
        if abs(int(peak[axis]) - n // 2) > max(2, OFF_CENTRE * n):
            warnings.append(
                f"the peak of k-space lies at {name} index {int(peak[axis])} of {n}, far from the centre: "
                "images stored as k-space, or a transform that is not centred?"
            )
    return warnings


def _row_warnings(power: NDArray[np.float64]) -> list[str]:
    acquired = np.flatnonzero(power.sum(axis=1))
    rows = power[acquired[0] : acquired[-1] + 1].sum(axis=1)
    if rows.all():
        return []
    return [
        f"{int((rows == 0).sum())} rows between acquired ones are empty: the phase-encoding axis must be the last; "
        "transposed data?"
    ]


def _some(indices: list[int]) -> str:
    return ", ".join(map(str, indices[:8])) + (f" and {len(indices) - 8} more" if len(indices) > 8 else "")
