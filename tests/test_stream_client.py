"""docs/stream.md as it stands: its commands, its client; and how our own client fails."""

import json
import re
import shlex
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import ismrmrd
import numpy as np
import pytest

import bayesmri
from bayesmri.cli import main
from bayesmri.errors import ConfigError, DataError, FormatError
from bayesmri.io.formats import read_kspace
from bayesmri.io.write_h5 import write_kspace
from bayesmri.stream.client import stream_file
from bayesmri.stream.recording import of_kspace, read_recording
from reader_files import header_xml, mrd_line, random_kspace, write_mrd
from stream_runs import FIRST, LAST, PATIENCE, acquisitions, pixels, serving

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "stream.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)


def mrd_scan(path: Path, *, slices: int = 2, coordinates: bool = False) -> Path:
    u = random_kspace(slices, 2, 32, 24)
    marks = {0: FIRST, 23: LAST}
    lines = [mrd_line(u[s, :, :, w], w, slice=s, flags=marks.get(w, 0)) for s in range(slices) for w in range(24)]
    for line in lines if coordinates else []:
        line["head"]["trajectory_dimensions"] = 2
        line["traj"][0] = np.stack([np.arange(-16, 16), np.zeros(32)], axis=1).astype(np.float32).ravel()
    return write_mrd(path, header_xml(32, 24), lines)


@pytest.fixture(scope="module")
def served() -> Iterator[int]:
    """The page's first command, on a port that is free."""
    command = blocks("sh")[0].splitlines()[0]
    assert command == "bayesmri serve --mrd --port 9002"
    words = [sys.executable, "-m", *shlex.split(command.replace("9002", "0"))]
    running = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert running.stdout is not None
    yield int(running.stdout.readline().split()[2].partition(":")[2])
    running.send_signal(signal.SIGINT)
    assert running.communicate(timeout=PATIENCE)[0] == "stopped\n"
    assert running.returncode == 0


