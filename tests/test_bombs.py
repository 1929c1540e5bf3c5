"""Whatever unpacks stops at the byte budget, before the memory is taken."""

import gzip
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from bayesmri.cli import main
from bayesmri.errors import FormatError
from bayesmri.io.formats import read
from reader_files import write_dicom

MEGABYTE = 10**6
BUDGET = 60 * MEGABYTE


def deflated(folder: Path) -> Path:
    """100 MB of zeros in a tenth of a megabyte, as pixels that no header describes."""
    pydicom = pytest.importorskip("pydicom")
    plain = pydicom.dcmread(write_dicom(folder / "plain.dcm", np.ones((16, 16), np.uint16)))
    plain.file_meta.TransferSyntaxUID = "1.2.840.10008.1.2.1.99"
    plain.add_new(0x00091010, "LO", "x")
    plain.save_as(folder / "a.dcm", enforce_file_format=True)
    content = (folder / "a.dcm").read_bytes()
    pack = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    meta = content[: content.index(b"1.2.840.10008.1.2.1.99")]
    start = _after_meta(content)
    body = zlib.decompress(content[start:], -zlib.MAX_WBITS)
    element = b"\x09\x00\x11\x10OB\x00\x00" + (100 * MEGABYTE).to_bytes(4, "little")
    packed = pack.compress(body[:-8] + element) + b"".join(pack.compress(bytes(MEGABYTE)) for _ in range(100))
    (folder / "plain.dcm").unlink()
    (folder / "a.dcm").write_bytes(content[:start] + packed + pack.flush())
    assert meta
    return folder / "a.dcm"


def _after_meta(content: bytes) -> int:
    """Group 2 begins with its own length."""
    return 132 + 12 + int.from_bytes(content[140:144], "little")


def chunked(folder: Path) -> Path:
    """A small array in one chunk of 800 MB, all zeros but the corner."""
    with h5py.File(folder / "a.h5", "w") as file:
        data = file.create_dataset(
            "kspace", (1, 16, 16), np.complex64, maxshape=(None, None, None), chunks=(1, 10_000, 10_000), compression=1
        )
        data.id.write_direct_chunk((0, 0, 0), zlib.compress(bytes(8 * MEGABYTE), 9))
    return folder / "a.h5"


def offset(folder: Path) -> Path:
    """An image that begins 100 MB after the start of what is unpacked."""
    nibabel = pytest.importorskip("nibabel")
    image = nibabel.Nifti1Image(np.ones((8, 8, 2), np.float32), np.eye(4))
    content = bytearray(image.to_bytes())
    content[108:112] = np.float32(100 * MEGABYTE).tobytes()
    packed = gzip.compress(bytes(content[:352]) + bytes(100 * MEGABYTE) + bytes(content[352:]), compresslevel=6)
    (folder / "a.nii.gz").write_bytes(packed)
    return folder / "a.nii.gz"


def frames(folder: Path) -> Path:
    """2,000 frames at one place, of which a thousand pixels are there."""
    pydicom = pytest.importorskip("pydicom")
    data = pydicom.dcmread(write_dicom(folder / "a.dcm", np.ones((16, 16), np.uint16)))
    data.NumberOfFrames = 2_000
    data.Rows = data.Columns = 4096
    data.save_as(folder / "a.dcm")
    return folder / "a.dcm"


@pytest.mark.parametrize("make", [deflated, chunked, offset, frames])
def test_a_bomb_is_refused_before_it_is_unpacked(
    make: Callable[[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make(tmp_path)
    monkeypatch.setenv("BAYESMRI_MAX_BYTES", str(BUDGET))
    tracemalloc.start()
    try:
        with pytest.raises(FormatError) as caught:
            read(path)
        assert tracemalloc.get_traced_memory()[1] < 2 * BUDGET
    finally:
        tracemalloc.stop()
    assert "\n" not in str(caught.value)


def test_looking_for_names_and_sending_refuse_a_bomb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = deflated(tmp_path)
    monkeypatch.setenv("BAYESMRI_MAX_BYTES", str(BUDGET))
    for words in (
        ["inspect", "--privacy", str(path)],
        ["send", str(path), "--to", "127.0.0.1:9"],
        ["send", str(path), "--web", "http://127.0.0.1:9/dicom-web"],
    ):
        assert main(words) == 2
        told = capsys.readouterr().err
        assert told.count("\n") == 1
        assert "claims" in told, (words, told)


def test_an_honest_deflated_file_is_read(tmp_path: Path) -> None:
    pydicom = pytest.importorskip("pydicom")
    rng = np.random.default_rng(0)
    path = write_dicom(tmp_path / "a.dcm", rng.integers(1, 900, (16, 16)).astype(np.uint16))
    was = read(path)
    data = pydicom.dcmread(path)
    data.file_meta.TransferSyntaxUID = "1.2.840.10008.1.2.1.99"
    data.save_as(path, enforce_file_format=True)
    assert np.array_equal(read(path).magnitude, was.magnitude)  # type: ignore[union-attr]
