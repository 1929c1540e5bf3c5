"""The mean as a series of MR Images, one file a slice: what every viewer and archive reads."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesmri.io.dicom_out.sheet import Sheet, code, start
from bayesmri.io.dicom_out.words import MEAN, window
from bayesmri.machine.optional import needed

SOP_CLASS = "1.2.840.10008.5.1.4.1.1.4"  # MR Image Storage
EXPLICIT = "1.2.840.10008.1.2.1"
TOP = 32_767  # the same number to those who read the values as signed


def mr_images(mean: NDArray[np.float32], sheet: Sheet) -> list[Any]:
    """One dataset a slice of (slices, h, w); one scale for the volume."""
    scale = float(mean.max()) / TOP or 1.0
    stored = np.clip(np.rint(mean.astype(np.float64) / scale), 0, TOP).astype(np.uint16)
    centre, width = window(stored, least=1.0)
    return [_image(image, i, sheet, scale=scale, voi=(centre, width)) for i, image in enumerate(stored)]


def _image(pixels: NDArray[np.uint16], i: int, sheet: Sheet, *, scale: float, voi: tuple[float, float]) -> Any:
    data = start(sheet, MEAN, place=i + 1, sop_class=SOP_CLASS)
    data.ImageType = ["DERIVED", "PRIMARY", "OTHER"]
    _sequence(data)
    _plane(data, i, sheet)
    data.Rows, data.Columns = pixels.shape
    data.SamplesPerPixel, data.PhotometricInterpretation = 1, "MONOCHROME2"
    data.BitsAllocated, data.BitsStored, data.HighBit, data.PixelRepresentation = 16, 16, 15, 0
    data.SmallestImagePixelValue, data.LargestImagePixelValue = int(pixels.min()), int(pixels.max())
    data.WindowCenter, data.WindowWidth = (decimal(value) for value in voi)
    data.VOILUTFunction = "LINEAR_EXACT"
    data.RealWorldValueMappingSequence = [_real_world(scale)]
    data.LossyImageCompression = "00"
    data.PixelData = pixels.tobytes()
    data.file_meta = _meta(data)
    return data


def _sequence(data: Any) -> None:
    """What the raw file does not say of the sequence, in the words DICOM has for research."""
    data.ScanningSequence, data.SequenceVariant, data.ScanOptions = "RM", "NONE", ""
    for name in ("MRAcquisitionType", "RepetitionTime", "EchoTime", "EchoTrainLength", "SliceThickness"):
        if name not in data:
            setattr(data, name, None)


def _plane(data: Any, i: int, sheet: Sheet) -> None:
    planes = sheet.planes
    data.ImagePositionPatient = [decimal(value) for value in planes.positions[i]]
    data.ImageOrientationPatient = [decimal(value) for value in planes.orientation]
    data.PixelSpacing = [decimal(value) for value in planes.spacing]
    data.SpacingBetweenSlices = decimal(planes.between)
    if data.SliceThickness is None:
        data.SliceThickness = decimal(planes.between)


def _real_world(scale: float) -> Any:
    """Stored values times `scale` are those of the reconstruction."""
    item = needed("pydicom", extra="dicom", what="DICOM").Dataset()
    item.LUTLabel, item.LUTExplanation = MEAN.label, "signal as in the raw data"
    item.RealWorldValueFirstValueMapped, item.RealWorldValueLastValueMapped = 0, TOP
    item.RealWorldValueSlope, item.RealWorldValueIntercept = scale, 0.0
    item.MeasurementUnitsCodeSequence = [code(MEAN.unit)]
    return item


def _meta(data: Any) -> Any:
    meta = needed("pydicom", extra="dicom", what="DICOM").dataset.FileMetaDataset()
    meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID = data.SOPClassUID, data.SOPInstanceUID
    meta.TransferSyntaxUID = EXPLICIT
    return meta


def decimal(value: float) -> str:
    """As exactly as the 16 characters of a decimal string allow."""
    text: str = needed("pydicom.valuerep", extra="dicom", what="DICOM").format_number_as_ds(float(value))
    return text
