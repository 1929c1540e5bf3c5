"""Hostile, slow, stalled and vanishing clients: each is told and given up, and none holds the others up."""

import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bayesmri.cli import main
from bayesmri.errors import ConfigError, DataError
from bayesmri.recon.request import Options
from bayesmri.stream.layout import ACQUISITION_HEAD, IMAGE_HEAD, WAVEFORM_HEAD
from bayesmri.stream.limits import Allowance, Limits
from bayesmri.stream.parameters import Terms, Wish, by_name, by_text
from bayesmri.stream.transport import GoneError, Incoming, Outgoing
from bayesmri.stream.turns import Turns, Worker
from reader_files import header_xml, mrd_line, random_kspace, write_mrd
from stream_runs import FIRST, LAST, PATIENCE, Client, acquisitions, packed, serving, streamed

BOMB = (
    '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'
    "<ismrmrdHeader>&b;</ismrmrdHeader>"
)


def head(**changes: Any) -> bytes:
    record = np.zeros(1, ACQUISITION_HEAD)
    record["version"], record["number_of_samples"], record["active_channels"] = 1, 16, 2
    for name, value in changes.items():
        record[name] = value
    return record.tobytes()


def text(kind: int, n: int, content: bytes = b"") -> bytes:
    return struct.pack("<HI", kind, n) + content


def xml(X: int = 16, W: int = 12, **changes: Any) -> bytes:
    raw = header_xml(X, W, **changes).encode()
    return text(3, len(raw), raw)


def image(**changes: Any) -> bytes:
    record = np.zeros(1, IMAGE_HEAD)
    for name, value in changes.items():
        record[name] = value
    return record.tobytes()


def waveform(channels: int, samples: int) -> bytes:
    record = np.zeros(1, WAVEFORM_HEAD)
    record["channels"], record["number_of_samples"] = channels, samples
    return record.tobytes()


LINE = struct.pack("<H", 1008)
WHOLE_LINE = LINE + head() + bytes(16 * 2 * 8)
HOSTILE = {
    "an id that is none": (struct.pack("<H", 999), "a message of id 999"),
    "an HTTP request": (b"GET / HTTP/1.1\r\n\r\n", "a message of id"),
    "a text of four gigabytes": (text(5, 2**32 - 1), "a text of 4.29 GB"),
    "a header of four gigabytes": (text(3, 2**32 - 1), "a text of 4.29 GB"),
    "an entity bomb": (text(3, len(BOMB), BOMB.encode()), "XML entities"),
    "an entity bomb as a configuration": (text(2, len(BOMB), BOMB.encode()), "XML entities"),
    "a header that is none": (text(3, 4, b"none"), "not valid XML"),
    "a header without an encoding": (text(3, 16, b"<ismrmrdHeader/>"), "no <encoding>"),
    "a header of tags": (text(3, 400_000, b"<a/>" * 100_000), "100000 XML tags"),
    "a matrix of 34 GB": (xml(65535, 65535), "an encoded matrix of 65535 x 65535"),
    "a spiral": (xml(trajectory="spiral"), "the trajectory is 'spiral'"),
    "a line before the header": (WHOLE_LINE, "before the header"),
    "all bits of the counts": (
        xml() + LINE + head(number_of_samples=65535, active_channels=65535),
        "65535 samples, 65535 channels",
    ),
    "too many dimensions": (xml() + LINE + head(trajectory_dimensions=65535), "65535 dimensions"),
    "a line of half a gigabyte": (xml() + LINE + head(number_of_samples=65535, active_channels=1000), "65535 samples"),
    "a second header": (xml() + WHOLE_LINE + xml(), "a second header"),
    "a configuration too late": (xml() + WHOLE_LINE + text(2, 9, b"samples=2"), "after the first acquisition"),
    "an image of a zettabyte": (
        struct.pack("<H", 1022) + image(data_type=8, channels=65535, matrix_size=65535) + bytes(8),
        "an image of",
    ),
    "attributes without end": (struct.pack("<H", 1022) + image(data_type=2) + b"\xff" * 8, "of attributes"),
    "an image of no type": (struct.pack("<H", 1022) + image() + bytes(8), "data type 0"),
    "a waveform of gigabytes": (struct.pack("<H", 1026) + waveform(65535, 65535), "a waveform of 17.2 GB"),
    "a model that is a path": (text(2, 18, b"model=../../secret"), "a model that is not offered"),
    "a value that is none": (text(2, 12, b"samples=many"), "samples = 'many'"),
    "too many samples": (text(2, 23, b"model=auto\nsamples=4000"), "at most 64 on this server"),
    "JSON that is none": (text(2, 2, b"{!"), "not valid JSON"),
    "deep JSON": (text(2, 200_000, b'{"a":' * 40_000), "not valid JSON"),
}  # fmt: skip


