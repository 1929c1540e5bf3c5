"""Reading in a child process: the same values and errors, and nothing that happens to the child ends the command."""

import ctypes
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bayesmri
from bayesmri.cli import main
from bayesmri.errors import FormatError
from bayesmri.io import formats
from bayesmri.io.apart.child import _store, apart, kept_apart
from bayesmri.io.apart.limits import Limits, limits_for
from bayesmri.io.apart.reading import reading
from bayesmri.io.apart.wire import packed, unpacked
from hostile_writers import WRITERS, Writer, fastmri
from reader_files import random_kspace, write_h5

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="child processes are forked on Linux alone")
LIMITS = limits_for(0)


def same(a: Any, b: Any) -> None:
    """Dataclasses, mappings, tuples and arrays, down to the last."""
    assert type(a) is type(b)
    if isinstance(a, np.ndarray):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    elif hasattr(a, "__dataclass_fields__"):
        for name in a.__dataclass_fields__:
            same(getattr(a, name), getattr(b, name))
    elif isinstance(a, dict):
        assert a.keys() == b.keys()
        for key in a:
            same(a[key], b[key])
    elif isinstance(a, tuple | list):
        for one, other in zip(a, b, strict=True):
            same(one, other)
    else:
        assert a == b


@pytest.mark.parametrize("write", WRITERS)
def test_a_child_reads_what_the_process_itself_reads(tmp_path: Path, write: Writer) -> None:
    path = write(tmp_path)
    same(bayesmri.read(path), bayesmri.read(path, trusted=False))


def test_what_came_from_a_child_can_be_written_to_and_outlives_it(tmp_path: Path) -> None:
    kspace = bayesmri.read(fastmri(tmp_path), trusted=False)
    kspace.z[0] = 1  # type: ignore[union-attr]
    assert kspace.z[0].all()  # type: ignore[union-attr]
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)  # none is left


@pytest.mark.parametrize(
    ("kind", "what"),
    [("truncated", "damaged or truncated"), ("absent", "does not exist"), ("strange", "no known format")],
)
def test_errors_are_those_of_the_reader(tmp_path: Path, kind: str, what: str) -> None:
    path = fastmri(tmp_path)
    if kind == "truncated":
        path.write_bytes(path.read_bytes()[:3000])
    if kind == "absent":
        path.unlink()
    if kind == "strange":
        path.write_text("nothing of interest")
    errors = []
    for trusted in (True, False):
        with pytest.raises(FormatError, match=what) as caught:
            bayesmri.read(path, trusted=trusted)
        errors.append(str(caught.value))
    assert errors[0] == errors[1]


def segfault() -> None:
    ctypes.string_at(0)


def forever() -> None:
    while True:
        pass


DEATHS: dict[str, tuple[Callable[[], object], str]] = {
    "segfault": (segfault, "SIGSEGV"),
    "abort": (os.abort, "SIGABRT"),
    "killed": (lambda: os.kill(os.getpid(), signal.SIGKILL), "lack of memory"),
    "exit": (lambda: os._exit(3), "exit code 3"),
    "processor": (forever, "1 s of processor time"),
    "waiting": (lambda: time.sleep(60), "not read within 3 s"),
}


@pytest.mark.parametrize("kind", DEATHS)
def test_deaths_of_the_child_are_one_line(kind: str) -> None:
    work, words = DEATHS[kind]
    with pytest.raises(FormatError, match=words) as caught:
        apart(work, name="scan.h5", limits=Limits(seconds=1, wait=3.0 if kind == "waiting" else 60.0, memory=2**30))
    assert str(caught.value).startswith("scan.h5 ")
    assert "--trusted" in str(caught.value)
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_memory_is_limited() -> None:
    with pytest.raises(MemoryError):
        apart(lambda: np.ones(2**28), name="scan.h5", limits=Limits(60, 60.0, memory=2**30))


