"""Small files of every format, written without the readers' help, for the tests of the readers."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

Complex = NDArray[np.complex64]

HEADER = """<?xml version="1.0"?>
<ismrmrdHeader xmlns="http://www.ismrm.org/ISMRMRD">
  <measurementInformation><protocolName>AXT2</protocolName></measurementInformation>
  <acquisitionSystemInformation><systemFieldStrength_T>2.8936</systemFieldStrength_T></acquisitionSystemInformation>
  <experimentalConditions><H1resonanceFrequency_Hz>123251815</H1resonanceFrequency_Hz></experimentalConditions>
  <encoding>
    <encodedSpace>
      <matrixSize><x>{X}</x><y>{W}</y><z>{depth}</z></matrixSize>
      <fieldOfView_mm><x>{fov_x}</x><y>{fov_y}</y><z>5</z></fieldOfView_mm>
    </encodedSpace>
    <reconSpace>
      <matrixSize><x>{h}</x><y>{w}</y><z>1</z></matrixSize>
      <fieldOfView_mm><x>{recon_x}</x><y>{recon_y}</y><z>5</z></fieldOfView_mm>
    </reconSpace>
    <trajectory>{trajectory}</trajectory>
    <encodingLimits><kspace_encoding_step_1>
      <minimum>0</minimum><maximum>{last}</maximum><center>{center}</center>
    </kspace_encoding_step_1></encodingLimits>
    <parallelImaging><calibrationMode>{calibration}</calibrationMode></parallelImaging>
  </encoding>
  <sequenceParameters><TR>2200</TR><TE>27.5</TE></sequenceParameters>
</ismrmrdHeader>"""


def header_xml(X: int, W: int, *, h: int | None = None, w: int | None = None, **changes: object) -> str:
    """An ISMRMRD header of 2 mm x 1 mm pixels; the shown window (h, w) has the same pixels."""
    h, w = h or X, w or W
    values: dict[str, object] = {
        "X": X, "W": W, "h": h, "w": w, "fov_x": 2 * X, "fov_y": W, "recon_x": 2 * h, "recon_y": w, "depth": 1,
        "trajectory": "cartesian", "last": W - 1, "center": W // 2, "calibration": "other",
    }  # fmt: skip
    return HEADER.format(**(values | changes))


def random_kspace(*shape: int, seed: int = 0) -> Complex:
    """Complex noise with a peak in the centre, as every k-space has one."""
    rng = np.random.default_rng(seed)
    z = (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(np.complex64)
    z[..., shape[-2] // 2, shape[-1] // 2] += 100
    return z


def bart_kspace(H: int, W: int, Q: int = 1) -> Complex:
    """The same with BART's axes: (read, phase, 1, coils)."""
    return np.moveaxis(random_kspace(1, Q, H, W), (2, 3), (0, 1))


def write_h5(path: Path, datasets: dict[str, Any], attributes: dict[str, Any] | None = None) -> Path:
    with h5py.File(path, "w") as file:
        for name, value in datasets.items():
            file.create_dataset(name, data=value)
        file.attrs.update(attributes or {})
    return path


def write_cfl(base: Path, array: Complex, dims: tuple[int, ...] | None = None) -> Path:
    """`array` with BART's axes in order; column-major on disk."""
    dims = dims or array.shape
    base.with_name(base.name + ".hdr").write_text("# Dimensions\n" + " ".join(str(n) for n in dims) + "\n")
    base.with_name(base.name + ".cfl").write_bytes(array.astype("<c8").tobytes(order="F"))
    return base


def ifft2c(z: NDArray[Any]) -> NDArray[Any]:
    """Centred unitary inverse transform over the last two axes."""
    axes = (-2, -1)
    return np.fft.fftshift(np.fft.ifft2(np.fft.ifftshift(z, axes=axes), norm="ortho"), axes=axes)


def fftc(x: NDArray[Any], axis: int) -> NDArray[Any]:
    """Centred unitary transform along one axis."""
    return np.fft.fftshift(np.fft.fft(np.fft.ifftshift(x, axes=axis), axis=axis, norm="ortho"), axes=axis)