@pytest.fixture(scope="module")
def scan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    u = random_kspace(2, 2, 16, 12)
    lines = [
        mrd_line(u[s, :, :, w], w, slice=s, flags={0: FIRST, 11: LAST}.get(w, 0)) for s in range(2) for w in range(12)
    ]
    return write_mrd(tmp_path_factory.mktemp("scan") / "a.h5", header_xml(16, 12), lines)


def test_hostile_messages_are_refused_by_name_before_anything_is_allocated(scan: Path) -> None:
    with serving() as running:
        for what, (sent, told) in HOSTILE.items():
            with Client.to(running.address) as client:
                client.raw(sent)
                client.hear_out()
            assert client.images == []
            assert any(told in said for said in client.texts), (what, client.texts)
            assert client.texts[-1].startswith("error: ")
        assert len(streamed(running.address, scan).images) == 2
    assert len([line for line in running.log if "refused: " in line]) == len(HOSTILE)


def test_flipped_and_cut_streams_end_and_leave_the_server_as_it_was(scan: Path) -> None:
    header, lines = acquisitions(scan)
    whole = struct.pack("<H1024s", 1, b"default.xml") + text(3, len(header), header.encode())
    whole += b"".join(LINE + line.to_bytes() for line in lines) + struct.pack("<H", 4)
    rng = np.random.default_rng(5)
    with serving(greeting=PATIENCE, message=PATIENCE) as running:
        for _ in range(40):
            raw = bytearray(whole)
            for at in rng.integers(0, len(raw), rng.choice([1, 4, 30])):
                raw[at] ^= 1 << rng.integers(0, 8)
            with Client.to(running.address) as client:
                client.raw(bytes(raw[: rng.integers(1, len(raw))] if rng.random() < 0.3 else raw))
                client.sock.shutdown(socket.SHUT_WR)
                client.hear_out()
        assert len(streamed(running.address, scan).images) == 2
    assert not [line for line in running.log if "internal" in line]


def test_long_lines_of_a_configuration_take_no_time_to_be_passed_over() -> None:
    """Where a pattern that steps back would take hours."""
    assert by_text("samples=" + " " * 3_000_000 + "x", TERMS, TERMS.own)[0] == TERMS.own
    assert by_text("a" * 3_000_000 + "\nsamples = 4", TERMS, TERMS.own)[0].options.samples == 4


def test_matrices_that_no_line_fills_are_refused(scan: Path) -> None:
    """The header claims 134 MB, and one line of 256 bytes comes."""
    with serving() as running, Client.to(running.address) as client:
        client.raw(xml(2900, 2890) + WHOLE_LINE)
        client.close()
        client.hear_out()
    assert client.images == []
    assert any(said.startswith("error: slice 0: ") for said in client.texts)


def test_slow_and_silent_clients_are_given_up(scan: Path) -> None:
    """One byte of a message, one byte of a header, a length without its text, and nothing at all."""
    with serving(greeting=0.3, message=0.3) as running:
        clients = [Client.to(running.address) for _ in range(4)]
        for client, sent in zip(clients, (b"\x01", b"\x01\x00default", text(3, 100, b"<"), b""), strict=True):
            client.raw(sent)
        for client in clients:
            client.hear_out()
            client.sock.close()
        assert len(streamed(running.address, scan).images) == 2
    assert sum("too slow" in line for line in running.log) == 4


