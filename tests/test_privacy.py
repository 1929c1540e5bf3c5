"""Nothing of a patient in what is anonymised, in any output; what is there is found, in any format."""

import json
from pathlib import Path
from typing import Any

import h5py
import nibabel
import numpy as np
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from bayesmri.cli import main
from bayesmri.io.dicom import read_dicom
from bayesmri.io.formats import read_kspace
from bayesmri.io.privacy.anonymous import cleaned
from bayesmri.io.privacy.find import privacy
from bayesmri.io.results import open_result
from bayesmri.kspace import Header
from bayesmri.messages import Messages
from bayesmri.recon.acquisition import Sampling
from bayesmri.recon.export import export
from bayesmri.recon.files import PhantomRequest, simulate_file, undersample_file
from dicom_results import NAME, PATIENT, image, oblique, stored
from doc_commands import commands

pydicom = pytest.importorskip("pydicom", reason="pydicom is not installed")
pytest.importorskip("highdicom", reason="highdicom is not installed")
ID = "id-4711"
XML = """
<subjectInformation><patientName>Meier^Hanna</patientName><patientID>id-4711</patientID>
<patientBirthdate>1971-03-04</patientBirthdate></subjectInformation>
<studyInformation><studyDate>2023-11-12</studyDate><studyInstanceUID>1.2.840.99.5</studyInstanceUID>
<accessionNumber>ACC0815</accessionNumber></studyInformation>
<measurementInformation><patientPosition>HFS</patientPosition>
<protocolName>Meier knee</protocolName></measurementInformation>
<acquisitionSystemInformation><systemVendor>Acme</systemVendor>
<institutionName>Clinic of Hope</institutionName></acquisitionSystemInformation>
"""
SECRETS = ("Meier", "Hanna", ID, "1971-03-04", "2023-11-12", "1.2.840.99.5", "ACC0815", "Hope", "meier_hanna")


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """meier_hanna.h5: fastMRI's layout, a header with a patient, an attribute with her number."""
    folder = tmp_path_factory.mktemp("raw")
    path = folder / "meier_hanna.h5"
    simulate_file(PhantomRequest("knee", "PD", (36, 32), 2), path, snr_db=30)
    with h5py.File(path, "r+") as file:
        header = file["ismrmrd_header"][()].decode()
        del file["ismrmrd_header"]
        start = header.index("<acquisitionSystemInformation>")
        end = header.index("<experimentalConditions>")
        file["ismrmrd_header"] = header[:start] + XML + header[end:]
        del file.attrs["checksums"]
        file.attrs["patient_id"] = ID
        file.attrs["acquisition"] = "Meier knee"
        file.attrs["affine"] = oblique()
    return path


def found_in(path: Path, secrets: tuple[str, ...] = SECRETS) -> list[str]:
    """Which of them stand in the bytes of a file, or of all in a folder."""
    files = [p for p in path.rglob("*") if p.is_file()] if path.is_dir() else [path]
    content = b"".join(p.read_bytes() for p in files)
    if path.name.endswith(".gz"):
        content = nibabel.load(path).header.binaryblock
    return [secret for secret in secrets if secret.encode() in content or secret.lower().encode() in content.lower()]


def test_the_header_of_the_raw_file_goes_along_unless_it_is_not_to(raw: Path, tmp_path: Path) -> None:
    assert read_kspace(raw).header.dicom["PatientName"] == "Meier^Hanna"
    argv = ["recon", str(raw), "--acceleration", "2", "--method", "zero-filled"]
    assert main([*argv, "-o", str(tmp_path / "o.h5"), "--dicom", str(tmp_path / "d")]) == 0
    head = pydicom.dcmread(tmp_path / "d" / "mean" / "0001.dcm")
    assert (str(head.PatientName), head.PatientID, head.StudyDate) == ("Meier^Hanna", ID, "20231112")
    assert (head.PatientPosition, head.InstitutionName) == ("HFS", "Clinic of Hope")
    assert set(found_in(tmp_path / "o.h5")) == set(SECRETS)  # the search would find them