def test_other_errors_of_the_child_are_told_and_no_file_stays_open() -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for error, kind in ((OSError(28, "No space left"), OSError), (KeyError("a"), RuntimeError)):
        with pytest.raises(kind):
            apart(lambda error=error: (_ for _ in ()).throw(error), name="scan.h5", limits=LIMITS)  # type: ignore[misc]
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize("command", ["inspect", "recon", "undersample"])
def test_a_crash_is_one_line_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], command: str
) -> None:
    """HDF5 ends the process: the command says so, exits with 2, and writes nothing."""
    path = fastmri(tmp_path)
    out = tmp_path / "out.h5"
    monkeypatch.setattr(formats, "sniff", lambda _: os.abort())
    assert main([command, str(path), *([] if command == "inspect" else ["-o", str(out)])]) == 2
    said = capfd.readouterr()
    assert said.out == ""
    assert len(said.err.splitlines()) == 1
    assert "SIGABRT" in said.err
    assert not out.exists()


def test_trusted_files_are_read_in_the_process_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, own, sniff = fastmri(tmp_path), os.getpid(), formats.sniff

    def only_here(name: Path | str) -> str:
        if os.getpid() != own:
            os.abort()
        return sniff(name)

    monkeypatch.setattr(formats, "sniff", only_here)
    assert main(["inspect", str(path), "--trusted"]) == 0
    assert main(["inspect", str(path)]) == 2
    assert "fastMRI" in capsys.readouterr().out


def test_report_pages_are_the_same_from_a_child(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Samples and k-space are asked for slice by slice; what is damaged is refused."""
    rng = np.random.default_rng(0)
    image = rng.random((2, 24, 26), dtype=np.float32)
    path = write_h5(
        tmp_path / "r.h5",
        {
            "reconstruction": image,
            "uncertainty_std": image / 9,
            "zero_filled": image / 2,
            "deterministic": image * 0.9,
            "samples": rng.random((2, 3, 24, 26), dtype=np.float32),
            "kspace_mean": random_kspace(2, 1, 24, 26),
            "kspace_std": rng.random((2, 1, 24, 26), dtype=np.float32),
            "mask": np.ones(26, bool),
        },
    )
    pages = []
    for flags in (["--trusted"], []):
        out = tmp_path / f"page{len(flags)}.html"
        assert main(["report", str(path), "-o", str(out), "--json", *flags]) == 0
        assert json.loads(capsys.readouterr().out)["samples_shown"] == 3
        pages.append(out.read_text())
    assert pages[0] == pages[1]


def test_parts_of_an_open_file_can_be_asked_for() -> None:

    file = {"a": np.arange(6).reshape(2, 3)}
    with kept_apart(lambda: nullcontext(("value", file)), name="scan.h5", limits=LIMITS) as (value, ask):
        assert value == "value"
        np.testing.assert_array_equal(ask("a", (1,)), [3, 4, 5])
        assert ask("a", (1, 2)) == 5
        with pytest.raises(RuntimeError, match="KeyError"):
            ask("b", (0,))
        np.testing.assert_array_equal(ask("a", (0,)), [0, 1, 2])


def test_a_child_can_send_values_alone() -> None:
    """No object of another package comes of what it says."""
    for strange in (object(), np.array([object()])):
        with pytest.raises(TypeError, match="cannot be sent"):
            packed(strange)
    for name in ("subprocess:Popen", "bayesmri.cli:main", "bayesmri.io.formats:read", "os:_Environ"):
        with pytest.raises(FormatError, match="expected what readers give"):
            unpacked(json.dumps({"type": name, "fields": {}}).encode(), [])


def test_a_volume_is_never_in_memory_twice() -> None:
    """What was stored for the parent is given back by the child, page by page."""

    def left() -> int:
        big = np.ones(2**25)  # 256 MB
        store = os.memfd_create("test")
        _store(big, store, 0, last=True)
        resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        assert os.fstat(store).st_size == big.nbytes
        return resident

    before = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    assert apart(left, name="scan.h5", limits=LIMITS) < before + 2**27


def test_python_reads_in_the_process_itself_unless_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = fastmri(tmp_path)
    monkeypatch.setattr("os.fork", lambda: pytest.fail("a child was made"))
    bayesmri.read(path)
    with pytest.raises(BaseException, match="a child was made"):
        reading(lambda: bayesmri.read(path), path, trusted=False)