def test_bytes_that_drip_do_not_renew_the_time() -> None:
    """One byte every 30 ms is never silent for the time that a message has."""
    near, far = socket.socketpair()
    over = threading.Event()

    def drip() -> None:
        while not over.wait(0.03):
            far.send(b"\x01")

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        incoming = Incoming(near, message=0.4)
        incoming.begin(PATIENCE)
        with pytest.raises(GoneError, match="too slow"):
            incoming.take(1024)
    finally:
        over.set()
        thread.join()
        near.close()
        far.close()


def test_a_client_that_does_not_read_is_given_up_and_nobody_waits_for_it() -> None:
    near, far = socket.socketpair()
    sent: list[int] = []
    out = Outgoing(near, stalled=0.3, on_sent=sent.append)
    for _ in range(8):
        out.put(bytes(1 << 20))
    began = time.monotonic()
    assert not out.finish(PATIENCE)
    assert time.monotonic() - began < PATIENCE / 2
    assert sum(sent) == 8 << 20
    near.close()
    far.close()


def test_others_get_their_images_while_one_does_not_read(scan: Path) -> None:
    u = random_kspace(1, 1, 512, 128)
    marks = {0: FIRST, 127: LAST}
    raw = packed([mrd_line(u[0, :, :, w], w, slice=s, flags=marks.get(w, 0)) for s in range(6) for w in range(128)])
    with serving(stalled=1.0) as running:
        deaf = socket.socket()
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect(running.address)
        client = Client(deaf)
        client.text(2, "pixels = float32")
        client.header(header_xml(512, 128))

        def push() -> None:
            try:
                client.raw(raw)
                client.close()
            except OSError:
                pass

        pushing = threading.Thread(target=push)
        pushing.start()
        assert len(streamed(running.address, scan).images) == 2
        pushing.join(PATIENCE)
        while any(t.is_alive() for t in running.server.sessions.values()):
            time.sleep(0.02)
        deaf.close()
    assert any("client 1: closed, and did not read what it was sent" in line for line in running.log)


@pytest.mark.parametrize("when", [0, 1, 500])
def test_a_client_that_vanishes_leaves_nothing_behind(when: int, scan: Path) -> None:
    """Reset in the greeting, in the middle of a line, and while its image is made."""
    header, lines = acquisitions(scan)
    with serving() as running:
        client = Client.to(running.address)
        client.name("default")
        if when:
            client.header(header)
            for line in lines[:15]:
                client.line(line)
            client.raw(LINE, lines[15].to_bytes()[:when])
        client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.sock.close()
        assert len(streamed(running.address, scan).images) == 2
    assert sum("connected" in line for line in running.log) == 2


def test_clients_too_many_are_told_and_a_place_is_free_again(scan: Path) -> None:
    with serving(clients=1) as running:
        with Client.to(running.address) as first:
            first.name("default")
            first.header(acquisitions(scan)[0])
            with Client.to(running.address) as second:
                assert second.hear_out().texts == [
                    "error: 1 clients are connected, and no more are taken; try again later"
                ]
            first.close()
            first.hear_out()
        while any(t.is_alive() for t in running.server.sessions.values()):
            time.sleep(0.02)
        assert len(streamed(running.address, scan).images) == 2


# --- memory


def test_slices_that_are_never_complete_end_at_the_limit_of_memory() -> None:
    with serving(memory=2**20) as running, Client.to(running.address) as client:
        client.raw(xml(16, 65535))
        try:
            for i in range(3000):
                client.raw(LINE + head(idx=(i,) + (0,) * 8 + ((0,) * 8,)) + bytes(256))
        except OSError:  # the server has closed
            pass
        client.hear_out()
    assert "before an image was complete" in client.texts[-1]


def test_any_number_of_complete_slices_passes_through_little_memory() -> None:
    u = random_kspace(1, 4, 64, 64)
    marks = {0: FIRST, 63: LAST}
    raw = packed([mrd_line(u[0, :, :, w], w, slice=s, flags=marks.get(w, 0)) for s in range(10) for w in range(64)])
    assert len(raw) > 2**20
    with serving(memory=2**20) as running, Client.to(running.address) as client:
        client.raw(xml(64, 64))
        pushing = threading.Thread(target=client.raw, args=(raw, struct.pack("<H", 4)))
        pushing.start()
        client.hear_out()
        pushing.join(PATIENCE)
    assert [image.slice for image in client.images] == list(range(10))


