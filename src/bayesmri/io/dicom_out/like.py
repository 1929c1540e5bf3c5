"""Another series of the same slices as the source of patient, study and, where the raw file knows none, place."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from bayesmri.errors import DataError
from bayesmri.io.geometry import usable_affine, usable_voxel, voxel_sizes
from bayesmri.kspace import Header, Images
from bayesmri.messages import NOTHING, Messages, noted, warned

Array = NDArray[np.float64]
Image = NDArray[np.float32]
GRID = 64  # pixels a side, on which images are compared
ALIKE, APART = 0.5, 0.02  # least correlation, and least lead over any other way to lay the images,
CLOSER = 0.5  # unless what is lacking to 1 is so small a share of what the other way lacks
FIELD = 0.02  # of the field of view, by which two scans of it may differ
FAR = 5.0  # millimetres between two middles, beyond which a reader should know


@dataclass(frozen=True)
class Laid:
    """One way to lay our images over the others: axes exchanged first, then rows, columns and slices reversed."""

    exchanged: bool
    rows: bool
    columns: bool
    slices: bool

    @property
    def plain(self) -> bool:
        return self == Laid(False, False, False, False)


def check_slices(like: Images, n: int) -> None:
    found = len(like.magnitude)
    if found != n:
        raise DataError(
            f"got {found} slices in the DICOM series to be like, expected {n} as in the reconstruction; give the "
            "series of the same slices"
        )


def header_like(header: Header, mean: Image, like: Images) -> tuple[Header, Messages]:
    """The header of a reconstruction (slices, h, w), patient and study of the other series, if need be its place."""
    check_slices(like, len(mean))
    _same_patient(header, like.header)
    told = replace(header, patient_id=like.header.patient_id, dicom=like.header.dicom)
    if header.affine is not None and usable_affine(header.affine):
        return told, _distance(header.affine, mean.shape, like)
    if like.header.affine is None:
        return told, NOTHING
    laid = _found(mean, like.magnitude, _ways(header, mean.shape, like))
    affine = like.header.affine @ _between(laid, mean.shape, like.magnitude.shape)
    return replace(told, affine=affine, voxel_mm=voxel_sizes(affine)), _words(laid, mean.shape, like)


def _same_patient(header: Header, other: Header) -> None:
    ours, theirs = (one.patient_id.strip().casefold() for one in (header, other))
    if ours and theirs and ours != theirs:
        raise DataError(
            "got a DICOM series of another patient than the raw file names, expected the same; give the right series, "
            "or take the identifier out of the raw file first"
        )


def _distance(affine: Array, shape: tuple[int, ...], like: Images) -> Messages:
    if like.header.affine is None:
        return NOTHING
    ours, theirs = _middle(affine, shape), _middle(like.header.affine, like.magnitude.shape)
    apart = float(np.linalg.norm(ours - theirs))
    if apart <= FAR:
        return NOTHING
    return warned(f"the series to be like lies {apart:.0f} mm from where the raw file says: the raw file was believed")


def _middle(affine: Array, shape: tuple[int, ...]) -> Array:
    n, h, w = shape
    return np.asarray(affine @ np.array([(h - 1) / 2, (w - 1) / 2, (n - 1) / 2, 1.0]))[:3]


def _ways(header: Header, shape: tuple[int, ...], like: Images) -> list[Laid]:
    """All in which the fields of view cover each other; in which they have one shape, where ours has no size."""
    voxel, other = header.voxel_mm, like.header.voxel_mm
    sized = voxel is not None and other is not None and usable_voxel(voxel)
    (a, b), (A, B) = (voxel[:2], other[:2]) if sized and voxel and other else ((1.0, 1.0), (1.0, 1.0))
    h, w, H, W = a * shape[1], b * shape[2], A * like.magnitude.shape[1], B * like.magnitude.shape[2]
    scale = 1.0 if sized else (H * W / (h * w)) ** 0.5
    fits = {
        exchanged: abs(rows * scale - H) <= FIELD * H and abs(columns * scale - W) <= FIELD * W
        for exchanged, rows, columns in ((False, h, w), (True, w, h))
    }
    if not any(fits.values()):
        unit = "mm" if sized else "pixels"
        raise DataError(
            f"got a DICOM series of {H:.4g} x {W:.4g} {unit}, expected {h:.4g} x {w:.4g} {unit} as the reconstruction, "
            "which knows no place of its own; give the series of the same field of view"
        )
    slices = (False, True) if shape[0] > 1 else (False,)
    ways = (Laid(*flags) for flags in product((False, True), (False, True), (False, True), slices))
    return [way for way in ways if fits[way.exchanged]]


def _found(mean: Image, other: Image, ways: Sequence[Laid]) -> Laid:
    """The way in which the images correlate most, if it is clearly one."""
    small, target = _small(mean), _small(other)
    fits = {way: _correlation(_laid(small, way), target) for way in ways}
    first, second, *_ = sorted(fits, key=lambda way: -fits[way])
    best, lead = fits[first], fits[first] - fits[second]
    if best < ALIKE or (lead < APART and 1 - best > CLOSER * (1 - fits[second])) or lead < 1e-6:
        raise DataError(
            f"got a DICOM series that shows no image like the reconstruction in one certain direction (correlation "
            f"{best:.2f}, {lead:.2f} ahead of the next way to lay them), expected the same slices; the raw file knows "
            "no place, and none was guessed: leave the series out"
        )
    return first


def _small(volume: Image) -> Array:
    """The nearest pixels of a grid that reaches from edge to edge, so that it may be turned like the image."""
    rows, columns = (np.rint(np.linspace(0, size - 1, GRID)).astype(int) for size in volume.shape[1:])
    return volume[:, rows][:, :, columns].astype(np.float64)


def _laid(volume: Array, way: Laid) -> Array:
    turned = volume.swapaxes(1, 2) if way.exchanged else volume
    turned = turned[:, ::-1] if way.rows else turned
    turned = turned[:, :, ::-1] if way.columns else turned
    return turned[::-1] if way.slices else turned


def _correlation(a: Array, b: Array) -> float:
    a, b = (x - x.mean() for x in (a, b))
    return float((a * b).sum() / max(float(np.sqrt((a * a).sum() * (b * b).sum())), 1e-300))


def _between(way: Laid, shape: tuple[int, ...], other: tuple[int, ...]) -> Array:
    """Our index (h, w, slice, 1) → that of the other images, whose field of view is ours."""
    n, h, w = shape
    _, H, W = other
    ours = (w, h) if way.exchanged else (h, w)
    M = np.zeros((4, 4))
    M[3, 3] = 1.0
    for axis, (size, theirs, back) in enumerate(zip(ours, (H, W), (way.rows, way.columns), strict=True)):
        column, step = (1 - axis if way.exchanged else axis), theirs / size
        first = step / 2 - 0.5  # the edge of the field of view stays where it is
        M[axis, column], M[axis, 3] = (-step, first + step * (size - 1)) if back else (step, first)
    M[2, 2], M[2, 3] = (-1.0, n - 1.0) if way.slices else (1.0, 0.0)
    return M


def _words(way: Laid, shape: tuple[int, ...], like: Images) -> Messages:
    said = noted("the raw file knows no place: that of the DICOM series to be like was taken, by what the images show")
    turns = {"rows and columns exchanged": way.exchanged, "rows reversed": way.rows, "columns reversed": way.columns}
    turns["slices reversed"] = way.slices
    if not way.plain:
        said += noted(f"the series to be like shows them with {', '.join(turn for turn, yes in turns.items() if yes)}")
    if shape[1:] != like.magnitude.shape[1:]:
        said += noted("the pixels of the series to be like have another size: the place is right to half a pixel")
    return said