def acquisition_dtype() -> np.dtype[Any]:
    """The compound type of ISMRMRD's `data`: header, trajectory, interleaved real and imaginary parts."""
    idx = [(name, "<u2") for name in (
        "kspace_encode_step_1", "kspace_encode_step_2", "average", "slice", "contrast", "phase", "repetition", "set",
        "segment")]  # fmt: skip
    u2, u4, f4 = "<u2", "<u4", "<f4"
    head = [
        ("version", u2), ("flags", "<u8"), ("measurement_uid", u4), ("scan_counter", u4),
        ("acquisition_time_stamp", u4), ("physiology_time_stamp", u4, (3,)), ("number_of_samples", u2),
        ("available_channels", u2), ("active_channels", u2), ("channel_mask", "<u8", (16,)), ("discard_pre", u2),
        ("discard_post", u2), ("center_sample", u2), ("encoding_space_ref", u2), ("trajectory_dimensions", u2),
        ("sample_time_us", f4), ("position", f4, (3,)), ("read_dir", f4, (3,)), ("phase_dir", f4, (3,)),
        ("slice_dir", f4, (3,)), ("patient_table_position", f4, (3,)), ("idx", [*idx, ("user", u2, (8,))]),
        ("user_int", "<i4", (8,)), ("user_float", f4, (8,)),
    ]  # fmt: skip
    vlen = h5py.vlen_dtype(np.float32)
    return np.dtype([("head", head), ("traj", vlen), ("data", vlen)])


def mrd_line(samples: Complex, step: int, **changes: Any) -> Any:
    """One acquisition (Q, n) as a table of one row: `changes` set header fields or counters by name."""
    line = np.zeros(1, dtype=acquisition_dtype())
    head = line["head"][0]
    head["number_of_samples"] = changes.pop("number_of_samples", samples.shape[1])
    head["active_channels"] = head["available_channels"] = changes.pop("active_channels", len(samples))
    head["center_sample"] = samples.shape[1] // 2
    head["idx"]["kspace_encode_step_1"] = step
    for name, value in changes.items():
        target = head["idx"] if name in head["idx"].dtype.names else head
        target[name] = value
    line["traj"][0] = np.zeros(0, np.float32)
    line["data"][0] = samples.astype(np.complex64).view(np.float32).reshape(-1)
    return line


def write_mrd(path: Path, xml: str, lines: list[Any], *, group: str = "dataset") -> Path:
    with h5py.File(path, "w") as file:
        file.create_dataset(f"{group}/xml", data=np.array([xml], dtype=object), dtype=h5py.string_dtype())
        data = file.create_dataset(
            f"{group}/data", (len(lines),), dtype=acquisition_dtype(), maxshape=(None,), chunks=(1,)
        )
        for i, line in enumerate(lines):
            data[i] = line[0]
    return path


def write_dicom(path: Path, pixels: NDArray[np.uint16], **tags: Any) -> Path:
    """One MR slice (or a multi-frame stack); `tags` are set or, where None, deleted."""
    import pydicom
    from pydicom.dataset import FileDataset, FileMetaDataset
    from pydicom.uid import ExplicitVRLittleEndian, MRImageStorage, generate_uid

    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = MRImageStorage
    meta.MediaStorageSOPInstanceUID = generate_uid(entropy_srcs=[str(path)])
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    data = FileDataset(str(path), {}, file_meta=meta, preamble=b"\0" * 128)
    values: dict[str, Any] = {
        "SOPClassUID": MRImageStorage, "SOPInstanceUID": meta.MediaStorageSOPInstanceUID, "Modality": "MR",
        "PatientID": "somebody", "SeriesInstanceUID": "1.2.3", "ImageType": ["ORIGINAL", "PRIMARY", "M", "ND"],
        "Rows": pixels.shape[-2], "Columns": pixels.shape[-1], "SamplesPerPixel": 1,
        "PhotometricInterpretation": "MONOCHROME2", "BitsAllocated": 16, "BitsStored": 16, "HighBit": 15,
        "PixelRepresentation": 0, "PixelSpacing": [2.0, 1.0], "SliceThickness": 3.0, "InstanceNumber": 1,
        "ImagePositionPatient": [0.0, 0.0, 0.0], "ImageOrientationPatient": [1.0, 0, 0, 0, 1.0, 0],
        "ProtocolName": "t1", "EchoTime": 10.0,
    }  # fmt: skip
    if pixels.ndim == 3:
        values["NumberOfFrames"] = len(pixels)
    for name, value in (values | tags).items():
        if value is not None:
            setattr(data, name, value)
    data.PixelData = pixels.astype("<u2").tobytes()
    pydicom.dcmwrite(path, data)
    return path
