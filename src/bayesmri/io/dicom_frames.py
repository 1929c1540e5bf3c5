"""The frames of DICOM files: which belong together, where they lie, which are magnitudes."""

import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesmri.errors import BayesMRIError
from bayesmri.io.guard import one_line
from bayesmri.io.integrity.inflate import check_deflate
from bayesmri.machine.optional import needed

MAX_FILES = 20_000
PREAMBLE = 128
# third value of ImageType (Siemens M/P/R/I, others in words) and ComplexImageComponent
NOT_MAGNITUDE = frozenset({"P", "R", "I", "PHASE", "REAL", "IMAGINARY", "PHASE MAP", "VELOCITY"})
PARAMETRIC_MAP = "1.2.840.10008.5.1.4.1.1.30"
FACTS = {
    "ProtocolName": "protocol", "SeriesDescription": "series", "Manufacturer": "manufacturer",
    "ManufacturerModelName": "scanner", "MagneticFieldStrength": "field strength (T)", "RepetitionTime": "TR (ms)",
    "EchoTime": "TE (ms)", "FlipAngle": "flip angle (°)", "NumberOfAverages": "averages", "Modality": "modality",
    "BodyPartExamined": "body part",
}  # fmt: skip


@dataclass(frozen=True)
class Frame:
    """One image plane: positions and directions are LPS millimetres, None where the file is silent."""

    path: Path
    index: int
    series: tuple[str, ...]
    shape: tuple[int, int]
    number: int
    position: NDArray[np.float64] | None
    along_w: NDArray[np.float64] | None  # direction of increasing column
    along_h: NDArray[np.float64] | None
    spacing: tuple[float, float] | None  # millimetres between rows, between columns
    thickness: float | None
    slope: float
    intercept: float


def pydicom_module() -> Any:
    """0.3 s, the first time."""
    return needed("pydicom", extra="dicom", what="DICOM")