def test_an_allowance_waits_for_work_and_refuses_what_will_never_fit() -> None:
    allowance = Allowance(100)
    allowance.take(80)
    with pytest.raises(DataError, match="before an image was complete"):
        allowance.take(30)
    allowance.promise(80)
    threading.Timer(0.05, allowance.give_back, [80]).start()
    allowance.take(30)
    assert (allowance.held, allowance.coming_back) == (30, 0)
    allowance.hold(90)
    threading.Timer(0.05, allowance.close).start()
    allowance.take(50)


@pytest.mark.parametrize("wrong", [{"clients": 0}, {"idle": 0.0}, {"memory": 10}])
def test_limits_are_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="expected"):
        Limits(**wrong)


def test_clients_take_turns() -> None:
    """One has five slices waiting; the other's single one is the second to be made."""
    turns, gate, done = Turns(), threading.Event(), list[str]()
    many, one = Worker(turns, "many"), Worker(turns, "one")

    def job(name: str) -> Callable[[], None]:
        def work() -> None:
            gate.wait(PATIENCE)
            done.append(name)

        return work

    for i in range(5):
        many.submit(job(f"many {i}"))
    while not turns.taken:
        time.sleep(0.01)
    one.submit(job("one"))
    while not turns.row:
        time.sleep(0.01)
    gate.set()
    many.wait()
    one.wait()
    many.stop()
    one.stop()
    assert done == ["many 0", "one", "many 1", "many 2", "many 3", "many 4"]


def test_a_huge_slice_lets_others_go_first_after_every_step() -> None:
    turns, done = Turns(), list[str]()
    huge, small = Worker(turns, "huge"), Worker(turns, "small")

    def steps() -> None:
        done.append("begun")
        small.submit(lambda: done.append("small"))
        while not turns.row:
            time.sleep(0.01)
        turns.others_first()
        done.append("ended")

    huge.submit(steps)
    huge.wait()
    small.wait()
    huge.stop()
    small.stop()
    assert done == ["begun", "small", "ended"]


# --- configurations


TERMS = Terms(Wish(Options(model="auto", samples=16)))


def test_names_choose_methods_and_shipped_models_and_are_never_opened_or_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tdv-r4").mkdir()
    (tmp_path / "secret.py").write_text("raise SystemExit")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("default", "default.xml", "bayesmri", ""):
        assert by_name(name, TERMS, TERMS.own) == (TERMS.own, by_text("samples=16", TERMS, TERMS.own)[1])
    wish, _ = by_name("tdv-r4.xml", TERMS, TERMS.own)
    assert wish.options.model == str(TERMS.models["tdv-r4"].path)
    wish, _ = by_name("zero-filled", TERMS, TERMS.own)
    assert (wish.options.method, wish.options.model, wish.options.samples) == ("zero-filled", None, 0)
    wish, _ = by_name("unet-single", TERMS, TERMS.own)
    assert wish.options.samples == 0  # which has no posterior
    for name in ("simplefft", "invertcontrast", "secret", "antigravity", "../tdv-r4", "/etc/passwd", "\n\x1b[31m"):
        wish, said = by_name(name, TERMS, TERMS.own)
        assert wish == TERMS.own
        assert "model auto, 16 samples" in said.notes[0]
    assert not {"secret", "antigravity"} & set(sys.modules)


@pytest.mark.parametrize(
    "config",
    [
        '{"parameters": {"samples": 8, "check": true, "scale": "volume", "seed": 3}}',
        '{"version": "1.1.0", "parameters": {"samples": "8", "check": "True", "scale": "volume", "seed": "3"}}',
        '{"samples": 8, "check": true, "scale": "volume", "seed": 3}',
        "[bayesmri]\nsamples = 8\ncheck = yes\n# more\nscale = volume\nseed: 3\n",
        "<bayesmri><samples>8</samples><check>on</check><scale>volume</scale><seed>3</seed></bayesmri>",
        '<gadgetronStreamConfiguration xmlns="http://gadgetron.sf.net/gadgetron"><gadget><name>BayesMRI</name>'
        + "".join(
            f"<property><name>{name}</name><value>{value}</value></property>"
            for name, value in (("samples", 8), ("check", "true"), ("scale", "volume"), ("seed", 3))
        )
        + "</gadget></gadgetronStreamConfiguration>",
    ],
)
def test_parameters_are_read_from_json_xml_and_lines(config: str) -> None:
    wish, said = by_text(config, TERMS, TERMS.own)
    options = wish.options
    assert (options.samples, options.check, options.seed, wish.scale) == (8, True, 3, "volume")
    assert said.notes == ()