def test_every_command_of_the_page_runs(served: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    mrd_scan(tmp_path / "scan.h5", slices=1)
    commands = [line for block in blocks("sh") for line in block.splitlines() if "serve" not in line]
    assert len(commands) >= 4
    for command in commands:
        name, *words = shlex.split(command.replace("localhost:9002", f"127.0.0.1:{served}"))
        assert name == "bayesmri"
        assert main(words) == 0
    found = {}
    for name in ("images", "volume", "eight", "plain"):
        with h5py.File(tmp_path / f"{name}.h5") as file:
            data = {n: file[f"dataset/{n}/data"] for n in file["dataset"] if n != "xml"}
            found[name] = {n: (values.dtype.str, values.shape) for n, values in data.items()}
    one = ("<i2", (1, 1, 1, 24, 32))
    assert found["images"] == found["eight"] == {"image_1": one, "image_2": one, "image_4": one}
    assert {kind for kind, _ in found["volume"].values()} == {"<f4"}
    assert found["plain"] == {"image_1": one}


def test_the_client_of_the_page_gets_its_images(
    served: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    mrd_scan(tmp_path / "scan.h5", slices=1)
    (code,) = blocks("python")
    values: dict[str, Any] = {}
    exec(compile(code.replace("9002", str(served)), "docs/stream.md", "exec"), values)
    assert sorted(image.image_series_index for image in values["images"]) == [1, 2, 4]
    assert "auto chose" in capsys.readouterr().out


def test_the_pages_tables_name_what_there_is() -> None:
    from bayesmri.stream.parameters import KINDS
    from bayesmri.stream.pictures import SERIES

    rows = re.findall(r"^\| (`.*?`) \|", PAGE.split("| parameter | value |")[1].split("```")[0], flags=re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == set(KINDS)
    assert re.findall(
        r"^\| (\d) \|", PAGE.split("| series |")[1].split("`image_series_index`")[0], flags=re.MULTILINE
    ) == [str(n) for n in SERIES.values()]


def test_coordinates_and_lines_of_an_mrd_file_are_sent_as_they_are(tmp_path: Path) -> None:
    path = mrd_scan(tmp_path / "a.h5", coordinates=True)
    xml, lines = acquisitions(path)
    for trusted in (True, False):
        recording = read_recording(path, trusted=trusted)
        assert recording.xml == xml
        for mine, theirs in zip(recording.lines(), lines, strict=True):
            assert mine.head + mine.coordinates.tobytes() + mine.numbers.tobytes() == theirs.to_bytes()


def test_other_kspace_is_sent_line_by_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scan = bayesmri.undersample(bayesmri.simulate("head", shape=(32, 40), slices=2, coils=3), 4)
    write_kspace(tmp_path / "a.h5", scan, provenance={})
    with serving() as running:
        address = "{}:{}".format(*running.address)
        words = ["stream", str(tmp_path / "a.h5"), address, "-o", str(tmp_path / "out.h5")]
        assert main([*words, "--scale", "volume", "--pixels", "float32", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["lines"], made["images"]) == (2 * 10, 2)
    expected = bayesmri.reconstruct(scan, "zero-filled").mean
    with ismrmrd.Dataset(str(tmp_path / "out.h5"), "dataset", mode="r") as file:
        for s in range(2):
            np.testing.assert_array_equal(pixels(file.read_image("image_1", s)), expected[s])
    points = bayesmri.undersample(bayesmri.simulate("head", shape=(32, 40)), 4, mask="poisson")
    with pytest.raises(FormatError, match="mask is of points"):
        of_kspace(points)


def test_a_damaged_file_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    path = write_mrd(tmp_path / "a.h5", header_xml(16, 12), [mrd_line(random_kspace(2, 16), 0, active_channels=3)])
    with pytest.raises(FormatError, match="the file is damaged"):
        read_recording(path, trusted=True)


def test_addresses_are_checked(tmp_path: Path) -> None:
    for text in ("localhost", ":9002", "localhost:", "localhost:0", "localhost:70000", "localhost:nine"):
        with pytest.raises(ConfigError, match="such as localhost:9002"):
            stream_file(tmp_path / "a.h5", text, tmp_path / "out.h5")


def test_errors_of_the_server_are_ours_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = mrd_scan(tmp_path / "a.h5"), tmp_path / "out.h5"
    with serving() as running:
        address = "{}:{}".format(*running.address)
        assert main(["stream", str(path), address, "-o", str(out), "--model", "../mine"]) == 2
        assert "a model that is not offered here" in capsys.readouterr().err
        assert main(["stream", str(path), address, "-o", str(out), "--config", "tv", "--samples", "4"]) == 2
        assert "expected one of the two" in capsys.readouterr().err
    assert main(["stream", str(path), address, "-o", str(out)]) == 2
    assert "cannot connect to" in capsys.readouterr().err
    assert not out.exists()


def test_a_server_that_leaves_in_the_middle_leaves_no_file(tmp_path: Path) -> None:
    path, out = mrd_scan(tmp_path / "a.h5"), tmp_path / "out.h5"
    listening = socket.create_server(("127.0.0.1", 0))

    def half() -> None:
        sock, _ = listening.accept()
        sock.sendall(struct.pack("<HI", 5, 5) + b"hello" + struct.pack("<H", 1022) + bytes(100))
        sock.shutdown(socket.SHUT_WR)
        while sock.recv(1 << 16):
            pass
        sock.close()

    thread = threading.Thread(target=half)
    thread.start()
    with pytest.raises(DataError, match="hello"):
        stream_file(path, f"127.0.0.1:{listening.getsockname()[1]}", out, wait=PATIENCE)
    thread.join()
    listening.close()
    assert not out.exists()


@pytest.mark.parametrize("kind", [np.uint16, np.float64, np.complex64])
def test_images_of_other_servers_are_written_in_their_type(kind: type[Any], tmp_path: Path) -> None:
    """By the ismrmrd package, as python-ismrmrd-server would send them."""
    data = (random_kspace(1, 1, 6, 5) * 10).real.astype(kind)
    data = data * (1 + 2j) if kind is np.complex64 else data
    image = ismrmrd.Image.from_array(data.astype(kind), image_series_index=3)
    listening = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        sock, _ = listening.accept()
        sock.sendall(struct.pack("<H", 1022) + image.to_bytes() + struct.pack("<H", 4))
        while sock.recv(1 << 16):
            pass
        sock.close()

    thread = threading.Thread(target=answer)
    thread.start()
    out = tmp_path / "out.h5"
    stream_file(mrd_scan(tmp_path / "a.h5"), f"127.0.0.1:{listening.getsockname()[1]}", out, wait=PATIENCE)
    thread.join()
    listening.close()
    with ismrmrd.Dataset(str(out), "dataset", mode="r") as file:
        np.testing.assert_array_equal(file.read_image("image_3", 0).data, image.data)


def test_images_written_are_those_that_came(tmp_path: Path) -> None:
    path, out = mrd_scan(tmp_path / "a.h5"), tmp_path / "out.h5"
    heard: list[str] = []
    with serving() as running:
        made = stream_file(
            path, "{}:{}".format(*running.address), out, parameters={"pixels": "float32"}, say=heard.append
        )
    assert made["texts"] == heard
    assert made["errors"] == []
    xml, _ = acquisitions(path)
    expected = [bayesmri.reconstruct(read_kspace(path).part(slice(s, s + 1)), "zero-filled").mean[0] for s in range(2)]
    with ismrmrd.Dataset(str(out), "dataset", mode="r") as file:
        assert file.read_xml_header().decode() == xml
        assert file.number_of_images("image_1") == 2
        for s in range(2):
            image = file.read_image("image_1", s)
            assert (image.slice, image.image_index, image.meta["BAYESMRI_Map"]) == (s, s + 1, "mean")
            np.testing.assert_array_equal(pixels(image), expected[s])
