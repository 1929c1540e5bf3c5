"""Magnitude images: pixel (h, w, slice) lies, through the affine, where the file says it lies."""

import gzip
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bayesmri.errors import BayesMRIError, DataError, FormatError, MissingExtraError
from bayesmri.io.formats import read_images, sniff
from reader_files import write_dicom, write_h5

nibabel = pytest.importorskip("nibabel")
OBLIQUE = np.array([[1.8, 0.2, 0, -90], [-0.2, 0.9, 0.3, 12], [0, -0.1, 3, 40], [0, 0, 0, 1]])


def counting(*shape: int) -> NDArray[np.uint16]:
    """Every voxel its own value, so that no reordering can hide."""
    return np.arange(1, np.prod(shape) + 1, dtype=np.uint16).reshape(shape)


@pytest.mark.parametrize("dtype", [np.uint16, np.int16, np.uint8, np.float32, np.float64])
def test_image_hdf5_comes_back(tmp_path: Path, dtype: type) -> None:
    volume: NDArray[Any] = (counting(2, 9, 10) % 120).astype(dtype)
    path = write_h5(tmp_path / "a.dat", {"image": volume}, {"anatomy": "knee", "subject": "k1", "licence": "CC0"})
    images = read_images(path)
    assert sniff(path) == "images-h5"
    assert images.magnitude.dtype == np.float32
    np.testing.assert_array_equal(images.magnitude, volume.astype(np.float32))
    assert images.header.facts["licence"] == "CC0"
    assert read_images(write_h5(tmp_path / "b.h5", {"image": volume[0]})).magnitude.shape == (1, 9, 10)


@pytest.mark.parametrize("kind", ["Nifti1Image", "Nifti2Image"])
@pytest.mark.parametrize("name", ["a.nii", "a.nii.gz"])
def test_nifti_voxels_keep_their_places(tmp_path: Path, kind: str, name: str) -> None:
    volume = counting(9, 10, 11)
    getattr(nibabel, kind)(volume, OBLIQUE).to_filename(tmp_path / name)
    path = (tmp_path / name).rename(tmp_path / "renamed")
    images = read_images(path)
    assert sniff(path) == "nifti"
    assert images.magnitude.shape == (11, 10, 9)
    assert images.header.affine is not None
    for h, w, s in ((0, 0, 0), (9, 8, 10), (3, 5, 7)):
        i, j, k = np.argwhere(volume == images.magnitude[s, h, w])[0]
        np.testing.assert_allclose(images.header.affine @ [h, w, s, 1], OBLIQUE @ [i, j, k, 1], atol=1e-4)
    assert images.header.voxel_mm == pytest.approx(tuple(np.linalg.norm(OBLIQUE[:3, [1, 0, 2]], axis=0)), rel=1e-5)


def test_nifti_variants(tmp_path: Path) -> None:
    volume = counting(9, 10, 3, 2)
    nibabel.Nifti1Image(volume, np.eye(4)).to_filename(tmp_path / "four.nii")
    images = read_images(tmp_path / "four.nii")
    np.testing.assert_array_equal(images.magnitude[:, ::-1].transpose(2, 1, 0), volume[..., 0])
    assert "first" in images.header.notes[0]
    flat = nibabel.Nifti1Image(volume[..., 0, 0], None)
    flat.header.set_zooms((0.5, 0.7))
    flat.to_filename(tmp_path / "flat.nii")
    images = read_images(tmp_path / "flat.nii")
    assert images.magnitude.shape == (1, 10, 9)
    assert images.header.affine is None
    assert images.header.voxel_mm == pytest.approx((0.7, 0.5, 1.0))
    scaled = nibabel.Nifti1Image(volume[..., 0], np.eye(4))
    scaled.header.set_slope_inter(0.5, 3)
    scaled.to_filename(tmp_path / "scaled.nii")
    stored = nibabel.load(tmp_path / "scaled.nii").get_fdata()
    np.testing.assert_allclose(read_images(tmp_path / "scaled.nii").magnitude[:, ::-1].transpose(2, 1, 0), stored)
    waves = np.exp(1j * volume[..., 0]).astype(np.complex64) * 3
    nibabel.Nifti1Image(waves, np.eye(4)).to_filename(tmp_path / "complex.nii")
    np.testing.assert_allclose(read_images(tmp_path / "complex.nii").magnitude, 3, rtol=1e-5)


