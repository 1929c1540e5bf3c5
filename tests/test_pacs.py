"""Into an archive and out of it again: a real Orthanc, by C-STORE and C-GET, by STOW-RS and WADO-RS."""

import io
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from bayesmri.cli import main
from bayesmri.errors import ConfigError, FormatError, NetworkError
from bayesmri.io.dicom_out.write import write_dicom
from bayesmri.io.pacs.send import send
from dicom_results import NAME, PATIENT, stored
from doc_commands import commands
from orthanc_server import TITLE, Orthanc, orthanc

pydicom = pytest.importorskip("pydicom", reason="pydicom is not installed")
pynetdicom = pytest.importorskip("pynetdicom", reason="pynetdicom is not installed")
pytest.importorskip("dicomweb_client", reason="dicomweb-client is not installed")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Orthanc]:
    with orthanc(tmp_path_factory.mktemp("orthanc")) as found:
        yield found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("sent")
    write_dicom(stored(where / "r.h5", (3, 21, 34)), where / "scan_dicom")
    return where / "scan_dicom"


def originals(folder: Path) -> dict[str, Any]:
    read = [pydicom.dcmread(path) for path in sorted(folder.rglob("*.dcm"))]
    return {str(data.SOPInstanceUID): data for data in read}


def same(found: Any, sent: Any) -> None:
    """All that we wrote is there as it was, pixels included."""
    for element in sent:
        assert found[element.tag].value == element.value, element
    if "PixelData" in sent:
        np.testing.assert_array_equal(found.pixel_array, sent.pixel_array)


def fetched(server: Orthanc, study: str) -> dict[str, Any]:
    """All instances of a study by C-GET."""
    got: dict[str, Any] = {}

    def keep(event: Any) -> int:
        data = event.dataset
        data.file_meta = event.file_meta
        got[str(data.SOPInstanceUID)] = data
        return 0x0000

    entity = pynetdicom.AE(ae_title="BAYESMRI")
    entity.add_requested_context(pynetdicom.sop_class.StudyRootQueryRetrieveInformationModelGet)
    entity.add_requested_context(pynetdicom.sop_class.StudyRootQueryRetrieveInformationModelFind)
    roles = []
    for kind in ("MRImageStorage", "ParametricMapStorage", "EnhancedSRStorage"):
        uid = getattr(pynetdicom.sop_class, kind)
        entity.add_requested_context(uid)
        roles.append(pynetdicom.build_role(uid, scp_role=True))
    held = entity.associate(
        "127.0.0.1", server.dicom, ae_title=TITLE, ext_neg=roles, evt_handlers=[(pynetdicom.evt.EVT_C_STORE, keep)]
    )
    assert held.is_established
    asked = pydicom.Dataset()
    asked.QueryRetrieveLevel, asked.StudyInstanceUID, asked.PatientName = "STUDY", study, ""
    found = [
        answer
        for _, answer in held.send_c_find(asked, pynetdicom.sop_class.StudyRootQueryRetrieveInformationModelFind)
        if answer is not None
    ]
    assert [str(answer.PatientName) for answer in found] == [NAME]
    for status, _ in held.send_c_get(asked, pynetdicom.sop_class.StudyRootQueryRetrieveInformationModelGet):
        assert status.Status in (0x0000, 0xFF00)
    held.release()
    return got


def test_c_store_and_back(server: Orthanc, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server.clear()
    assert main(["send", str(folder), "--to", server.to, "--called", TITLE]) == 0
    assert "sent 8 files" in capsys.readouterr().out
    sent, got = originals(folder), fetched(server, PATIENT["StudyInstanceUID"])
    assert set(got) == set(sent)
    for uid, data in sent.items():
        same(got[uid], data)
    assert main(["send", str(folder / "std.dcm"), "--to", server.to, "--called", TITLE]) == 0  # once more: no harm
    assert len(server.get("/instances").json()) == 8


def test_stow_and_back_with_a_preview_that_shows_something(server: Orthanc, folder: Path) -> None:
    server.clear()
    assert send(folder, web=server.web) == {
        "source": str(folder), "to": server.web, "files": 8, "notes": [], "warnings": [],
    }  # fmt: skip
    sent = originals(folder)
    ids = server.get("/instances").json()
    assert len(ids) == len(sent)
    for one in ids:
        data = pydicom.dcmread(io.BytesIO(server.get(f"/instances/{one}/file").content))
        same(data, sent[str(data.SOPInstanceUID)])
        if data.Modality == "SR":
            continue
        picture = server.get(f"/instances/{one}/frames/0/preview")
        assert picture.ok
        grey = np.asarray(Image.open(io.BytesIO(picture.content)).convert("L"))
        assert grey.shape == (21, 34)
        assert grey.std() > 5  # neither black nor white
        assert grey.max() > 100
    found = server.get(f"/dicom-web/studies/{PATIENT['StudyInstanceUID']}/series").json()
    assert len(found) == 6


def test_servers_that_refuse_or_are_not_there_are_named(
    server: Orthanc, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(NetworkError, match="--called"):
        send(folder, to=server.to, called="SOMEBODY")
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        closed = f"127.0.0.1:{held.getsockname()[1]}"
        with pytest.raises(NetworkError, match="nothing answers"):
            send(folder, to=closed)
        with pytest.raises(NetworkError, match="nothing answers"):
            send(folder, web=f"http://{closed}/dicom-web")
        assert main(["send", str(folder), "--to", closed]) == 2
        assert capsys.readouterr().err.count("\n") == 1
    with pytest.raises(NetworkError, match="HTTP 404"):
        send(folder, web=f"{server.url}/elsewhere")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "read.me").write_text("no DICOM")
    with pytest.raises(FormatError, match="no DICOM file"):
        send(tmp_path / "other", to=server.to)
    (tmp_path / "other" / "cut.dcm").write_bytes((folder / "std.dcm").read_bytes()[:140])
    with pytest.raises(FormatError, match="damaged"):
        send(tmp_path / "other", to=server.to, called=TITLE)


def test_a_server_that_never_answers_is_given_up(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        held: list[socket.socket] = []
        waiting = threading.Thread(target=lambda: held.extend(silent.accept()[0] for _ in range(2)), daemon=True)
        waiting.start()
        with pytest.raises(NetworkError):
            send(folder, to=f"127.0.0.1:{port}", timeout=0.5)
        with pytest.raises(NetworkError, match="too long"):
            send(folder, web=f"http://127.0.0.1:{port}/dicom-web", timeout=0.5)
        waiting.join(timeout=10)
        for one in held:
            one.close()


@pytest.mark.parametrize(
    "bad",
    [
        {"to": "localhost"}, {"to": "localhost:99999"}, {"to": "h:1", "web": "http://h"}, {}, {"web": "ftp://h/x"},
        {"web": "http://user:word@h/x"}, {"to": "h:1", "called": ""}, {"to": "h:1", "aet": 17 * "A"},
        {"to": "h:1", "timeout": 0.0},
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused_before_anything_is_sent(folder: Path, bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="got "):
        send(folder, **bad)


def test_the_commands_of_the_page_run(
    server: Orthanc, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the ports of this server in the place of Orthanc's usual ones."""
    monkeypatch.chdir(folder.parent)
    server.clear()
    usual = {"localhost:4242": server.to, "http://localhost:8042/dicom-web": server.web}
    ran = commands("pacs.md")
    assert len(ran) == 2
    for words in ran:
        assert main([usual.get(word, word) for word in words[1:]]) == 0
    assert len(server.get("/instances").json()) == 8