def test_no_output_of_recon_holds_a_trace(raw: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["recon", str(raw), "--acceleration", "2", "--method", "zero-filled", "--anonymise", "--json"]
    argv += ["-o", str(tmp_path / "o.h5"), "--nifti", "--png", "--report", "--dicom", str(tmp_path / "d")]
    assert main(argv) == 0
    made = json.loads(capsys.readouterr().out)
    assert {"patient identifier", "patient name", "patient birth date", "study date", "names of input files"} <= set(
        made["removed"]
    )
    assert not [secret for secret in SECRETS if secret in " ".join(made["removed"])]
    outputs = sorted(tmp_path.iterdir())
    assert {p.name for p in outputs} == {"o.h5", "o.nii.gz", "o.png", "o.html", "d"}
    assert {p.name: found_in(p) for p in outputs if found_in(p)} == {}
    with open_result(tmp_path / "o.h5") as read:
        assert read.header.dicom == {"Manufacturer": "Acme", "PatientPosition": "HFS"}
        assert read.header.affine is not None
        np.testing.assert_allclose(read.header.affine, oblique())
        assert read.provenance["anonymised"] == made["removed"]
        assert read.provenance["inputs"][0]["name"] == "input 1"
    head = pydicom.dcmread(tmp_path / "d" / "mean" / "0001.dcm")
    assert (head.PatientIdentityRemoved, str(head.PatientName)) == ("YES", "Anonymous")
    for path in outputs:
        assert privacy(path)["identifies"] == 0


def test_a_stored_result_is_exported_without_a_trace_and_with_the_same_images(raw: Path, tmp_path: Path) -> None:
    source = tmp_path / "o.h5"
    argv = ["recon", str(raw), "--acceleration", "2", "--method", "zero-filled", "-o", str(source)]
    assert main(argv) == 0
    out = {"h5": tmp_path / "c.h5", "dicom": tmp_path / "c", "nifti": tmp_path / "c.nii.gz"}
    made = export(source, anonymise=True, h5=out["h5"], dicom=out["dicom"], nifti=out["nifti"])
    assert "patient name" in made["removed"]
    assert {p.name: found_in(p) for p in out.values() if found_in(p)} == {}
    with h5py.File(source) as before, h5py.File(out["h5"]) as after:
        assert set(before) == set(after)
        for name in set(before) - {"messages"}:
            np.testing.assert_array_equal(before[name][()], after[name][()])
        assert set(before["reconstruction"].attrs) == set(after["reconstruction"].attrs)
    again = export(out["h5"], anonymise=True, dicom=tmp_path / "again")
    for path in out["dicom"].rglob("*.dcm"):
        assert (tmp_path / "again" / path.relative_to(out["dicom"])).read_bytes() == path.read_bytes()
    assert set(again["removed"]) == set(made["removed"])
    assert main(["export", str(source), "-o", str(tmp_path / "copy.h5")]) == 2  # a copy is no export
    assert main(["report", str(source), "--anonymise", "-o", str(tmp_path / "p.html")]) == 0
    assert found_in(tmp_path / "p.html") == []


def test_kspace_is_written_without_a_trace(raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["undersample", str(raw), "--anonymise", "-o", "u.h5"]) == 0
    assert main(["whatif", str(raw), "--erase", "16,16,3", "--method", "tv", "--acceleration", "2", "--anonymise"]) == 0
    stored(tmp_path / "r.h5", (2, 16, 16))
    export(tmp_path / "r.h5", dicom=tmp_path / "d")
    assert main(["simulate", "d", "--anonymise", "-o", "s.h5"]) == 0
    for name in ("u.h5", "anonymous.whatif.h5", "s.h5"):
        assert found_in(tmp_path / name) == []
        assert found_in(tmp_path / name, ("Jürgen", "19600229")) == []
        assert privacy(tmp_path / name)["findings"] == []
    np.testing.assert_array_equal(read_kspace(Path("u.h5")).header.affine, oblique())


def test_a_series_to_be_like_gives_its_place_and_not_its_patient(raw: Path, tmp_path: Path) -> None:
    source = stored(tmp_path / "r.h5", header=Header("test"))
    placed = Header("test", patient_id=ID, affine=oblique(), dicom={**PATIENT, "PatientName": "Meier^Hanna"})
    export(stored(tmp_path / "l.h5", header=placed), dicom=tmp_path / "like")
    export(source, dicom=tmp_path / "d", like=tmp_path / "like", anonymise=True)
    assert found_in(tmp_path / "d", (*SECRETS, "19600229", "20240506")) == []
    ours, theirs = read_dicom(tmp_path / "d").header.affine, read_dicom(tmp_path / "like").header.affine
    assert ours is not None
    assert theirs is not None
    np.testing.assert_allclose(ours, theirs)


def test_several_files_are_not_anonymised(raw: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recon", str(raw), str(raw), "-o", str(tmp_path / "o"), "--anonymise"]) == 2
    assert "called like them" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_sentences_keep_their_words_and_lose_names() -> None:
    header = Header("test", patient_id="scan 12", dicom={"PatientName": "Knee^Ed"}, acquisition="T1 Schädel")
    said = Messages(
        ("meier_2.h5 has 12 lines; a scan of the knee",), ("patient SCAN 12 (Knee^Ed) moved", "T1 schädel is new")
    )
    record: dict[str, Any] = {
        "inputs": [{"name": "meier_2.h5", "sha256": "0"}, {"name": "tdv-r4.json", "sha256": "1"}],
        "config": {"model": "runs/mine.json", "sampling": {"mask": "/home/meier/mask.npy"}, "samples": 4},
        "time": "2024-01-01",
    }
    bare = cleaned(header, record, said)
    assert bare.said.notes == ("… has 12 lines; a scan of the knee",)
    assert bare.said.warnings == ("patient … (…) moved", "… is new")
    assert [one["name"] for one in bare.provenance["inputs"]] == ["input 1", "tdv-r4.json"]
    assert bare.provenance["config"] == {"model": "runs/mine.json", "sampling": {"mask": "a file"}, "samples": 4}
    assert "time" not in bare.provenance


# --- what is there is found


def places(path: Path) -> dict[str, str]:
    return {one["place"]: one["value"] for one in privacy(path)["findings"]}


def test_the_xml_of_raw_data_is_looked_through(raw: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = places(raw)
    assert found["attribute patient_id"] == ID
    assert found["ismrmrd_header: subjectInformation/patientName"] == "Meier^Hanna"
    assert found["ismrmrd_header: studyInformation/accessionNumber"] == "ACC0815"
    assert found["ismrmrd_header: acquisitionSystemInformation/institutionName"] == "Clinic of Hope"
    assert not [place for place in found if "systemVendor" in place or "patientPosition" in place]
    assert main(["inspect", "--privacy", str(raw)]) == 0
    said = capsys.readouterr().out
    assert "Meier^Hanna" in said
    assert "show the face" in said


def test_dicom_with_private_and_nested_values(tmp_path: Path) -> None:
    export(stored(tmp_path / "r.h5", (1, 8, 8)), dicom=tmp_path / "d")
    path = tmp_path / "d" / "std.dcm"
    data = pydicom.dcmread(path)
    data.private_block(0x0029, "ACME", create=True).add_new(0x01, "LO", "secret")
    item = pydicom.Dataset()
    item.OperatorsName = "Nurse^Nested"
    data.RequestAttributesSequence = [item]
    data.save_as(path)
    found = places(tmp_path / "d")
    assert found["PatientName"] == NAME
    assert found["OperatorsName"] == "Nurse^Nested"
    assert found["private attributes"].startswith("2,")
    assert found["StudyInstanceUID"] == PATIENT["StudyInstanceUID"]


def test_other_formats(tmp_path: Path) -> None:
    volume = nibabel.Nifti1Image(np.zeros((8, 8, 2), np.float32), np.eye(4))
    volume.header["descrip"], volume.header["db_name"] = b"Meier, Hanna", b"meier"
    volume.header.extensions.append(nibabel.nifti1.Nifti1Extension("comment", b"a comment of some length"))
    nibabel.save(volume, tmp_path / "a.nii.gz")
    found = places(tmp_path / "a.nii.gz")
    assert (found["descrip"], found["db_name"]) == ("Meier, Hanna", "meier")
    assert "32 bytes" in found["extension"]
    info = PngInfo()
    info.add_text("Comment", "Meier")
    info.add_text("Zipped", "Hanna", zip=True)
    Image.fromarray(np.zeros((4, 4), np.uint8)).save(tmp_path / "a.png", pnginfo=info)
    assert places(tmp_path / "a.png") == {"text Comment": "Meier", "text Zipped": "Hanna"}
    (tmp_path / "a.json").write_text(json.dumps({"rows": [{"volume": "meier_01", "psnr": 3.0}], "name": "x"}))
    assert places(tmp_path / "a.json") == {"rows.volume": "meier_01", "name": "x"}
    (tmp_path / "a.hdr").write_text("# Dimensions\n8 8 1 1\n# Command\nfft meier out\n# Creator\nBART\n")
    (tmp_path / "a.cfl").write_bytes(bytes(8 * 64))
    assert places(tmp_path / "a.cfl") == {"a.hdr: Command": "fft meier out"}
    np.save(tmp_path / "a.npy", image((1, 8, 8)))
    assert privacy(tmp_path / "a.npy")["findings"] == []
    (tmp_path / "a.bin").write_bytes(b"anything")
    assert places(tmp_path / "a.bin")["content"].startswith("of no known format")


@pytest.mark.parametrize("name", ["r.h5", "r.png", "r.json", "r.nii", "d"])
def test_damaged_files_and_escapes_are_harmless(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    header = Header("test", patient_id="\x1b[31mred\nline", dicom={"PatientName": "\x07bell"})
    stored(tmp_path / "r.h5", (1, 8, 8), header=header)
    export(tmp_path / "r.h5", dicom=tmp_path / "d", nifti=tmp_path / "r.nii")
    Image.fromarray(np.zeros((4, 4), np.uint8)).save(tmp_path / "r.png")
    (tmp_path / "r.json").write_text('{"name": "\\u001b[31m"}')
    path = tmp_path / name
    assert main(["inspect", "--privacy", str(path)]) == 0
    assert "\x1b" not in capsys.readouterr().out
    for file in [path] if path.is_file() else sorted(path.rglob("*.dcm")):
        content = file.read_bytes()
        file.write_bytes(content[: len(content) // 2])
    assert main(["inspect", "--privacy", str(path)]) in (0, 2)
    assert "internal error" not in capsys.readouterr().err


def test_the_commands_of_the_page_run(raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full.h5").write_bytes(raw.read_bytes())
    undersample_file(raw, tmp_path / "scan.h5", Sampling(2.0), keep_truth=False)
    assert main(["recon", "scan.h5"]) == 0
    ran = commands("privacy.md")
    assert len(ran) == 5
    for words in ran:
        assert main(words[1:]) == 0
    for name in (
        "shared.h5",
        "shared",
        "shared.png",
        "shared.nii.gz",
        "clean.h5",
        "clean",
        "clean.html",
        "practice.h5",
    ):
        assert found_in(tmp_path / name) == []