def test_parameters_that_are_not_ours_are_named_and_left() -> None:
    wish, said = by_text('{"parameters": {"samples": 4, "options": "roi", "customconfig": ""}}', TERMS, TERMS.own)
    assert wish.options.samples == 4
    assert "left aside: options" in said.notes[0]
    wish, said = by_text("<gadgetronStreamConfiguration/>", TERMS, TERMS.own)
    assert wish == TERMS.own
    assert "no parameter of bayesmri's" in said.notes[0]
    wish, said = by_text('{"parameters": {"config": "tv"}}', TERMS, TERMS.own)
    assert wish.options.method == "tv"
    with pytest.raises(ConfigError, match="both a method and a model"):
        by_text("method=tv\nmodel=auto", TERMS, TERMS.own)


def test_texts_can_be_left_out_for_clients_that_know_no_such_message(scan: Path) -> None:
    with serving() as running:
        client = streamed(running.address, scan, "texts = no\nunknown = 1")
    assert client.texts == []
    assert len(client.images) == 2


def test_parameters_may_come_as_a_text_beside_a_name(scan: Path) -> None:
    """As python-ismrmrd-server's client sends them, after the header."""
    header, lines = acquisitions(scan)
    with serving() as running, Client.to(running.address) as client:
        client.name("invertcontrast")
        client.header(header)
        client.text(5, '{"parameters": {"pixels": "float32"}}')
        client.text(5, "some remark")
        client.raw(struct.pack("<H", 1026), waveform(2, 5), bytes(40))
        for line in lines:
            client.line(line)
        client.close()
        client.hear_out()
    assert {image.data.dtype for image in client.images} == {np.dtype(np.float32)}
    assert "note: waveforms that were sent are not used" in client.texts


# --- the command


def test_nothing_of_a_patient_is_logged_and_the_command_stops_in_order(scan: Path) -> None:
    header, lines = acquisitions(scan)
    about = "<subjectInformation><patientName>Doe^Jane</patientName><patientID>4711</patientID></subjectInformation>"
    header = header.replace("<measurementInformation>", f"{about}<measurementInformation>")
    assert about in header
    command = [sys.executable, "-m", "bayesmri", "serve", "--mrd", "--port", "0", "--method", "zero-filled"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert running.stdout is not None
    first = running.stdout.readline()
    port = int(first.split()[2].partition(":")[2])
    with Client.to(("127.0.0.1", port)) as broken:
        broken.name("Doe^Jane.xml")
        broken.header(header[:-5])
        broken.hear_out()
    with Client.to(("127.0.0.1", port)) as client:
        client.name("default")
        client.header(header)
        for line in lines[:15]:
            client.line(line)
        assert client.next_image().slice == 0
        running.send_signal(signal.SIGTERM)
        client.hear_out()
    assert client.texts[-1] == "error: the server was stopped"
    out, err = running.communicate(timeout=PATIENCE)
    assert running.returncode == 0
    assert out == "stopped\n"
    for word in ("Doe", "Jane", "4711", "AXT2"):
        assert word not in first + out + err
    assert len(err.splitlines()) == 4


def test_the_command_refuses_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    taken = socket.create_server(("127.0.0.1", 0))
    refused = {
        "--anyone": ["--mrd", "--host", "0.0.0.0"],
        "expected --mrd": [],
        "from 0 to 65535": ["--mrd", "--port", "70000"],
        "cannot listen": ["--mrd", "--port", str(taken.getsockname()[1])],
        "expected an address": ["--mrd", "--host", "no.such.host.invalid"],
        "leave one of the two out": ["--mrd", "--method", "tv", "--model", "auto"],
        "at least 2": ["--mrd", "--samples", "1"],
    }
    for told, words in refused.items():
        assert main(["serve", *words]) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert len(said.err.strip().splitlines()) == 1
        assert told in said.err
    taken.close()
