"""OUT.h5 of `recon` in, a folder of DICOM out: an MR series of the mean, a Parametric Map for every map there is."""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesmri.io.apart.reading import reading, reading_result
from bayesmri.io.dicom import read_dicom
from bayesmri.io.dicom_frames import quiet
from bayesmri.io.dicom_out.folder import atomic_folder, check_folder
from bayesmri.io.dicom_out.like import header_like
from bayesmri.io.dicom_out.maps import parametric_map
from bayesmri.io.dicom_out.mr_images import mr_images
from bayesmri.io.dicom_out.origin import stated
from bayesmri.io.dicom_out.planes import Planes, planes_of
from bayesmri.io.dicom_out.report import expected_report
from bayesmri.io.dicom_out.sheet import Sheet, first_number
from bayesmri.io.dicom_out.uids import digest, uid
from bayesmri.io.dicom_out.words import EXPECTED, MAPS, MEAN, Kind, comments, derivation, visibility_kind
from bayesmri.io.privacy.anonymous import anonymous_header, anonymous_result, is_anonymous
from bayesmri.io.results import Result
from bayesmri.kspace import Header, Images
from bayesmri.machine.optional import needed
from bayesmri.messages import NOTHING, Messages, noted

UNKNOWN_TIME = ("19000101", "000000")
Image = NDArray[np.float32]


@dataclass(frozen=True)
class DicomOut:
    """Where DICOM files go, and how.

    like: a series of the same slices, for patient, study and, if need be, place. as_float: maps as floating-point
    numbers, not in 16 bit. strict: a warning is an error.
    """

    folder: Path
    like: Images | None = None
    as_float: bool = False
    strict: bool = False


def write_dicom(
    source: "Path | str | Result",
    folder: Path | str,
    *,
    like: Path | str | None = None,
    as_float: bool = False,
    anonymise: bool = False,
    strict: bool = False,
    force: bool = False,
    trusted: bool = True,
) -> dict[str, Any]:
    """Write FOLDER/mean/0001.dcm, …, and FOLDER/std.dcm, error_std.dcm, bound.dcm, … as far as known.

    source: the file that `bayesmri recon` wrote, or it opened. Returns the output, its series, notes and warnings.
    like: a DICOM file or folder of the same slices: patient and study are taken from it, and the place in space where
        the raw file knew none. Unless given, all is as the raw file said it.
    as_float: maps hold floating-point numbers; otherwise 16 bit with a real-world slope, which more viewers show.
    anonymise: without what identifies a patient; the place may still be taken from `like`.
    strict: a warning is an error, and nothing is written. force: a folder of an earlier export is replaced.
    trusted: files are read in this process, and not in a child.
    """
    target = Path(folder)
    inputs = [] if isinstance(source, Result) else [Path(source)]
    check_folder(target, *inputs, *([] if like is None else [Path(like)]), force=force)
    asked = DicomOut(target, read_like(like, trusted=trusted), as_float, strict)
    opened = nullcontext(source) if isinstance(source, Result) else reading_result(Path(source), trusted=trusted)
    with opened as result:  # all that is wanted of the file is in memory then
        pass
    name = result.name
    if anonymise:
        result, removed = anonymous_result(result)
    with atomic_folder(target) as made:
        facts = write_files(result, made, asked)
    return {"file": name, "output": str(target), **({"removed": list(removed)} if anonymise else {}), **facts}


def read_like(like: Path | str | None, *, trusted: bool) -> Images | None:
    """Before any work, and so is the extra asked for."""
    needed("highdicom", extra="dicom", what="DICOM")
    return None if like is None else reading(lambda: read_dicom(Path(like)), Path(like), trusted=trusted)


