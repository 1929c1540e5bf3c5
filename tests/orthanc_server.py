"""A real Orthanc on loopback for tests: DICOM and DICOMweb, storage in a temporary folder, ended with the tests."""

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests

PLUGIN = Path("/usr/share/orthanc/plugins/libOrthancDicomWeb.so")
TITLE = "ORTHANC"


@dataclass(frozen=True)
class Orthanc:
    http: int
    dicom: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http}"

    @property
    def web(self) -> str:
        return f"{self.url}/dicom-web"

    @property
    def to(self) -> str:
        return f"127.0.0.1:{self.dicom}"

    def get(self, path: str) -> Any:
        return requests.get(f"{self.url}{path}", timeout=20)

    def clear(self) -> None:
        for patient in self.get("/patients").json():
            requests.delete(f"{self.url}/patients/{patient}", timeout=20)


@contextmanager
def orthanc(folder: Path) -> Iterator[Orthanc]:
    """Skips, saying why, where the program or its plugin is missing."""
    program = shutil.which("Orthanc", path="/usr/sbin:/usr/bin:/usr/local/bin:/usr/local/sbin")
    if program is None or not PLUGIN.exists():
        pytest.skip("Orthanc with its DICOMweb plugin is not installed (orthanc, orthanc-dicomweb, by make oracles)")
    http, dicom = _free_ports(2)
    settings = {
        "StorageDirectory": str(folder / "storage"), "IndexDirectory": str(folder / "storage"),
        "HttpPort": http, "DicomPort": dicom, "DicomAet": TITLE, "DicomCheckCalledAet": True,
        "RemoteAccessAllowed": False, "AuthenticationEnabled": False,
        "DicomAlwaysAllowEcho": True, "DicomAlwaysAllowStore": True, "DicomAlwaysAllowFind": True,
        "DicomAlwaysAllowGet": True, "DefaultEncoding": "Utf8",
        "Plugins": [str(PLUGIN)], "DicomWeb": {"Enable": True, "Root": "/dicom-web/"},
    }  # fmt: skip
    (folder / "orthanc.json").write_text(json.dumps(settings))
    with (folder / "log.txt").open("wb") as log:
        process = subprocess.Popen([program, str(folder / "orthanc.json")], stdout=log, stderr=log, cwd=folder)
        try:
            found = Orthanc(http, dicom)
            _wait(found, process, folder / "log.txt")
            yield found
        finally:
            process.kill()  # it would wait for connections that requests keeps open
            process.wait()


def _wait(server: Orthanc, process: "subprocess.Popen[bytes]", log: Path) -> None:
    for _ in range(600):
        with suppress(requests.exceptions.RequestException):
            if server.get("/system").ok and server.get("/dicom-web/studies").ok:
                return
        assert process.poll() is None, log.read_text(errors="replace")[-2000:]
        time.sleep(0.1)
    raise AssertionError("Orthanc did not begin to answer: " + log.read_text(errors="replace")[-2000:])


def _free_ports(n: int) -> list[int]:
    held = [socket.socket() for _ in range(n)]
    try:
        for one in held:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in held]
    finally:
        for one in held:
            one.close()
