"""The ISMRMRD XML header: read from MRD files and from the `ismrmrd_header` of fastMRI files."""

import math
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass, field

from bayesmri.errors import FormatError
from bayesmri.io.guard import one_line

MAX_MATRIX = 65_535
MAX_TAGS = 50_000
PROTON_HZ_PER_T = 42.577478e6
DICOM = {
    "PatientName": "subjectInformation/patientName",
    "PatientID": "subjectInformation/patientID",
    "PatientBirthDate": "subjectInformation/patientBirthdate",
    "PatientSex": "subjectInformation/patientGender",
    "PatientWeight": "subjectInformation/patientWeight_kg",
    "StudyDate": "studyInformation/studyDate",
    "StudyTime": "studyInformation/studyTime",
    "StudyID": "studyInformation/studyID",
    "AccessionNumber": "studyInformation/accessionNumber",
    "ReferringPhysicianName": "studyInformation/referringPhysicianName",
    "StudyDescription": "studyInformation/studyDescription",
    "StudyInstanceUID": "studyInformation/studyInstanceUID",
    "BodyPartExamined": "studyInformation/bodyPartExamined",
    "PatientPosition": "measurementInformation/patientPosition",
    "ProtocolName": "measurementInformation/protocolName",
    "SeriesNumber": "measurementInformation/initialSeriesNumber",
    "SequenceName": "measurementInformation/sequenceName",
    "FrameOfReferenceUID": "measurementInformation/frameOfReferenceUID",
    "Manufacturer": "acquisitionSystemInformation/systemVendor",
    "ManufacturerModelName": "acquisitionSystemInformation/systemModel",
    "MagneticFieldStrength": "acquisitionSystemInformation/systemFieldStrength_T",
    "InstitutionName": "acquisitionSystemInformation/institutionName",
    "StationName": "acquisitionSystemInformation/stationName",
    "DeviceSerialNumber": "acquisitionSystemInformation/deviceSerialNumber",
    "RepetitionTime": "sequenceParameters/TR",
    "EchoTime": "sequenceParameters/TE",
    "InversionTime": "sequenceParameters/TI",
    "FlipAngle": "sequenceParameters/flipAngle_deg",
}
Triple = tuple[int, int, int]
Lengths = tuple[float, float, float]


@dataclass(frozen=True)
class Encoding:
    """What the header says about the first encoding; None where it is silent.

    matrix, fov_mm: the encoded grid (x readout, y phase, z); recon_*: what the scanner shows of it.
    center, center_2: the index of encode_step_1 and _2 that passes through the centre of k-space.
    dicom: patient, study, machine and sequence, by DICOM's keywords.
    noise_bandwidth: the share of its band that the receiver passes.
    limits: (minimum, maximum) of the counters that the header announces, by their names in it.
    """

    matrix: Triple | None
    fov_mm: Lengths | None
    recon_matrix: Triple | None
    recon_fov_mm: Lengths | None
    center: int | None
    center_2: int | None
    noise_bandwidth: float | None
    trajectory: str
    calibration: str
    dicom: Mapping[str, str]
    facts: Mapping[str, str]
    n_encodings: int
    limits: Mapping[str, tuple[int, int]] = field(default_factory=dict)


def parse_header(text: str, *, name: str) -> Encoding:
    """Read the header; entities are refused before the parser sees them, since they expand without bound."""
    if "<!DOCTYPE" in text.upper() or "<!ENTITY" in text.upper():
        raise FormatError(f"{name} declares XML entities (DOCTYPE), expected a plain ISMRMRD header")
    if text.count("<") > MAX_TAGS:  # a real header has some hundreds
        raise FormatError(f"{name} has {text.count('<')} XML tags, expected an ISMRMRD header, at most {MAX_TAGS}")
    try:
        root = ET.fromstring(text.strip("\0 \r\n\t"))
    except (ET.ParseError, ValueError) as error:
        raise FormatError(f"{name} is not valid XML ({one_line(error, limit=80)}): the file is damaged") from error
    encodings = root.findall("{*}encoding")
    if not encodings:
        raise FormatError(f"{name} has no <encoding>, expected an ISMRMRD header")
    first = encodings[0]
    encoded, recon = first.find("{*}encodedSpace"), first.find("{*}reconSpace")
    matrix, fov = _matrix(encoded, name), _fov(encoded)
    return Encoding(
        matrix=matrix,
        fov_mm=fov,
        recon_matrix=_matrix(recon, name),
        recon_fov_mm=_fov(recon),
        center=_integer(_text(first, "encodingLimits/kspace_encoding_step_1/center"), name, least=0),
        center_2=_integer(_text(first, "encodingLimits/kspace_encoding_step_2/center"), name, least=0),
        noise_bandwidth=_share(_text(root, "acquisitionSystemInformation/relativeReceiverNoiseBandwidth")),
        trajectory=_text(first, "trajectory").lower(),
        calibration=_text(first, "parallelImaging/calibrationMode").lower(),
        dicom=_dicom(root, matrix, fov),
        facts=_facts(root, first, matrix, fov),
        n_encodings=len(encodings),
        limits=_limits(first),
    )