def write_files(result: Result, folder: Path, asked: DicomOut) -> dict[str, Any]:
    """All files of a result into a folder that is there: JSON values of what was written."""
    kinds = _kinds(result)
    header, taken = result.header, NOTHING
    if asked.like is not None:
        header, taken = header_like(header, result.mean, asked.like)
    if is_anonymous(result.provenance):
        header, _ = anonymous_header(header)
    planes, placed = planes_of(header, _shape(result.mean))
    origin, named = _origin(header, planes, _scan(result), removed=is_anonymous(result.provenance))
    said = result.said + taken + placed + named
    said.check(strict=asked.strict)
    sheet = _sheet(result, planes, origin, said, as_float=asked.as_float)
    with quiet():  # names of one component and the like, which are as the raw file has them
        images = mr_images(result.mean, sheet)
        (folder / MEAN.name).mkdir()
        for i, image in enumerate(images):
            image.save_as(folder / MEAN.name / f"{i + 1:04d}.dcm", enforce_file_format=True)
        for i, (kind, values) in enumerate(kinds.items()):
            number = sheet.first + 1 + i
            made = parametric_map(values, kind, sheet, over=images, number=number, as_float=asked.as_float)
            made.save_as(folder / f"{kind.name}.dcm", enforce_file_format=True)
        if result.expected:
            report = expected_report(result.expected, sheet, of=images, number=sheet.first + 1 + len(kinds))
            report.save_as(folder / f"{EXPECTED.name}.dcm", enforce_file_format=True)
    series = {kind.name: kind.title for kind in [MEAN, *kinds, *([EXPECTED] if result.expected else [])]}
    return {"slices": len(images), "series": series, "patient": sheet.origin["PatientID"], **said.as_json()}


def _kinds(result: Result) -> dict[Kind, Image]:
    maps = {MAPS[name]: result.others[name] for name in MAPS if name in result.others}
    seen = enumerate(result.visibility.items(), start=1)
    return maps | {visibility_kind(template, i): values for i, (template, values) in seen}


def _sheet(result: Result, planes: Planes, origin: Mapping[str, str], said: Messages, *, as_float: bool) -> Sheet:
    version = metadata.version("bayesmri")
    sheet = Sheet(
        origin=origin,
        planes=planes,
        content="",
        method=result.method,
        version=version,
        derivation=derivation(result, version),
        comments=comments(said),
        made=_made(result.provenance),
        removed=is_anonymous(result.provenance),
        first=first_number(int(float(origin.get("SeriesNumber", "0")))),
    )
    arrays: dict[str, NDArray[np.generic]] = {"mean": result.mean}
    arrays |= {kind.name: values for kind, values in _kinds(result).items()}
    arrays |= {"positions": planes.positions, "orientation": planes.orientation, "spacing": np.array(planes.spacing)}
    words = [sheet.derivation, sheet.comments, *map(str, origin.items()), *sheet.made, version, repr(as_float)]
    return replace(sheet, content=digest(arrays, *words))


def _origin(header: Header, planes: Planes, scan: str, *, removed: bool) -> tuple[dict[str, str], Messages]:
    """Whose, and of which study; made up from the digest of the scan, and said so, where nothing says it."""
    known = stated({"PatientID": header.patient_id, **header.dicom})
    said = NOTHING
    if not known.get("PatientID") and not known.get("PatientName"):
        known |= {"PatientName": "Anonymous", "PatientID": f"anonymous-{scan[:12]}"}
        why = "what identifies the patient was removed" if removed else "the raw data does not say whose it is"
        said = noted(f"{why}: the DICOM files are of {known['PatientID']}")
    known.setdefault("PatientID", f"unnumbered-{scan[:12]}")
    known.setdefault("StudyInstanceUID", uid(scan, "study"))
    if not planes.known or "FrameOfReferenceUID" not in known:
        known["FrameOfReferenceUID"] = uid(scan, "frame", repr(planes.known))
    return known, said


def _scan(result: Result) -> str:
    """The checksum of the raw file, so that all results of one scan are of one study; else that of the image."""
    inputs = result.provenance.get("inputs")
    first = inputs[0] if isinstance(inputs, list) and inputs and isinstance(inputs[0], Mapping) else {}
    found = first.get("sha256")
    return found if isinstance(found, str) and len(found) == 64 else digest({"mean": result.mean})


def _made(provenance: Mapping[str, Any]) -> tuple[str, str]:
    """(date, time) of the reconstruction: an export is the same whenever it is made."""
    try:
        time = datetime.fromisoformat(str(provenance.get("time")))
    except ValueError:
        return UNKNOWN_TIME
    return f"{time:%Y%m%d}", f"{time:%H%M%S}"


def _shape(image: Image) -> tuple[int, int, int]:
    n, h, w = image.shape
    return n, h, w
