"""DICOM: a file (single- or multi-frame) or a folder of series, as magnitude slices with their affine."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesmri.errors import BayesMRIError, FormatError
from bayesmri.io.dicom_frames import Frame, dicom_files, facts, pydicom_module, quiet, scan
from bayesmri.io.dicom_out.origin import of_head
from bayesmri.io.geometry import voxel_sizes
from bayesmri.io.guard import byte_budget, check_bytes, damaged_as_format_error, one_line
from bayesmri.io.images import as_images
from bayesmri.io.integrity.inflate import check_deflate
from bayesmri.io.lps import is_frame, lps_affine, slice_step
from bayesmri.kspace import Header, Images


def read_dicom(path: Path, *, budget: int | None = None) -> Images:
    """The largest magnitude series, sorted along its normal: h runs down the rows, w along the columns."""
    pydicom_module()
    paths = list(dicom_files(path)) if path.is_dir() else [path]
    frames, head, notes = scan(paths)
    if not frames:
        why = "; ".join(notes) or "the folder is empty"
        raise FormatError(f"{one_line(path)} holds no DICOM magnitude image ({why}), expected an MR series")
    frames, more = _sorted(frames)
    stored = sum(p.stat().st_size for p in {frame.path for frame in frames})
    check_bytes(one_line(path.name), (len(frames), *frames[0].shape), 4, stored=stored, budget=byte_budget(budget))
    with damaged_as_format_error(path):  # pydicom decodes values when they are asked for
        header = _header(frames, head, notes + more)
    return as_images(_volume(frames), header)


def _sorted(frames: list[Frame]) -> tuple[list[Frame], tuple[str, ...]]:
    """By place along the normal, one frame per place; by instance number where places are unknown."""
    first = frames[0]
    if any(f.position is None for f in frames) or first.along_w is None or first.along_h is None:
        notes = ("positions are missing: images are in the order of their numbers",) if len(frames) > 1 else ()
        return sorted(frames, key=lambda f: (f.number, f.path, f.index)), notes
    normal = np.cross(first.along_w, first.along_h)
    place = {id(f): round(float(np.dot(f.position, normal)), 3) for f in frames if f.position is not None}
    ordered = sorted(frames, key=lambda f: (place[id(f)], f.number, f.path, f.index))
    kept = [f for i, f in enumerate(ordered) if i == 0 or place[id(f)] != place[id(ordered[i - 1])]]
    if len(kept) < len(frames):
        return kept, (f"{len(frames)} images lie at {len(kept)} places: the first of each was taken",)
    return kept, ()


def _volume(frames: list[Frame]) -> NDArray[np.float32]:
    volume = np.empty((len(frames), *frames[0].shape), dtype=np.float32)
    opened: tuple[Path, NDArray[Any]] | None = None  # a multi-frame file is decoded once, not once per frame
    for i, frame in enumerate(frames):
        if opened is None or opened[0] != frame.path:
            opened = frame.path, _pixels(frame.path, frame.shape)
        if frame.index >= len(opened[1]):
            raise FormatError(
                f"{one_line(frame.path)} is damaged: it holds {len(opened[1])} frames, more are described"
            )
        with np.errstate(over="ignore"):
            volume[i] = opened[1][frame.index].astype(np.float64) * frame.slope + frame.intercept
    return volume


def _pixels(path: Path, shape: tuple[int, int]) -> NDArray[Any]:
    """(frames, rows, columns) as stored, decoded."""
    pydicom = pydicom_module()
    with damaged_as_format_error(path), quiet():
        check_deflate(path)
        data = pydicom.dcmread(path)
        _check_frames(path, data)
        syntax = data.file_meta.TransferSyntaxUID
        if not ({"PixelData", "FloatPixelData", "DoubleFloatPixelData"} & set(data.dir())):
            raise FormatError(f"{one_line(path)} is damaged or truncated: it holds no pixel data")
        try:
            pixels = np.asarray(data.pixel_array)
        except Exception as error:
            if isinstance(error, BayesMRIError) or not syntax.is_compressed:
                raise
            raise FormatError(
                f"{one_line(path)} is compressed ({one_line(syntax.name, limit=60)}) and cannot be decoded here: "
                "decompress the files first, for example with `gdcmconv --raw IN OUT`"
            ) from error
    if pixels.shape[-2:] != shape or pixels.ndim not in (2, 3):
        raise FormatError(f"{one_line(path)} is damaged: got pixels of shape {pixels.shape}, expected {shape}")
    return pixels if pixels.ndim == 3 else pixels[None]


def _check_frames(path: Path, data: Any) -> None:
    """All frames are decoded at once, also those that lie at one place."""
    count = max(1, int(data.get("NumberOfFrames", 1) or 1))
    size = max(1, -(-int(data.get("BitsAllocated", 16)) // 8))
    shape = (count, int(data.Rows), int(data.Columns))
    check_bytes(one_line(path.name), shape, size, stored=path.stat().st_size, budget=byte_budget())


def _header(frames: list[Frame], head: Any, notes: tuple[str, ...]) -> Header:
    known = facts(head)
    if known.get("modality", "MR") != "MR":
        notes = (*notes, f"the modality is {known['modality']}, not MR")
    affine, more = _affine(frames)
    first = frames[0]
    voxel = None if affine is None else voxel_sizes(affine)
    if voxel is None and first.spacing is not None:
        voxel = (*first.spacing, first.thickness or 1.0)
    with quiet():
        patient = one_line(head.get("PatientID", "") or "", limit=80)
        said = of_head(head)
    return Header(
        source="DICOM",
        acquisition=known.get("protocol") or known.get("series", ""),
        patient_id=patient,
        dicom=said,
        affine=affine,
        voxel_mm=voxel,
        facts=known,
        notes=notes + more,
    )


def _affine(frames: list[Frame]) -> tuple[NDArray[np.float64] | None, tuple[str, ...]]:
    first = frames[0]
    if first.along_h is None or first.along_w is None or first.spacing is None or first.position is None:
        return None, ()
    if not is_frame(first.along_h, first.along_w):
        return None, ("the orientation of the file is no pair of orthogonal directions and was left out",)
    normal = np.cross(first.along_w, first.along_h)
    places = np.array([f.position for f in frames if f.position is not None])
    step = slice_step(places, normal, first.thickness or 1.0) if len(places) == len(frames) else None
    if step is None:
        return None, ("the slices are not equidistant (one missing?): the affine was left out",)
    h, w = first.spacing
    return lps_affine(first.along_h * h, first.along_w * w, step, first.position), ()
