"""Who, when and on what machine: values by DICOM's keywords, each brought into the form of its kind or left out."""

import re
from collections.abc import Mapping
from typing import Any

from bayesmri.io.guard import one_line

PATIENT = ("PatientName", "PatientID", "PatientBirthDate", "PatientSex", "PatientWeight", "PatientAge", "PatientSize")
STUDY = (
    "StudyInstanceUID", "StudyDate", "StudyTime", "StudyID", "StudyDescription", "AccessionNumber",
    "ReferringPhysicianName",
)  # fmt: skip
SERIES = (
    "SeriesNumber", "ProtocolName", "PatientPosition", "BodyPartExamined", "Laterality", "FrameOfReferenceUID",
    "PositionReferenceIndicator",
)  # fmt: skip
DEVICE = (
    "Manufacturer", "ManufacturerModelName", "InstitutionName", "StationName", "DeviceSerialNumber",
    "MagneticFieldStrength",
)  # fmt: skip
SEQUENCE = (
    "RepetitionTime", "EchoTime", "InversionTime", "FlipAngle", "EchoTrainLength", "MRAcquisitionType",
    "ImagingFrequency", "SliceThickness", "SequenceName",
)  # fmt: skip
KEYWORDS = PATIENT + STUDY + SERIES + DEVICE + SEQUENCE
CHOICES = {
    "PatientSex": ("M", "F", "O"),
    "Laterality": ("L", "R"),
    "MRAcquisitionType": ("2D", "3D"),
}
LENGTHS = {"SH": 16, "LO": 64, "PN": 64}
UID = re.compile(r"(0|[1-9]\d*)(\.(0|[1-9]\d*))+")


def stated(found: Mapping[str, str]) -> dict[str, str]:
    """What of it DICOM can hold, by keyword."""
    kept = {name: _value(name, found[name]) for name in KEYWORDS if found.get(name)}
    return {name: value for name, value in kept.items() if value}


def of_head(head: Any) -> dict[str, str]:
    """Of a DICOM header, as text."""
    return {name: one_line(head.get(name), limit=120) for name in KEYWORDS if head.get(name) not in (None, "")}


def _value(name: str, text: str) -> str:
    """ "" for what cannot be said in DICOM."""
    kind = KINDS.get(name, "LO")
    clean = one_line(text, limit=200).replace("\\", "/")
    if name in CHOICES:
        return clean.upper() if clean.upper() in CHOICES[name] else ""
    return FORMS[kind](clean) if kind in FORMS else clean[: LENGTHS[kind]].strip()


def _date(text: str) -> str:
    digits = text.replace("-", "").replace(".", "").replace("/", "")
    valid = re.fullmatch(r"\d{4}(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])", digits)
    return digits if valid else ""


def _time(text: str) -> str:
    digits = text.replace(":", "")
    return digits[:13] if re.fullmatch(r"([01]\d|2[0-3])([0-5]\d([0-5]\d(\.\d{1,6})?)?)?", digits[:13]) else ""


def _number(text: str) -> str:
    try:
        value = float(text)
    except ValueError:
        return ""
    return f"{value:.9g}" if abs(value) < 1e9 else ""


def _name(text: str) -> str:
    """Up to three ways to write it, of up to five components each."""
    groups = ("^".join(group.split("^")[:5])[: LENGTHS["PN"]].strip() for group in text.split("=")[:3])
    return "=".join(groups).rstrip("=")


def _code(text: str) -> str:
    return text.upper() if re.fullmatch(r"[A-Za-z0-9_ ]{1,16}", text) else ""


def _age(text: str) -> str:
    return text if re.fullmatch(r"\d{3}[DWMY]", text) else ""


def _identifier(text: str) -> str:
    return text if len(text) <= 64 and UID.fullmatch(text) else ""


FORMS = {
    "DA": _date, "TM": _time, "DS": _number, "IS": _number, "UI": _identifier, "PN": _name, "CS": _code, "AS": _age,
}  # fmt: skip
KINDS = {
    "PatientName": "PN", "ReferringPhysicianName": "PN", "PatientBirthDate": "DA", "StudyDate": "DA", "StudyTime": "TM",
    "StudyID": "SH", "AccessionNumber": "SH", "StationName": "SH", "SequenceName": "SH", "PatientPosition": "CS",
    "BodyPartExamined": "CS", "PatientAge": "AS", "PatientWeight": "DS", "PatientSize": "DS",
    "MagneticFieldStrength": "DS", "RepetitionTime": "DS", "EchoTime": "DS", "InversionTime": "DS", "FlipAngle": "DS",
    "EchoTrainLength": "IS", "SeriesNumber": "IS", "ImagingFrequency": "DS", "SliceThickness": "DS",
    "StudyInstanceUID": "UI", "FrameOfReferenceUID": "UI",
}  # fmt: skip