@pytest.mark.parametrize(
    ("value", "accepted"), [(-0.01, True), (-0.5, False), (np.nan, False), (np.inf, False), (-np.inf, False)]
)
def test_small_undershoot_is_cut_and_the_rest_refused(tmp_path: Path, value: float, accepted: bool) -> None:
    volume = np.ones((9, 9, 2), np.float32)
    volume[4, 4, 1] = value
    nibabel.Nifti1Image(volume, np.eye(4)).to_filename(tmp_path / "a.nii")
    if accepted:
        images = read_images(tmp_path / "a.nii")
        assert images.magnitude.min() == 0
        assert "negative" in images.header.notes[0]
    else:
        with pytest.raises(DataError):
            read_images(tmp_path / "a.nii")


def test_nifti_of_colours_or_half_a_pair_is_refused(tmp_path: Path) -> None:
    colours = np.zeros((9, 9, 2), dtype=[("R", "u1"), ("G", "u1"), ("B", "u1")])
    nibabel.Nifti1Image(colours, np.eye(4)).to_filename(tmp_path / "a.nii")
    nibabel.Nifti1Pair(counting(9, 9, 2), np.eye(4)).to_filename(tmp_path / "b.img")
    with pytest.raises(FormatError, match="grey-scale"):
        read_images(tmp_path / "a.nii")
    with pytest.raises(FormatError, match="pair"):
        read_images(tmp_path / "b.hdr")


def series(folder: Path, places: list[float], **tags: Any) -> NDArray[np.uint16]:
    """Sagittal-oblique slices written in the order given; pixel = counting, by slice in that order."""
    pytest.importorskip("pydicom")
    folder.mkdir(exist_ok=True)
    volume = counting(len(places), 9, 10)
    row, column = np.array([0, 0.8, 0.6]), np.array([0, 0.6, -0.8])
    normal = np.cross(row, column)
    for i, place in enumerate(places):
        tags_i = {
            "ImagePositionPatient": [float(n) for n in np.array([5, 6, 7]) + place * normal],
            "ImageOrientationPatient": [*row, *column],
            "InstanceNumber": i + 1,
        } | tags
        write_dicom(folder / f"{tags.get('SeriesInstanceUID', 's')}-{i}", volume[i], **tags_i)
    return volume


def test_dicom_folder_is_sorted_and_placed(tmp_path: Path) -> None:
    volume = series(tmp_path / "d", [4.0, 0.0, 8.0])
    (tmp_path / "d" / "notes.txt").write_text("nothing")
    images = read_images(tmp_path / "d")
    assert sniff(tmp_path / "d") == "dicom"
    np.testing.assert_array_equal(images.magnitude, volume[[1, 0, 2]])
    affine = images.header.affine
    assert affine is not None
    ras = np.array([-1, -1, 1])
    row, column = np.array([0, 0.8, 0.6]), np.array([0, 0.6, -0.8])
    start = np.array([5.0, 6, 7])
    for index, lps in (
        ((0, 0, 0), start),
        ((1, 0, 0), start + 2 * column),  # down the rows, 2 mm apart
        ((0, 1, 0), start + row),
        ((0, 0, 2), start + 8 * np.cross(row, column)),
    ):
        np.testing.assert_allclose((affine @ [*index, 1])[:3], ras * lps, atol=1e-6)
    assert images.header.voxel_mm == pytest.approx((2, 1, 4))
    assert images.header.patient_id == "somebody"
    assert any("not DICOM" in note for note in images.header.notes)


def test_dicom_largest_magnitude_series_wins(tmp_path: Path) -> None:
    volume = series(tmp_path / "d", [0, 3, 6, 9], SeriesInstanceUID="1.1")
    series(tmp_path / "d", [0, 3], SeriesInstanceUID="1.2")
    series(tmp_path / "d", [0, 3, 6, 9, 12], SeriesInstanceUID="1.3", ImageType=["ORIGINAL", "PRIMARY", "P", "ND"])
    series(tmp_path / "d", [0, 3, 6], SeriesInstanceUID="1.1.9", PhotometricInterpretation="MONOCHROME1")
    images = read_images(tmp_path / "d")
    np.testing.assert_array_equal(images.magnitude, volume)
    text = " ".join(images.header.notes)
    assert "phase" in text
    assert "2 series" in text
    assert "grey-scale" in text


