"""Broken and hostile files: always a BayesMRIError of one line, at once, and nothing of the machine is touched."""

import gzip
import io
import os
import struct
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest

from bayesmri.errors import BayesMRIError, ConfigError, DataError, FormatError, ShapeError
from bayesmri.io.formats import read, sniff
from hostile_writers import RNG, WRITERS, Writer, fastmri, images, mrd, nibabel, npz, packed
from reader_files import header_xml, mrd_line, random_kspace, write_cfl, write_h5, write_mrd


def refused(path: Path, kind: type[BayesMRIError] = BayesMRIError) -> str:
    """The one line with which `path` is refused."""
    with pytest.raises(kind) as caught:
        read(path)
    message = str(caught.value)
    assert message
    assert message.isprintable()  # neither a newline nor an escape
    return message


@pytest.mark.parametrize("write", WRITERS)
def test_whole_files_are_read(tmp_path: Path, write: Writer) -> None:
    read(write(tmp_path))


@pytest.mark.parametrize("write", WRITERS)
def test_truncation_is_refused_everywhere(tmp_path: Path, write: Writer) -> None:
    path = write(tmp_path)
    whole = path.read_bytes()
    for percent in range(100):
        path.write_bytes(whole[: len(whole) * percent // 100])
        refused(path, FormatError)
    path.write_bytes(whole[:-1])
    if write not in (fastmri, packed, mrd, images, npz):  # those end in padding or a comment that may be spared
        refused(path, FormatError)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_no_numbers_are_refused(tmp_path: Path, bad: float) -> None:
    u = random_kspace(2, 24, 25)
    u[1, 3, 4] = bad
    np.save(tmp_path / "a.npy", u)
    lines = [mrd_line(u[:, :, w], w) for w in range(25)]
    volume = np.ones((2, 24, 25), np.float32)
    volume[1, 1, 1] = bad
    for path in (
        write_h5(tmp_path / "a.h5", {"kspace": u}),
        write_h5(tmp_path / "t.h5", {"kspace": random_kspace(2, 24, 25), "reconstruction_esc": volume}),
        write_h5(tmp_path / "i.h5", {"image": volume}),
        write_mrd(tmp_path / "m.h5", header_xml(24, 25), lines),
        write_cfl(tmp_path / "c", u.transpose(1, 2, 0)[:, :, None]),
        tmp_path / "a.npy",
    ):
        assert "NaN or Inf" in refused(path, DataError)


@pytest.mark.parametrize("shape", [(1, 0, 24, 25), (0, 2, 24, 25), (1, 1, 1, 1), (1, 2, 24, 1), (1, 2, 0, 25)])
def test_empty_and_tiny_grids_are_refused(tmp_path: Path, shape: tuple[int, ...]) -> None:
    np.save(tmp_path / "a.npy", np.ones(shape, np.complex64))
    refused(tmp_path / "a.npy", ShapeError)
    refused(write_h5(tmp_path / "a.h5", {"kspace": np.ones(shape, np.complex64)}), ShapeError)


def test_zero_channels_are_refused(tmp_path: Path) -> None:
    lines = [mrd_line(np.zeros((0, 24), np.complex64), w) for w in range(25)]
    assert "no channels" in refused(write_mrd(tmp_path / "a.h5", header_xml(24, 25), lines), DataError)


@pytest.mark.parametrize("name", ["kspace", "mask", "ismrmrd_header", "reconstruction_esc", "image"])
@pytest.mark.parametrize("kind", ["soft", "external", "storage", "virtual", "group"])
def test_hdf5_that_leads_elsewhere_is_refused(tmp_path: Path, name: str, kind: str) -> None:
    secret = write_h5(tmp_path / "secret.h5", {"x": random_kspace(1, 24, 25)})
    path = write_h5(tmp_path / "a.h5", {} if name in ("kspace", "image") else {"kspace": random_kspace(1, 24, 25)})
    with h5py.File(path, "a") as file:
        if kind == "soft":
            file["y"] = random_kspace(1, 24, 25)
            file[name] = h5py.SoftLink("/y")
        elif kind == "external":
            file[name] = h5py.ExternalLink(str(secret), "/x")
        elif kind == "storage":
            file.create_dataset(name, (1, 24, 25), dtype=np.complex64, external=[(str(secret), 0, 4800)])
        elif kind == "virtual":
            layout = h5py.VirtualLayout((1, 24, 25), dtype=np.complex64)
            layout[:] = h5py.VirtualSource(str(secret), "x", shape=(1, 24, 25))
            file.create_virtual_dataset(name, layout)
        else:
            file.create_group(name)
    words = {
        "soft": "SoftLink",
        "external": "ExternalLink",
        "storage": "external file",
        "virtual": "virtual",
        "group": "group",
    }
    assert words[kind] in refused(path, FormatError)


def test_mrd_behind_links_is_refused(tmp_path: Path) -> None:
    whole = mrd(tmp_path)
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["dataset"] = h5py.ExternalLink(str(whole), "/dataset")
    refused(tmp_path / "b.h5", FormatError)
    for name in ("xml", "data"):
        with h5py.File(tmp_path / "c.h5", "w") as file, h5py.File(whole) as source:
            source.copy("dataset", file)
            del file["dataset"][name]
            file["dataset"][name] = h5py.ExternalLink(str(whole), f"/dataset/{name}")
        assert "ExternalLink" in refused(tmp_path / "c.h5", FormatError)


def test_51_terabytes_in_a_small_file_are_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("kspace", (50, 20, 80_000, 80_000), dtype=np.complex64, chunks=(1, 1, 1000, 1000))
    assert (tmp_path / "a.h5").stat().st_size < 10_000
    assert "51.2 TB" in refused(tmp_path / "a.h5", FormatError)


def test_claims_within_the_budget_must_be_backed_by_bytes(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("kspace", (1, 1, 20_000, 20_000), dtype=np.complex64, chunks=(1, 1, 1000, 1000))
    assert "stored" in refused(tmp_path / "a.h5", FormatError)
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file.create_dataset("kspace", (1, 24, 25), dtype=np.complex64)
    assert "never written" in refused(tmp_path / "b.h5", FormatError)


def test_foreign_hdf5_filters_are_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((1, 24, 25))
        plist.set_filter(32015, h5py.h5z.FLAG_OPTIONAL, ())
        space = h5py.h5s.create_simple((1, 24, 25))
        h5py.h5d.create(file.id, b"kspace", h5py.h5t.py_create(np.dtype("c8")), space, plist)
    assert "filter 32015" in refused(tmp_path / "a.h5", FormatError)


def test_the_budget_can_be_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = fastmri(tmp_path)
    monkeypatch.setenv("BAYESMRI_MAX_BYTES", "1000")
    assert "BAYESMRI_MAX_BYTES" in refused(path, FormatError)
    read(path, budget=10**6)
    monkeypatch.setenv("BAYESMRI_MAX_BYTES", "a lot")
    refused(path, ConfigError)


class Trap:
    """Unpickling this creates a file: the proof that nothing was unpickled is that there is none."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.path),)


def test_pickles_are_never_opened(tmp_path: Path) -> None:
    trap = np.array([Trap(tmp_path / "sprung")], dtype=object)
    np.save(tmp_path / "a.npy", trap, allow_pickle=True)
    np.savez(tmp_path / "a.npz", kspace=trap)
    assert "dtype object" in refused(tmp_path / "a.npy", FormatError)
    assert "dtype object" in refused(tmp_path / "a.npz", FormatError)
    assert not (tmp_path / "sprung").exists()


def npy_header(text: str) -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


@pytest.mark.parametrize(
    "text",
    [
        "{'descr': '<c8', 'fortran_order': False, 'shape': (99999999, 99999999), }\n",
        "{'descr': '<c8', 'fortran_order': False, 'shape': (-1, 16, 16), }\n",
        "{'descr': '<c8', 'fortran_order': False, 'shape': (True, 16, 16), }\n",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (16, 16), }\n",
        "{'descr': 'nonsense', 'fortran_order': False, 'shape': (16, 16), }\n",
        "__import__('os').getcwd()\n",
        "(" * 5000 + "\n",
        "",
    ],
)
def test_npy_headers_that_lie_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.npy").write_bytes(npy_header(text) + b"\0" * 1024)
    refused(tmp_path / "a.npy", FormatError)


def test_decompression_bombs_are_refused(tmp_path: Path) -> None:
    shape = (1, 1, 4096, 4096)
    start = npy_header(f"{{'descr': '<c8', 'fortran_order': False, 'shape': {shape}, }}\n")
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("kspace.npy", start + bytes(8 * 4096 * 4096))
    assert "bomb" in refused(tmp_path / "a.npz", FormatError)
    stream = io.BytesIO()
    header = nibabel.Nifti1Header()
    header.set_data_shape((8192, 8192, 4))
    header["magic"] = b"n+1"
    header.write_to(stream)
    (tmp_path / "a.nii.gz").write_bytes(gzip.compress(stream.getvalue() + bytes(10_000)))
    assert "bomb" in refused(tmp_path / "a.nii.gz", FormatError)


def test_zip_without_arrays_is_refused(tmp_path: Path) -> None:
    for names in ([], ["x.txt"], ["a.npy", "b.npy"]):
        with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
            for name in names:
                archive.writestr(name, b"hello")
        refused(tmp_path / "a.npz", FormatError)


@pytest.mark.parametrize(
    "xml",
    [
        '<!DOCTYPE h [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><h>&b;</h>',
        '<!doctype h SYSTEM "file:///etc/hostname"><h/>',
        "<a>" * 200_000,
        "<a>" * 20_000 + "</a>" * 20_000,
        "\0\0\0",
        "",
    ],
)
def test_hostile_xml_is_refused(tmp_path: Path, xml: str) -> None:
    lines = [mrd_line(random_kspace(1, 24), w) for w in range(25)]
    refused(write_mrd(tmp_path / "m.h5", xml.replace("\0", "?"), lines), FormatError)
    stored = np.bytes_(xml.encode() or b" ")
    refused(write_h5(tmp_path / "f.h5", {"kspace": random_kspace(1, 24, 25), "ismrmrd_header": stored}), FormatError)


def test_a_header_that_is_no_text_is_refused(tmp_path: Path) -> None:
    for value in (np.ones(3), np.array([b"a", b"b"])):
        path = write_h5(tmp_path / "f.h5", {"kspace": random_kspace(1, 24, 25), "ismrmrd_header": value})
        assert "not a text" in refused(path, FormatError)


def test_strings_of_files_cannot_speak_to_the_terminal(tmp_path: Path) -> None:
    attributes = {"acquisition": "a\x1b[31m\nb", "patient_id": "x" * 5000, "max": "?", "affine": "no"}
    header = read(write_h5(tmp_path / "a.h5", {"kspace": random_kspace(1, 24, 25)}, attributes)).header
    assert header.acquisition.isprintable()
    assert len(header.patient_id) <= 200
    evil = write_h5(tmp_path / "evil\x1b[31m\nname.h5", {"\x1b[31m\nx": np.ones(3)})
    refused(evil, FormatError)


def test_what_is_no_file_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "empty").touch()
    for path in (
        *tmp_path.iterdir(),
        tmp_path,
        tmp_path / "missing",
        Path("/dev/zero"),
        Path("a\0b"),
        Path("a" * 5000),
    ):
        refused(path, FormatError)


def test_noise_and_text_are_of_no_known_format(tmp_path: Path) -> None:
    for i, content in enumerate((b"\0" * 5000, bytes(RNG.integers(0, 256, 5000, dtype=np.uint8)), b"hello\n" * 100)):
        (tmp_path / f"{i}.h5").write_bytes(content)
        with pytest.raises(FormatError, match="no known format"):
            sniff(tmp_path / f"{i}.h5")
