"""HDF5 that is made to harm: bytes decide on all that is in it, or kilobytes claim to be gigabytes."""

import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from bayesmri.cli import main
from bayesmri.errors import BayesMRIError
from bayesmri.io.formats import read
from bayesmri.io.results import open_result
from fuzzed_h5 import KINDS, Dice
from hostile_writers import fastmri, mrd
from reader_files import random_kspace

TRIALS = 40


def looked_at(path: Path) -> None:
    with open_result(path) as found:
        assert np.isfinite(found.mean).all()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_odd_files_that_are_whole_give_an_image_or_a_line(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`scripts/fuzz.py` goes on with these where this ends."""
    monkeypatch.setenv("BAYESMRI_MAX_BYTES", str(2**26))
    ends, told = set(), []
    for i in range(TRIALS):
        rng = random.Random(f"{kind}{i}")
        path = KINDS[kind](Dice(rng.randbytes(rng.randrange(150))), tmp_path / "a.h5")
        try:
            (looked_at if kind == "result" else read)(path)
            ends.add("read")
        except BayesMRIError as error:
            told.append(str(error))
            ends.add("refused")
    assert all(map(str.isprintable, told))
    assert ends == {"read", "refused"}


def long_lines(folder: Path) -> Path:
    """MRD: the first line claims 2³¹ numbers, of which the file holds none."""
    path = mrd(folder)
    with h5py.File(path) as file:
        data = file["dataset/data"]
        place = data.id.get_chunk_info(0).byte_offset + data.id.get_storage_size() // len(data) - 16
    content = bytearray(path.read_bytes())
    assert int.from_bytes(content[place : place + 4], "little") == 96
    content[place : place + 4] = (2**31).to_bytes(4, "little")
    path.write_bytes(bytes(content))
    return path


def long_text(folder: Path) -> Path:
    """A text of 4 GB in a file of a few kilobytes, next to a small scan."""
    with h5py.File(folder / "a.h5", "w") as file:
        file["kspace"] = random_kspace(1, 16, 18)
        file.create_dataset("ismrmrd_header", data="x" * 100, dtype=h5py.string_dtype())
        place = file["ismrmrd_header"].id.get_offset()
    content = bytearray((folder / "a.h5").read_bytes())
    assert int.from_bytes(content[place : place + 4], "little") == 100
    content[place : place + 4] = (2**32 - 1).to_bytes(4, "little")
    (folder / "a.h5").write_bytes(bytes(content))
    return folder / "a.h5"


def endless_heap(folder: Path) -> Path:
    """Of the heap that holds the lines, the first object claims to be as large as half of all that can be counted."""
    path = mrd(folder)
    content = bytearray(path.read_bytes())
    for start in (i for i in range(0, len(content), 8) if content[i : i + 4] == b"GCOL"):
        content[start + 24 : start + 32] = (2**63).to_bytes(8, "little")
    path.write_bytes(bytes(content))
    return path


def standing_heap(folder: Path) -> Path:
    """Of the heap that holds texts, what is free has no size: HDF5 looks for what comes after it for ever."""
    path = fastmri(folder)
    content = bytearray(path.read_bytes())
    at = content.index(b"GCOL") + 16
    while content[at : at + 2] != b"\0\0":
        at += 16 + -(-int.from_bytes(content[at + 8 : at + 16], "little") // 8) * 8
    content[at + 8 : at + 16] = bytes(8)
    path.write_bytes(bytes(content))
    return path


def tree_in_itself(folder: Path) -> Path:
    """All nodes of B-trees are one level up, and their children are the nodes themselves."""
    path = mrd(folder)
    content = bytearray(path.read_bytes())
    for start in (i for i in range(0, len(content), 8) if content[i : i + 4] == b"TREE"):
        key = 8 if content[start + 4] == 0 else 24
        content[start + 5] = 1
        content[start + 24 + key : start + 32 + key] = start.to_bytes(8, "little")
    path.write_bytes(bytes(content))
    return path


def groups_in_themselves(folder: Path) -> Path:
    with h5py.File(folder / "a.h5", "w") as file:
        file["dataset"] = file["/"]
        file["kspace"] = h5py.SoftLink("/kspace")
        file["mask"] = h5py.ExternalLink("a.h5", "/mask")
    return folder / "a.h5"


def huge_and_empty(folder: Path) -> Path:
    """A million million numbers of which one chunk is there."""
    with h5py.File(folder / "a.h5", "w") as file:
        data = file.create_dataset("kspace", (2**20, 2**10, 2**10), np.complex64, chunks=(1, 32, 32))
        data[0, :32, :32] = 1
    return folder / "a.h5"


BOMBS: list[Callable[[Path], Path]] = [
    long_lines,
    long_text,
    endless_heap,
    tree_in_itself,
    groups_in_themselves,
    huge_and_empty,
]


@pytest.mark.skipif(sys.platform != "linux", reason="child processes are forked and limited on Linux alone")
@pytest.mark.parametrize("make", BOMBS)
def test_commands_end_with_one_line_and_little_memory(make: Callable[[Path], Path], tmp_path: Path) -> None:
    path = make(tmp_path)
    assert path.stat().st_size < 200_000
    out = tmp_path / "o.h5"
    words = ["inspect", str(path)], ["recon", str(path), "--method", "tv", "-o", str(out)]
    code = (
        "import resource; from bayesmri.cli import main\n"
        f"codes = [main(one) for one in {words!r}]\n"
        "print(*codes, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=200)
    *codes, peak = map(int, run.stdout.split())
    assert codes == [2, 2], run.stderr
    assert run.stderr.count("\n") == 2, run.stderr
    assert all(line.startswith("bayesmri: ") for line in run.stderr.splitlines())
    assert peak < 3_000_000  # kB, of the child that read; it was 12.6 GB
    assert not out.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="child processes are forked and limited on Linux alone")
def test_what_the_library_never_ends_to_read_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = standing_heap(tmp_path)
    monkeypatch.setattr("bayesmri.io.apart.limits.BASE_SECONDS", 1)  # of processor time; 20 otherwise
    for words in (["inspect", str(path)], ["recon", str(path), "-o", str(tmp_path / "o.h5")]):
        assert main(words) == 2
        told = capsys.readouterr().err
        assert told.count("\n") == 1
        assert "took more than 1 s of processor time to read" in told
