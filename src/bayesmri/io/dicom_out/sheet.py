"""What all files of one export have in common: patient, study, device, place, words; as pydicom attributes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bayesmri.io.dicom_out.origin import DEVICE, PATIENT, SEQUENCE, SERIES, STUDY
from bayesmri.io.dicom_out.planes import Planes
from bayesmri.io.dicom_out.uids import uid
from bayesmri.io.dicom_out.words import OURS, Kind, description
from bayesmri.machine.optional import needed

MAKER = "bayesmri"
SERIES_STEP = 100  # the series of number 7 of a study has 701, 702, … as its derived ones
EMPTY = (  # what must be there, and may say nothing
    "PatientName", "PatientID", "PatientBirthDate", "PatientSex", "StudyDate", "StudyTime", "StudyID",
    "AccessionNumber", "ReferringPhysicianName", "Manufacturer", "PositionReferenceIndicator", "PatientPosition",
    "Laterality",
)  # fmt: skip


@dataclass(frozen=True)
class Sheet:
    """origin: by keyword, in DICOM's form, StudyInstanceUID, FrameOfReferenceUID and PatientID included.

    content: digest of all that is exported. first: number of the first series. made: (date, time) of reconstruction.
    removed: identity was removed on demand.
    """

    origin: Mapping[str, str]
    planes: Planes
    content: str
    method: str
    version: str
    derivation: str
    comments: str
    made: tuple[str, str]
    first: int = 1
    removed: bool = False

    def series_uid(self, kind: Kind) -> str:
        return uid(self.content, kind.name)

    def instance_uid(self, kind: Kind, place: int) -> str:
        return uid(self.content, kind.name, str(place))


def first_number(series: int) -> int:
    """Of the series derived from that one, within what DICOM can count."""
    return 1 + SERIES_STEP * series if 0 <= series < 10**6 else 1


def code(value: tuple[str, str, str]) -> Any:
    """A coded entry of a sequence."""
    item = needed("pydicom", extra="dicom", what="DICOM").Dataset()
    item.CodeValue, item.CodingSchemeDesignator, item.CodeMeaning = value
    return item


def start(sheet: Sheet, kind: Kind, *, place: int, sop_class: str) -> Any:
    """A dataset with everything that is not pixels."""
    pydicom = needed("pydicom", extra="dicom", what="DICOM")
    data = pydicom.Dataset()
    for name in EMPTY:
        setattr(data, name, "")
    for name in PATIENT + STUDY + SERIES + DEVICE + SEQUENCE:
        if name in sheet.origin:
            setattr(data, name, sheet.origin[name])
    data.SOPClassUID, data.SOPInstanceUID = sop_class, sheet.instance_uid(kind, place)
    data.Modality, data.SeriesInstanceUID = "MR", sheet.series_uid(kind)
    data.SeriesNumber, data.InstanceNumber = sheet.first, place
    stamp(data, sheet, kind)
    return data


def stamp(data: Any, sheet: Sheet, kind: Kind) -> None:
    """Words and dates, on whatever made the image."""
    sign(data, sheet, kind)
    data.Laterality = sheet.origin.get("Laterality", "")
    data.DerivationDescription = sheet.derivation
    data.ImageComments = sheet.comments
    data.BurnedInAnnotation, data.RecognizableVisualFeatures = "NO", "YES"


def sign(data: Any, sheet: Sheet, kind: Kind) -> None:
    """What it is, when and by what it was made, on images and reports."""
    data.SpecificCharacterSet = "ISO_IR 192"
    data.SeriesDescription = description(kind, sheet.method)
    data.ContentDate, data.ContentTime = sheet.made
    data.InstanceCreationDate, data.InstanceCreationTime = sheet.made
    data.SeriesDate, data.SeriesTime = sheet.made
    if sheet.removed:
        data.PatientIdentityRemoved = "YES"
        data.DeidentificationMethod = "bayesmri --anonymise, see docs/privacy.md"
    data.ContributingEquipmentSequence = [_processor(sheet)]
    data.CodingSchemeIdentificationSequence = [_own_codes()]


def _own_codes() -> Any:
    """Whose the codes of our own quantities are."""
    item = needed("pydicom", extra="dicom", what="DICOM").Dataset()
    item.CodingSchemeDesignator, item.CodingSchemeName = OURS, "bayesmri, quantities of reconstructions"
    item.CodingSchemeUID, item.CodingSchemeResponsibleOrganization = uid(OURS), MAKER
    return item


def _processor(sheet: Sheet) -> Any:
    """The scanner stays the manufacturer; this software processed."""
    item = needed("pydicom", extra="dicom", what="DICOM").Dataset()
    item.PurposeOfReferenceCodeSequence = [code(("109102", "DCM", "Processing Equipment"))]
    item.Manufacturer, item.ManufacturerModelName, item.SoftwareVersions = MAKER, MAKER, sheet.version
    return item