@contextmanager
def quiet() -> Iterator[None]:
    """pydicom warns about every irregular value; what matters here is checked and noted."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def is_dicom(path: Path) -> bool:
    try:
        if not path.is_file():  # a pipe would block
            return False
        with path.open("rb") as stream:
            return stream.read(PREAMBLE + 4)[PREAMBLE:] == b"DICM"
    except (OSError, ValueError):
        return False


def dicom_files(folder: Path) -> Iterator[Path]:
    """Regular files under `folder`, in order of their names; links to folders are not followed."""
    count = 0
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            count += 1
            if count > MAX_FILES:
                return
            yield path


def scan(paths: list[Path]) -> tuple[list[Frame], Any, tuple[str, ...]]:
    """(frames of the largest magnitude series, header of its first file, notes)."""
    frames: list[Frame] = []
    heads: dict[tuple[str, ...], Any] = {}
    skipped = Counter[str]()
    for path in paths:
        head, found, reason = _open(path)
        if reason:
            skipped[reason] += 1
            continue
        frames += found
        heads[found[0].series] = heads.get(found[0].series, head)
    notes = tuple(f"{n} files were skipped: {reason}" for reason, n in sorted(skipped.items()))
    if not frames:
        return [], None, notes
    sizes = Counter(frame.series for frame in frames)
    series = max(sizes, key=lambda key: (sizes[key], key))
    if len(sizes) > 1:
        notes += (f"of {len(sizes)} series the largest ({sizes[series]} of {len(frames)} images) was read",)
    return [frame for frame in frames if frame.series == series], heads[series], notes


def facts(head: Any) -> dict[str, str]:
    with quiet():
        found = {name: one_line(head.get(tag, "") or "", limit=80) for tag, name in FACTS.items()}
    return {name: value for name, value in found.items() if value}


def _open(path: Path) -> tuple[Any, list[Frame], str]:
    """(header, frames, "") of a magnitude image, or (None, [], why it is none)."""
    if not is_dicom(path):
        return None, [], "not DICOM"
    pydicom = pydicom_module()
    try:
        with quiet():
            check_deflate(path)
            head = pydicom.dcmread(path, stop_before_pixels=True)
            reason = _not_an_image(head)
            return (None, [], reason) if reason else (head, _frames(path, head), "")
    except BayesMRIError as error:
        return None, [], one_line(error, limit=200)
    except Exception:  # pydicom raises a dozen unrelated types on broken bytes
        return None, [], "damaged"


def _not_an_image(head: Any) -> str:
    if "Rows" not in head or "Columns" not in head:
        return "no image in it (or truncated)"
    if (
        int(head.get("SamplesPerPixel", 1)) != 1
        or head.get("PhotometricInterpretation", "MONOCHROME2") != "MONOCHROME2"
    ):
        return "not a grey-scale image"
    if head.get("SOPClassUID") == PARAMETRIC_MAP:
        return "a map of numbers (Parametric Map), no image"
    kinds = [str(word).upper() for word in head.get("ImageType", [])]
    component = str(head.get("ComplexImageComponent", "")).upper()
    if component in NOT_MAGNITUDE or any(word in NOT_MAGNITUDE for word in kinds[2:3]):
        return "phase, real or imaginary images"
    return ""


def _frames(path: Path, head: Any) -> list[Frame]:
    groups = head.get("PerFrameFunctionalGroupsSequence") or []
    shared = (head.get("SharedFunctionalGroupsSequence") or [None])[0]
    count = max(1, int(head.get("NumberOfFrames", 1) or 1))
    per_frame = list(groups)[:count] or [None] * min(count, MAX_FILES)
    return [_frame(path, head, i, (own, shared)) for i, own in enumerate(per_frame)]


def _frame(path: Path, head: Any, index: int, groups: tuple[Any, ...]) -> Frame:
    position = _numbers(_value(head, groups, "PlanePositionSequence", "ImagePositionPatient"), 3)
    cosines = _numbers(_value(head, groups, "PlaneOrientationSequence", "ImageOrientationPatient"), 6)
    pixel = _numbers(_value(head, groups, "PixelMeasuresSequence", "PixelSpacing"), 2)
    gap = _numbers(_value(head, groups, "PixelMeasuresSequence", "SpacingBetweenSlices"), 1)
    thick = _numbers(_value(head, groups, "PixelMeasuresSequence", "SliceThickness"), 1)
    depth = next((float(n[0]) for n in (gap, thick) if n is not None and n[0] > 0), None)
    slope = _numbers(_value(head, groups, "PixelValueTransformationSequence", "RescaleSlope"), 1)
    intercept = _numbers(_value(head, groups, "PixelValueTransformationSequence", "RescaleIntercept"), 1)
    rows, columns = int(head.Rows), int(head.Columns)
    echo = one_line(head.get("EchoTime", ""), limit=30)
    plane = "" if cosines is None else " ".join(f"{n:.2f}" for n in cosines + 0.0)
    return Frame(
        path=path,
        index=index,
        series=(one_line(head.get("SeriesInstanceUID", "")), f"{rows}x{columns}", echo, plane),
        shape=(rows, columns),
        number=int(head.get("InstanceNumber", 0) or 0),
        position=position,
        along_w=None if cosines is None else cosines[:3],
        along_h=None if cosines is None else cosines[3:],
        spacing=None if pixel is None or pixel.min() <= 0 else (float(pixel[0]), float(pixel[1])),
        thickness=depth,
        slope=1.0 if slope is None or slope[0] == 0 else float(slope[0]),
        intercept=0.0 if intercept is None else float(intercept[0]),
    )


def _value(head: Any, groups: tuple[Any, ...], sequence: str, tag: str) -> Any:
    """The frame's own value, else the one all frames share, else the top level's."""
    for group in groups:
        items = None if group is None else group.get(sequence)
        if items and items[0].get(tag) is not None:
            return items[0].get(tag)
    return head.get(tag)


def _numbers(value: Any, count: int) -> NDArray[np.float64] | None:
    try:
        array = np.atleast_1d(np.array(value, dtype=np.float64))
    except (TypeError, ValueError):
        return None
    return array if array.shape == (count,) and bool(np.isfinite(array).all()) else None
