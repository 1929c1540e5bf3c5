"""The expected error as a Structured Report of measurements (TID 1500): numbers that other programs find."""

from collections.abc import Mapping, Sequence
from typing import Any

from bayesmri.io.dicom_out.sheet import MAKER, Sheet, sign
from bayesmri.io.dicom_out.uids import uid
from bayesmri.io.dicom_out.words import EXPECTED, OURS
from bayesmri.machine.optional import needed

DECIBEL, NO_UNIT = ("dB", "UCUM", "decibel"), ("1", "UCUM", "no units")
MRI = ("113091000", "SCT", "Magnetic resonance imaging")
VALUES = {
    "psnr": ("Expected peak signal-to-noise ratio", DECIBEL),
    "psnr_low": ("Expected PSNR, lower end for 90 % of scans", DECIBEL),
    "psnr_high": ("Expected PSNR, upper end for 90 % of scans", DECIBEL),
    "nmse": ("Expected normalised mean squared error", NO_UNIT),
}


def expected_report(found: Mapping[str, float], sheet: Sheet, *, of: Sequence[Any], number: int) -> Any:
    """found: psnr, psnr_low, psnr_high and nmse. of: the images of the mean, which it speaks of."""
    sr = needed("highdicom.sr", extra="dicom", what="DICOM")
    device = sr.DeviceObserverIdentifyingAttributes(uid=uid(sheet.content, "observer"), name=MAKER)
    observer = sr.ObserverContext(sr.CodedConcept("121007", "DCM", "Device"), device)
    group = sr.MeasurementsAndQualitativeEvaluations(
        tracking_identifier=sr.TrackingIdentifier(uid=uid(sheet.content, "tracking"), identifier=EXPECTED.title),
        measurements=[
            sr.Measurement(
                name=sr.CodedConcept(name, OURS, meaning),
                value=float(f"{found[name]:.6g}"),
                unit=sr.CodedConcept(*unit),
            )
            for name, (meaning, unit) in VALUES.items()
        ],
        source_images=[sr.SourceImageForMeasurementGroup(image.SOPClassUID, image.SOPInstanceUID) for image in of],
    )
    made = sr.EnhancedSR(
        evidence=list(of),
        content=sr.MeasurementReport(
            observation_context=sr.ObservationContext(observer_device_context=observer),
            procedure_reported=sr.CodedConcept(*MRI),
            imaging_measurements=[group],
            title=sr.CodedConcept("126000", "DCM", "Imaging Measurement Report"),
        ),
        series_number=number,
        series_instance_uid=sheet.series_uid(EXPECTED),
        sop_instance_uid=sheet.instance_uid(EXPECTED, 1),
        instance_number=1,
        manufacturer=MAKER,
        is_complete=True,
        is_final=False,
        is_verified=False,
    )
    sign(made, sheet, EXPECTED)
    return made