def _text(node: ET.Element | None, path: str) -> str:
    found = None if node is None else node.find(_path(path))
    return "" if found is None else one_line(found.text or "", limit=120)


def _path(path: str) -> str:
    return "/".join("{*}" + part for part in path.split("/"))


def _integer(text: str, name: str, *, least: int) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdecimal()) or not least <= int(text[:9]) <= MAX_MATRIX:
        raise FormatError(
            f"{name} gives {text!r} for a matrix size or centre, expected an integer from {least} to {MAX_MATRIX}"
        )
    return int(text[:9])


def _limits(encoding: ET.Element) -> dict[str, tuple[int, int]]:
    """Of counters whose limits are whole numbers in order; others count as not announced."""
    found = {}
    for node in encoding.findall("{*}encodingLimits/*"):
        ends = [_text(node, end) for end in ("minimum", "maximum")]
        if all(end.isascii() and end.isdecimal() for end in ends):
            low, high = (int(end[:9]) for end in ends)
            if low <= high <= MAX_MATRIX:
                found[node.tag.rpartition("}")[2]] = low, high
    return found


def _matrix(space: ET.Element | None, name: str) -> Triple | None:
    x, y, z = (_integer(_text(space, f"matrixSize/{axis}"), name, least=1) for axis in "xyz")
    return None if x is None or y is None else (x, y, z or 1)


def _fov(space: ET.Element | None) -> Lengths | None:
    x, y, z = (_positive(_text(space, f"fieldOfView_mm/{axis}")) for axis in "xyz")
    return None if x is None or y is None or z is None else (x, y, z)


def _positive(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and 0 < value < 1e9 else None


def _share(text: str) -> float | None:
    value = _positive(text)
    return value if value is not None and value <= 1 else None


def _dicom(root: ET.Element, matrix: Triple | None, fov: Lengths | None) -> dict[str, str]:
    """What is there once: of several echoes none is that of the image."""
    once = {name: path for name, path in DICOM.items() if len(root.findall(_path(path))) == 1}
    found = {name: _text(root, path) for name, path in once.items()}
    depth = None if fov is None else fov[2] / (matrix[2] if matrix else 1)
    found |= {} if depth is None else {"SliceThickness": f"{depth:.9g}"}
    return {name: value for name, value in found.items() if value}


def _facts(root: ET.Element, encoding: ET.Element, matrix: Triple | None, fov: Lengths | None) -> dict[str, str]:
    system, sequence = root.find("{*}acquisitionSystemInformation"), root.find("{*}sequenceParameters")
    tesla = _positive(_text(system, "systemFieldStrength_T"))
    hertz = _positive(_text(root, "experimentalConditions/H1resonanceFrequency_Hz"))
    if tesla is None and hertz is not None:
        tesla = hertz / PROTON_HZ_PER_T
    facts = {
        "protocol": _text(root, "measurementInformation/protocolName"),
        "sequence": _text(sequence, "sequence_type"),
        "scanner": f"{_text(system, 'systemVendor')} {_text(system, 'systemModel')}".strip(),
        "field strength": "" if tesla is None else f"{tesla:.3g} T",
        "receiver channels": _text(system, "receiverChannels"),
        "TR": _with_unit(_text(sequence, "TR"), "ms"),
        "TE": _with_unit(_text(sequence, "TE"), "ms"),
        "TI": _with_unit(_text(sequence, "TI"), "ms"),
        "flip angle": _with_unit(_text(sequence, "flipAngle_deg"), "°"),
        "encoded matrix": "" if matrix is None else " x ".join(str(n) for n in matrix),
        "encoded field of view": "" if fov is None else " x ".join(f"{n:.4g}" for n in fov) + " mm",
        "scanner acceleration": _text(encoding, "parallelImaging/accelerationFactor/kspace_encoding_step_1"),
    }
    return {name: value for name, value in facts.items() if value}


def _with_unit(text: str, unit: str) -> str:
    value = _positive(text)
    return "" if value is None else f"{value:g} {unit}"
