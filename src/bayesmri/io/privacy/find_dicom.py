"""DICOM: the attributes that the basic confidentiality profile of PS3.15 removes or replaces, as far as MR has them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bayesmri.io.dicom_frames import dicom_files, is_dicom, pydicom_module, quiet
from bayesmri.io.guard import damaged_as_format_error, is_folder
from bayesmri.io.integrity.inflate import check_deflate
from bayesmri.io.privacy.finding import MOST, Finding, finding

IDENTIFIES = frozenset({
    "AccessionNumber", "AdmissionID", "InstitutionAddress", "InstitutionName", "IssuerOfPatientID",
    "NameOfPhysiciansReadingStudy", "OperatorsName", "OtherPatientIDs", "OtherPatientNames", "PatientAddress",
    "PatientBirthDate", "PatientBirthName", "PatientBirthTime", "PatientID", "PatientMotherBirthName",
    "PatientName", "PatientTelephoneNumbers", "PerformingPhysicianName", "ReferringPhysicianName",
    "RequestingPhysician", "ResponsiblePerson", "StudyID", "PhysiciansOfRecord", "MilitaryRank",
    "ScheduledPerformingPhysicianName", "CountryOfResidence", "RegionOfResidence",
})  # fmt: skip
MAY = frozenset({
    "AcquisitionComments", "AcquisitionDate", "AcquisitionDateTime", "AcquisitionTime", "AdditionalPatientHistory",
    "ContentDate", "ContentTime", "DerivationDescription", "DeviceSerialNumber", "EthnicGroup",
    "FrameOfReferenceUID", "ImageComments", "InstanceCreationDate", "InstanceCreationTime",
    "InstitutionalDepartmentName", "Occupation", "PatientAge", "PatientComments", "PatientSex", "PatientSize",
    "PatientWeight", "PerformedProcedureStepDescription", "PerformedProcedureStepID",
    "PerformedProcedureStepStartDate", "PerformedProcedureStepStartTime", "PregnancyStatus", "ProtocolName",
    "RequestedProcedureDescription", "SOPInstanceUID", "SeriesDate", "SeriesDescription", "SeriesInstanceUID",
    "SeriesTime", "StationName", "StudyComments", "StudyDate", "StudyDescription", "StudyInstanceUID", "StudyTime",
    "TimezoneOffsetFromUTC",
})  # fmt: skip
NOTHING = ("19000101", "000000")  # where a date must be and none is
EACH = frozenset({"SOPInstanceUID", "ContentTime", "AcquisitionTime", "InstanceCreationTime"})  # one for every file


def in_dicom(path: Path) -> list[Finding]:
    """Every attribute once for each value, of a file or of all in a folder."""
    found: dict[Finding, None] = {}
    for file in dicom_files(path) if is_folder(path) else [path]:
        if len(found) < MOST and is_dicom(file):
            with damaged_as_format_error(file), quiet():
                check_deflate(file)
                head = pydicom_module().dcmread(file, stop_before_pixels=True)
                found |= dict.fromkeys(_of(head))
    return list(found)[:MOST]


def _of(head: Any) -> Iterator[Finding]:
    if head.get("PatientIdentityRemoved") == "YES":
        yield finding("may identify", "PatientIdentityRemoved", "YES: says of itself that identity was removed")
    private = 0
    for element in head.iterall():
        keyword = str(element.keyword)
        if element.tag.is_private:
            private += 1
        elif element.VR == "SQ" or not element.value or str(element.value) in NOTHING:
            continue
        elif keyword in IDENTIFIES or element.VR == "PN":
            made_up = str(element.value).lower().startswith("anonymous")
            yield finding("may identify" if made_up else "identifies", keyword, element.value)
        elif keyword in MAY:
            yield finding("may identify", keyword, "one in every file" if keyword in EACH else element.value)
    if private:
        yield finding("may identify", "private attributes", f"{private}, whose meaning is the manufacturer's own")
