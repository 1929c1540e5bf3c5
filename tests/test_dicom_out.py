"""DICOM out: valid, in the right place, the same for the same result, and nobody else's patient."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import h5py
import nibabel
import numpy as np
import pytest
from numpy.typing import NDArray

from bayesmri.cli import main
from bayesmri.errors import BayesMRIError, DataError, OutputError, StrictError
from bayesmri.io.dicom import read_dicom
from bayesmri.io.dicom_out.folder import atomic_folder
from bayesmri.io.dicom_out.origin import stated
from bayesmri.io.dicom_out.write import write_dicom
from bayesmri.io.results import open_result
from bayesmri.io.write_nifti import write_nifti
from bayesmri.kspace import Header
from bayesmri.recon.export import export
from dicom_results import NAME, PATIENT, image, oblique, stored
from reader_files import fftc, header_xml, mrd_line, write_mrd

pydicom = pytest.importorskip("pydicom", reason="pydicom is not installed")
highdicom = pytest.importorskip("highdicom", reason="highdicom is not installed")
MAPS = ("std", "error_std", "bound", "visibility_1")


def need(program: str, package: str) -> str:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed ({package}, by make oracles)")
    return found


def complaints(folder: Path) -> list[str]:
    """Error lines of dciodvfy for every file under the folder."""
    program = need("dciodvfy", "dicom3tools")
    lines = []
    for path in sorted(folder.rglob("*.dcm")):
        done = subprocess.run([program, str(path)], capture_output=True, text=True, check=False, errors="replace")
        said = (done.stdout + done.stderr).splitlines()
        assert {"MRImage", "ParametricMap", "EnhancedSR"} & set(said), said  # it knew what it looked at
        lines += [f"{path.name}: {line}" for line in said if line.startswith(("Error", "Abort"))]
    return lines


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stored(tmp_path_factory.mktemp("result") / "scan.recon.h5")


@pytest.fixture(scope="module")
def folder(result: Path) -> Path:
    write_dicom(result, result.with_name("dicom"))
    return result.with_name("dicom")


# --- valid


@pytest.mark.parametrize(
    ("shape", "as_float"), [((4, 21, 34), False), ((1, 9, 8), False), ((2, 33, 17), True)], ids=["16", "one", "float"]
)
def test_a_validator_finds_no_error(tmp_path: Path, shape: tuple[int, int, int], as_float: bool) -> None:
    made = write_dicom(stored(tmp_path / "r.h5", shape), tmp_path / "d", as_float=as_float)
    assert list(made["series"]) == ["mean", *MAPS, "expected"]
    assert complaints(tmp_path / "d") == []


@pytest.mark.parametrize("affine", [None, np.diag([1.0, 2.0, 3.0, 1.0])])
def test_a_result_that_knows_nothing_is_valid_and_says_so(tmp_path: Path, affine: NDArray[np.float64] | None) -> None:
    header = Header("test", affine=affine)
    made = write_dicom(stored(tmp_path / "r.h5", (2, 16, 16), header=header), tmp_path / "d")
    assert complaints(tmp_path / "d") == []
    head = pydicom.dcmread(tmp_path / "d" / "mean" / "0001.dcm")
    assert head.PatientName == "Anonymous"
    assert head.PatientID == "anonymous-abababababab"
    assert "does not say whose it is" in " ".join(made["notes"])
    unknown = [text for text in made["warnings"] if "where the slices lie is not known" in text]
    assert len(unknown) == (affine is None)
    assert all(text in head.ImageComments for text in unknown)


def test_what_a_header_says_in_another_form_is_brought_into_dicoms_or_left_out(tmp_path: Path) -> None:
    odd = {
        "PatientName": "a\\b\x1b[31m" + 90 * "x", "PatientBirthDate": "yesterday", "PatientSex": "male",
        "StudyTime": "12:34:56.789", "StudyInstanceUID": "../../etc", "RepetitionTime": "1e400", "EchoTime": "nan",
        "Laterality": "both", "SeriesNumber": "7", "FrameOfReferenceUID": "1.2." + 70 * "3", "Unheard": "of",
    }  # fmt: skip
    kept = stated(odd)
    assert set(kept) == {"PatientName", "StudyTime", "SeriesNumber"}
    assert stated({"PatientName": "a=b^1^2^3^4^5=c=d"})["PatientName"] == "a=b^1^2^3^4=c"
    assert stated({"BodyPartExamined": "Schädel", "PatientPosition": "hfs", "PatientAge": "45"}) == {
        "PatientPosition": "HFS"
    }
    assert kept["StudyTime"] == "123456.789"
    header = Header("test", dicom=odd, affine=oblique())
    write_dicom(stored(tmp_path / "r.h5", (1, 8, 9), header=header), tmp_path / "d")
    assert complaints(tmp_path / "d") == []
    head = pydicom.dcmread(tmp_path / "d" / "std.dcm")
    assert head.SeriesNumber == 702
    assert len(str(head.PatientName)) <= 64


# --- in the right place, with the right values


def in_world(affine: NDArray[np.float64], volume: NDArray[Any], other: NDArray[np.float64]) -> NDArray[Any]:
    """A volume as it lies on the indices of the other affine; all must meet."""
    n = np.indices(volume.shape).reshape(3, -1)
    found = np.linalg.inv(other) @ affine @ np.vstack([n, np.ones(n.shape[1])])
    places = np.rint(found).astype(int)
    assert np.abs(found - places).max() < 1e-3
    laid = np.full(places[:3].max(axis=1) + 1, np.nan)
    laid[tuple(places[:3])] = volume.reshape(-1)
    return laid


@pytest.mark.parametrize("left_handed", [False, True])
def test_dcm2niix_makes_of_it_what_our_nifti_is(tmp_path: Path, left_handed: bool) -> None:
    program = need("dcm2niix", "dcm2niix")
    header = Header("test", affine=oblique(left_handed=left_handed), dicom={"Manufacturer": "Siemens"})
    path = stored(tmp_path / "r.h5", header=header)
    export(path, dicom=tmp_path / "d", nifti=tmp_path / "ours.nii.gz")
    (tmp_path / "n").mkdir()
    subprocess.run(
        [program, "-z", "n", "-f", "%s", "-o", str(tmp_path / "n"), str(tmp_path / "d")],
        check=True, capture_output=True,
    )  # fmt: skip
    for number, ending in enumerate(("", "_std", "_error_std", "_bound"), start=1):
        ours = nibabel.load(tmp_path / f"ours{ending}.nii.gz")
        theirs = nibabel.load(tmp_path / "n" / f"{number}.nii")
        X, Y = np.asarray(ours.dataobj, dtype=np.float64), theirs.get_fdata()
        laid = in_world(ours.affine, X, theirs.affine)
        assert laid.shape == Y.shape
        np.testing.assert_allclose(laid / laid.max(), Y / Y.max(), atol=2e-5)


@pytest.mark.parametrize("as_float", [False, True])
def test_highdicom_reads_values_units_and_place(result: Path, tmp_path: Path, as_float: bool) -> None:
    write_dicom(result, tmp_path / "d", as_float=as_float)
    ras = np.diag([-1.0, -1, 1, 1])
    with open_result(result) as read:
        wanted = {"std": read.others["uncertainty_std"], "bound": read.others["error_bound"]}
        wanted |= {"error_std": read.others["error_std"], "visibility_1": read.visibility["lesion:3:0.3"]}
        mean = read.mean
    for name, values in wanted.items():
        found = highdicom.imread(tmp_path / "d" / f"{name}.dcm")
        volume = found.get_volume(apply_real_world_transform=True)
        ours = oblique()[:, [2, 0, 1, 3]]  # (slice, h, w), as volumes of highdicom have it
        laid = in_world(ours, values, ras @ volume.affine)
        np.testing.assert_allclose(laid, volume.array, atol=float(values.max()) / 65535)
        shared = found.SharedFunctionalGroupsSequence[0]
        (mapped,) = shared.RealWorldValueMappingSequence
        unit = mapped.MeasurementUnitsCodeSequence[0].CodeValue
        assert unit == ("%" if name == "visibility_1" else "[arb'U]")
        assert mapped.QuantityDefinitionSequence[0].ConceptCodeSequence[0].CodeMeaning
        (voi,) = shared.FrameVOILUTSequence
        assert voi.VOILUTFunction == "LINEAR_EXACT"
        stored_values = found.pixel_array
        share = np.mean(stored_values < voi.WindowCenter + voi.WindowWidth / 2)
        assert 0.95 < share < 1  # a preview is neither black nor white
    heads = [pydicom.dcmread(path) for path in sorted((tmp_path / "d" / "mean").iterdir())]
    slope = heads[0].RealWorldValueMappingSequence[0].RealWorldValueSlope
    np.testing.assert_allclose([slope * h.pixel_array for h in heads], mean, atol=float(mean.max()) / 32767)


def lies_as_stored(folder: Path) -> None:
    """Every pixel where the oblique affine has it; the reader sorts slices along the normal."""
    read, X = read_dicom(folder), np.moveaxis(image((4, 21, 34)), 0, -1)
    assert read.header.affine is not None
    laid = in_world(oblique(), X, read.header.affine)
    found = np.moveaxis(read.magnitude, 0, -1)
    np.testing.assert_allclose(found / found.max(), laid / laid.max(), atol=2e-5)


def test_a_bright_point_of_a_raw_file_lies_where_the_scanner_measured_it(tmp_path: Path) -> None:
    """From lines of an oblique MRD scan with oversampled readout to millimetres by DICOM's own equation (C.7.6.2.1)."""
    X, h, W, n = 24, 12, 10, 3
    turn = oblique()[:3, :3] / np.linalg.norm(oblique()[:3, :3], axis=0)
    read, phase, normal = turn.T
    middle = np.array([7.0, -19.0, 31.0])
    lines = []
    for s in range(n):
        x = np.full((1, X, W), 0.05, dtype=np.complex64)
        x[0, X // 2 + 3 - s, W // 2 - 2 + s] = 10  # another pixel in every slice
        u = fftc(fftc(x, 1), 2)
        where = {"position": middle + 4.5 * s * normal, "read_dir": read, "phase_dir": phase, "slice_dir": normal}
        lines += [mrd_line(u[:, :, w], w, slice=s, **where) for w in range(W)]
    raw = write_mrd(tmp_path / "raw.h5", header_xml(X, W, h=h), lines)
    assert (
        main(
            ["recon", str(raw), "--method", "zero-filled", "-o", str(tmp_path / "o.h5"), "--dicom", str(tmp_path / "d")]
        )
        == 0
    )
    heads = [pydicom.dcmread(path) for path in sorted((tmp_path / "d" / "mean").iterdir())]
    assert [(head.Rows, head.Columns) for head in heads] == n * [(h, W)]
    for s, head in enumerate(heads):
        row, column = np.unravel_index(head.pixel_array.argmax(), head.pixel_array.shape)
        along_row, along_column = np.array(head.ImageOrientationPatient, dtype=float).reshape(2, 3)
        rows, columns = map(float, head.PixelSpacing)
        found = np.array(head.ImagePositionPatient) + along_row * columns * column + along_column * rows * row
        wanted = middle + 4.5 * s * normal + read * 2.0 * (3 - s) + phase * 1.0 * (s - 2)
        np.testing.assert_allclose(found, wanted, atol=1e-3)


def test_our_own_reader_finds_the_image_and_not_a_map(folder: Path) -> None:
    read = read_dicom(folder)
    lies_as_stored(folder)
    assert read.header.patient_id == "p7"
    assert read.header.dicom["PatientName"] == NAME
    assert "Parametric Map" in " ".join(read.header.notes)


# --- words


def test_every_file_says_whose_it_is_what_it_is_and_what_to_beware_of(folder: Path) -> None:
    files = sorted(folder.rglob("*.dcm"))
    assert len(files) == 9
    for path in files:
        head = pydicom.dcmread(path)
        if path.name == "expected.dcm":
            continue
        assert str(head.PatientName) == NAME
        assert (head.PatientID, head.PatientBirthDate, head.PatientSex) == ("p7", "19600229", "M")
        assert (head.StudyInstanceUID, head.StudyDate) == (PATIENT["StudyInstanceUID"], "20240506")
        assert head.SeriesDescription.endswith("RESEARCH USE ONLY")
        assert len(head.SeriesDescription) <= 64
        assert "Warning: the data is unlike that of training." in head.ImageComments
        assert "Note: a note for readers." in head.ImageComments
        assert "PSNR 31.2 dB (30.1 to 32.3 for 90 % of scans)" in head.DerivationDescription
        assert "error bound at 90 %: holds 90 % of the pixels" in head.DerivationDescription
        assert head.BurnedInAnnotation == "NO"
        assert head.ContentDate == "20260102"
    means = [pydicom.dcmread(path) for path in sorted((folder / "mean").iterdir())]
    assert means[0].ImageType == ["DERIVED", "PRIMARY", "OTHER"]
    assert (means[0].RepetitionTime, means[0].EchoTime) == (500, 12.5)
    assert len({head.SOPInstanceUID for head in means}) == 4
    assert len({head.SeriesInstanceUID for head in means}) == 1


def test_the_expected_error_is_a_report_of_measurements(folder: Path) -> None:
    report = pydicom.dcmread(folder / "expected.dcm")
    assert (str(report.PatientName), report.SeriesDescription[-17:]) == (NAME, "RESEARCH USE ONLY")

    def numbers(node: Any) -> dict[str, tuple[float, str]]:
        found: dict[str, tuple[float, str]] = {}
        for item in node.get("ContentSequence", []):
            if item.ValueType == "NUM":
                (value,) = item.MeasuredValueSequence
                unit = value.MeasurementUnitsCodeSequence[0].CodeValue
                found[item.ConceptNameCodeSequence[0].CodeValue] = (float(value.NumericValue), unit)
            found |= numbers(item)
        return found

    assert numbers(report) == {
        "psnr": (31.2, "dB"),
        "psnr_low": (30.1, "dB"),
        "psnr_high": (32.3, "dB"),
        "nmse": (0.012, "1"),
    }
    means = {str(pydicom.dcmread(path).SOPInstanceUID) for path in (folder / "mean").iterdir()}
    (study,) = report.CurrentRequestedProcedureEvidenceSequence
    (series,) = study.ReferencedSeriesSequence
    assert {str(item.ReferencedSOPInstanceUID) for item in series.ReferencedSOPSequence} == means


def test_the_same_result_has_the_same_files_and_another_has_other_identifiers(
    result: Path, folder: Path, tmp_path: Path
) -> None:
    write_dicom(result, tmp_path / "again")
    for path in folder.rglob("*.dcm"):
        assert (tmp_path / "again" / path.relative_to(folder)).read_bytes() == path.read_bytes()

    def series(where: Path) -> set[str]:
        return {str(pydicom.dcmread(path).SeriesInstanceUID) for path in where.rglob("*.dcm")}

    write_dicom(result, tmp_path / "float", as_float=True)
    shutil.copy(result, tmp_path / "other.h5")
    with h5py.File(tmp_path / "other.h5", "r+") as file:
        file.attrs.pop("checksums", None)  # changed on purpose
        file["reconstruction"][0, 0, 0] += 1e-7
    write_dicom(tmp_path / "other.h5", tmp_path / "other")
    assert not series(folder) & series(tmp_path / "float")
    assert not series(folder) & series(tmp_path / "other")


# --- like another series


def like_series(folder: Path, volume: NDArray[np.float32], affine: NDArray[np.float64] | None, **more: str) -> Path:
    """Another series, as a scanner would have made it."""
    header = Header("test", patient_id="p7", affine=affine, dicom={**PATIENT, "FrameOfReferenceUID": "1.2.9", **more})
    path = folder.with_suffix(".h5")
    stored(path, (len(volume), *volume.shape[1:]), header=header)
    with h5py.File(path, "r+") as file:
        file.attrs.pop("checksums", None)  # changed on purpose
        file["reconstruction"][...] = volume
    write_dicom(path, folder)
    return folder / "mean"


def test_patient_study_and_place_of_another_series(tmp_path: Path) -> None:
    like = like_series(tmp_path / "scanner", image((4, 21, 34)), oblique(), SeriesNumber="7")
    raw = stored(tmp_path / "r.h5", header=Header("test"))
    made = write_dicom(raw, tmp_path / "d", like=like)
    head = pydicom.dcmread(tmp_path / "d" / "mean" / "0001.dcm")
    assert (str(head.PatientName), head.StudyInstanceUID) == (NAME, PATIENT["StudyInstanceUID"])
    assert head.FrameOfReferenceUID == "1.2.9"
    assert head.SeriesNumber == 70101  # the like one, itself derived from 7, is 701
    lies_as_stored(tmp_path / "d")
    assert "place: that of the DICOM series" in " ".join(made["notes"])
    assert complaints(tmp_path / "d") == []


@pytest.mark.parametrize("turn", ["exchange", "rows", "columns", "slices", "all"])
def test_a_series_that_shows_the_images_turned_is_understood(tmp_path: Path, turn: str) -> None:
    """The scanner's image is ours turned; every one of our pixels must lie where the scanner has it."""
    X = image((4, 21, 34))
    turned = X.swapaxes(1, 2) if turn in ("exchange", "all") else X
    turned = turned[:, ::-1] if turn in ("rows", "all") else turned
    turned = turned[:, :, ::-1] if turn in ("columns", "all") else turned
    turned = turned[::-1] if turn in ("slices", "all") else turned
    like = like_series(tmp_path / "scanner", turned, oblique())
    write_dicom(stored(tmp_path / "r.h5", header=Header("test")), tmp_path / "d", like=like)
    found, theirs = read_dicom(tmp_path / "d"), read_dicom(like)
    assert found.header.affine is not None
    assert theirs.header.affine is not None
    laid = in_world(found.header.affine, np.moveaxis(found.magnitude, 0, -1), theirs.header.affine)
    np.testing.assert_allclose(laid, np.moveaxis(theirs.magnitude, 0, -1), atol=1)


def test_pixels_of_half_the_size_keep_the_field_of_view(tmp_path: Path) -> None:
    X = image((3, 20, 32)).repeat(2, axis=1).repeat(2, axis=2)
    like = like_series(tmp_path / "scanner", X, oblique())
    made = write_dicom(stored(tmp_path / "r.h5", (3, 20, 32), header=Header("test")), tmp_path / "d", like=like)
    ours, theirs = read_dicom(tmp_path / "d").header.affine, read_dicom(like).header.affine
    assert ours is not None
    assert theirs is not None
    np.testing.assert_allclose(ours @ [-0.5, -0.5, 0, 1], theirs @ [-0.5, -0.5, 0, 1], atol=1e-6)
    np.testing.assert_allclose(ours @ [19.5, 31.5, 2, 1], theirs @ [39.5, 63.5, 2, 1], atol=1e-6)
    assert "right to half a pixel" in " ".join(made["notes"])


def test_a_series_that_cannot_be_like_is_refused_with_words(tmp_path: Path) -> None:
    def refused(raw: Path, like: Path, words: str) -> None:
        with pytest.raises(DataError, match=words):
            write_dicom(raw, tmp_path / "d", like=like)
        assert not (tmp_path / "d").exists()

    nowhere = stored(tmp_path / "r.h5", header=Header("test"))
    like = like_series(tmp_path / "few", image((3, 21, 34)), oblique())
    refused(nowhere, like, "got 3 slices .* expected 4")
    like = like_series(tmp_path / "noise", np.random.default_rng(5).random((4, 21, 34)).astype(np.float32), oblique())
    refused(nowhere, like, "no image like the reconstruction")
    like = like_series(tmp_path / "wide", image((4, 21, 60)), oblique())
    refused(nowhere, like, "same field of view")
    like = like_series(tmp_path / "same", image((4, 21, 34)), oblique())
    other = stored(tmp_path / "o.h5", header=Header("test", patient_id="somebody else"))
    refused(other, like, "another patient")


def test_where_raw_file_and_series_disagree_the_raw_file_is_believed_and_it_is_said(tmp_path: Path) -> None:
    moved = oblique()
    moved[:3, 3] += 40
    like = like_series(tmp_path / "scanner", image((4, 21, 34)), moved)
    made = write_dicom(stored(tmp_path / "r.h5"), tmp_path / "d", like=like)
    assert any("69 mm from where the raw file says" in text for text in made["warnings"])
    lies_as_stored(tmp_path / "d")


# --- whole or not at all


def test_existing_folders_are_kept_unless_forced_and_never_if_they_hold_anything_else(
    result: Path, tmp_path: Path
) -> None:
    target = tmp_path / "d"
    target.mkdir()
    write_dicom(result, target)  # an empty folder is nobody's
    before = sorted(target.rglob("*"))
    with pytest.raises(OutputError, match="exists already"):
        write_dicom(result, target)
    (target / "stale.dcm").write_bytes(b"of an earlier export")
    write_dicom(result, target, force=True)
    assert sorted(target.rglob("*")) == before
    (target / "thesis.docx").write_text("years of work")
    with pytest.raises(OutputError, match=r"thesis\.docx"):
        write_dicom(result, target, force=True)
    assert (target / "thesis.docx").exists()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["d"]


def test_a_failure_leaves_the_former_folder_and_no_other(result: Path, tmp_path: Path) -> None:
    target = tmp_path / "new" / "d"

    def fail(target: Path) -> None:
        with atomic_folder(target) as made:
            (made / "half.dcm").write_bytes(b"x")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail(target)
    assert list(tmp_path.iterdir()) == []
    write_dicom(result, target)
    with pytest.raises(KeyboardInterrupt):
        fail(target)
    assert (target / "mean" / "0004.dcm").exists()
    assert not (target / "half.dcm").exists()
    assert [p.name for p in target.parent.iterdir()] == ["d"]


@pytest.mark.parametrize("where", ["a file", "under a file", "the input's folder"])
def test_places_that_are_no_folder_are_refused(where: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    result = stored(tmp_path / "in" / "r.h5", (1, 8, 8))
    (tmp_path / "file").write_text("x")
    places = {"a file": "file", "under a file": "file/d", "the input's folder": "in"}
    with pytest.raises(OutputError):
        write_dicom(result, tmp_path / places[where], force=True)
    assert (tmp_path / "file").read_text() == "x"
    assert result.exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_refused(result: Path, tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    with pytest.raises(OutputError, match="no permission"):
        write_dicom(result, tmp_path / "closed" / "d")


def test_strict_takes_warnings_for_errors(result: Path, tmp_path: Path) -> None:
    with pytest.raises(StrictError, match="unlike that of training"):
        write_dicom(result, tmp_path / "d", strict=True)
    assert list(tmp_path.iterdir()) == []


def test_sheared_images_are_said_to_have_no_place(tmp_path: Path) -> None:
    sheared = oblique()
    sheared[:3, 1] += 0.5 * sheared[:3, 0]
    made = write_dicom(stored(tmp_path / "r.h5", header=Header("test", affine=sheared)), tmp_path / "d")
    assert any("not at right angles" in text for text in made["warnings"])
    assert complaints(tmp_path / "d") == []


# --- by command


def test_recon_writes_all_it_was_asked_for_or_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw, out, folder = tmp_path / "k.h5", tmp_path / "o.h5", tmp_path / "d"
    assert main(["simulate", "--phantom", "head", "--size", "33x40", "--slices", "2", "-o", str(raw)]) == 0
    argv = ["recon", str(raw), "-o", str(out), "--acceleration", "3", "--dicom", str(folder)]
    assert main([*argv, "--strict"]) == 2  # no place is known
    assert sorted(tmp_path.iterdir()) == [raw]
    capsys.readouterr()
    assert main(argv) == 0
    assert f"wrote {folder}" in capsys.readouterr().out
    assert complaints(folder) == []
    assert main(["export", str(out), "--dicom", str(tmp_path / "e"), "--nifti", str(tmp_path / "e.nii.gz")]) == 0
    for path in folder.rglob("*.dcm"):
        assert (tmp_path / "e" / path.relative_to(folder)).read_bytes() == path.read_bytes()
    assert main(argv) == 2  # both are there
    assert main(["recon", str(raw), str(raw), "-o", str(tmp_path / "many"), "--dicom", str(tmp_path / "f")]) == 2
    assert main(["export", str(out), "--like", str(folder)]) == 2
    assert main(["export", str(raw), "--dicom", str(tmp_path / "f")]) == 2  # k-space is no result
    assert not (tmp_path / "f").exists()


def test_nifti_of_a_stored_result_is_that_of_recon(result: Path, tmp_path: Path) -> None:
    export(result, nifti=tmp_path / "a.nii.gz")
    with open_result(result) as read:
        write_nifti(tmp_path / "b.nii.gz", read.mean, read.header, told="warnings: see scan.recon.h5")
    assert (tmp_path / "a.nii.gz").read_bytes() == (tmp_path / "b.nii.gz").read_bytes()
    names = sorted(p.name for p in tmp_path.glob("a_*"))
    assert names == [f"a_{n}.nii.gz" for n in ("bound", "error_std", "std", "visibility_lesion-3-0.3")]
    with pytest.raises(BayesMRIError, match="nothing to write"):
        export(result)