def test_dicom_repeated_and_missing_places(tmp_path: Path) -> None:
    volume = series(tmp_path / "cine", [0, 0, 3, 3])
    images = read_images(tmp_path / "cine")
    np.testing.assert_array_equal(images.magnitude, volume[[0, 2]])
    assert any("2 places" in note for note in images.header.notes)
    series(tmp_path / "gap", [0, 3, 9])
    images = read_images(tmp_path / "gap")
    assert images.header.affine is None
    assert any("equidistant" in note for note in images.header.notes)


def test_dicom_single_file_rescaled_and_multi_frame(tmp_path: Path) -> None:
    pytest.importorskip("pydicom")
    pixels = counting(9, 10)
    images = read_images(write_dicom(tmp_path / "a", pixels, RescaleSlope=2.0, RescaleIntercept=1.0))
    np.testing.assert_array_equal(images.magnitude[0], 2.0 * pixels + 1)
    assert images.header.voxel_mm == (2.0, 1.0, 3.0)
    assert images.header.affine is not None
    stack = counting(3, 9, 10)
    path = write_dicom(tmp_path / "b", stack, ImagePositionPatient=None, ImageOrientationPatient=None)
    np.testing.assert_array_equal(read_images(path).magnitude, stack)


def test_dicom_enhanced_frames_are_placed(tmp_path: Path) -> None:
    pytest.importorskip("pydicom")
    from pydicom.dataset import Dataset

    def item(name: str, **tags: Any) -> Dataset:
        inner, outer = Dataset(), Dataset()
        for tag, value in tags.items():
            setattr(inner, tag, value)
        setattr(outer, name, [inner])
        return outer

    shared = item("PlaneOrientationSequence", ImageOrientationPatient=[1.0, 0, 0, 0, 1.0, 0])
    shared.PixelMeasuresSequence = item("PixelMeasuresSequence", PixelSpacing=[0.5, 0.25]).PixelMeasuresSequence
    frames = [item("PlanePositionSequence", ImagePositionPatient=[1.0, 2.0, z]) for z in (6.0, 0.0, 3.0)]
    stack = counting(3, 9, 10)
    path = write_dicom(
        tmp_path / "a", stack, ImagePositionPatient=None, ImageOrientationPatient=None, PixelSpacing=None,
        SharedFunctionalGroupsSequence=[shared], PerFrameFunctionalGroupsSequence=frames,
    )  # fmt: skip
    images = read_images(path)
    np.testing.assert_array_equal(images.magnitude, stack[[1, 2, 0]])
    assert images.header.affine is not None
    np.testing.assert_allclose(images.header.affine @ [2, 4, 1, 1], [-2, -3, 3, 1])


def test_compressed_dicom_without_a_decoder_is_explained(tmp_path: Path) -> None:
    pydicom = pytest.importorskip("pydicom")
    path = write_dicom(tmp_path / "a", counting(9, 10))
    data = pydicom.dcmread(path)
    data.file_meta.TransferSyntaxUID = pydicom.uid.JPEG2000Lossless
    data.PixelData = pydicom.encaps.encapsulate([b"\xff\x4f\xff\x51" + b"\0" * 60])
    data["PixelData"].VR = "OB"
    data.save_as(path)
    with pytest.raises(FormatError, match=r"JPEG 2000.*decompress"):
        read_images(path)


def test_missing_pydicom_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_dicom(tmp_path / "a", counting(9, 10))
    monkeypatch.setitem(sys.modules, "pydicom", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'bayesmri\[dicom\]'"):
        read_images(path)


def test_a_damaged_slice_is_named(tmp_path: Path) -> None:
    series(tmp_path / "d", [0, 3, 6])
    damaged = tmp_path / "d" / "s-1"
    damaged.write_bytes(damaged.read_bytes()[:-40])
    with pytest.raises(FormatError, match="s-1 is damaged or truncated"):
        read_images(tmp_path / "d")


def test_gzip_that_is_no_nifti_and_an_empty_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"hello" * 1000))
    (tmp_path / "empty").mkdir()
    for name in ("a.gz", "empty", "nowhere"):
        with pytest.raises(BayesMRIError):
            read_images(tmp_path / name)
