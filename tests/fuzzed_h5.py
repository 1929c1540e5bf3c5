"""HDF5 files that bytes decide on: whole for the library, odd for those who read what is in it.

An honest file is changed in a few places: shapes, dtypes, storage, links, attributes, texts, lines. The same bytes give
the same file, so that what a fuzzer finds can be a test.
"""

import math
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import h5py
import numpy as np

from reader_files import acquisition_dtype, header_xml, random_kspace

SIZES = (0, 1, 2, 3, 7, 8, 9, 16, 17, 24, 25)
DTYPES = (
    "<c8", "<c16", ">c8", "<f4", "<f8", "<f2", ">f4", "<i2", "<i4", "<i8", "<u1", "<u8", "?", "S5", "V8",
    np.dtype([("real", "<f4"), ("imag", "<f4")]), np.dtype([("r", "<f8"), ("i", "<f8")]), np.dtype([("a", "<i4")]),
    np.dtype([("real", "<f4", (3,)), ("imag", "<f4", (3,))]), np.dtype(("<f4", (2,))),
    h5py.string_dtype(), h5py.vlen_dtype(np.float32), h5py.ref_dtype, h5py.enum_dtype({"a": 0, "b": 1}),
)  # fmt: skip
NAMES = (
    "kspace", "mask", "ismrmrd_header", "reconstruction_rss", "reconstruction_esc", "reconstruction", "image", "target",
    "uncertainty_std", "error_bound", "error_std", "zero_filled", "samples", "kspace_mean", "kspace_std", "visibility",
    "messages", "dataset", "data", "xml", "sensitivities", "x\x1b[31m\n", "膝",
)  # fmt: skip
ATTRIBUTES = (
    "max", "norm", "patient_id", "acquisition", "affine", "voxel_mm", "dicom", "provenance", "checksums", "level",
    "notes", "warnings", "bound_note", "guarantee", "expected_psnr", "scale", "visible_from", "licence", "source",
)  # fmt: skip
TEXTS = (
    "", "\x1b]0;x\x07", "a\nb", "{", "{}", "[" * 2000, '{"config": {"samples": 1e999}}', '{"config": {"samples": -3}}',
    '{"of": {"": "x"}, "sha256": 3}', '{"PatientName": {"a": 1}}', "nan", "\u202e", "9" * 5000, "é" * 300,
)  # fmt: skip
NUMBERS = (0.0, -1.0, 1.0, 0.5, 1e38, 1e300, -1e300, 1e-40, np.nan, np.inf, -np.inf, 2.0**31, 2.0**63)
UNWRITTEN = (ValueError, TypeError, OSError, RuntimeError, KeyError, AttributeError, OverflowError, MemoryError)
HUGE = ((1, 2**20, 2**20), (2**31, 8, 8), (2**40,), (1, 1, 2**16, 2**16), (2**62, 2, 2))


class Dice:
    """Numbers from bytes; zeros when they are used up."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    @property
    def left(self) -> int:
        return len(self.data) - self.at

    def below(self, n: int) -> int:
        width = 1 if n <= 256 else 4
        part = self.take(width)
        return int.from_bytes(part.ljust(width, b"\0"), "little") % n

    def pick(self, some: Any) -> Any:
        return some[self.below(len(some))]

    def take(self, n: int) -> bytes:
        part = self.data[self.at : self.at + n]
        self.at += n
        return part

    def text(self) -> str:
        if self.below(2):
            return str(self.pick(TEXTS))
        return self.take(self.below(24)).decode("utf-8", "replace")

    def shape(self) -> tuple[int, ...]:
        sizes = [self.pick(SIZES) for _ in range(self.below(6))]
        while math.prod(sizes) > 5000:
            sizes.pop()
        return tuple(sizes)


def fastmri(dice: Dice, path: Path) -> Path:
    u = random_kspace(2, 2, 16, 18)
    with h5py.File(path, "w") as file:
        file["kspace"], file["mask"] = u, np.ones(18)
        file["ismrmrd_header"] = _scratched(dice, header_xml(16, 18))
        file["reconstruction_rss"] = abs(u[:, 0])
        file.attrs.update({"max": 1.0, "acquisition": "AXT2"})
        _changed(dice, file)
    return path


def mrd(dice: Dice, path: Path) -> Path:
    u, head = random_kspace(2, 16, 18), acquisition_dtype()["head"]
    lines = np.zeros(18, dtype=acquisition_dtype())
    for w in range(18):
        lines[w]["head"]["number_of_samples"], lines[w]["head"]["center_sample"] = 16, 8
        lines[w]["head"]["active_channels"] = lines[w]["head"]["available_channels"] = 2
        lines[w]["head"]["idx"]["kspace_encode_step_1"] = w
        lines[w]["traj"] = np.zeros(0, np.float32)
        lines[w]["data"] = u[:, :, w].copy().view(np.float32).reshape(-1)
    for _ in range(dice.below(8)):
        w = dice.below(18)
        kind = dice.below(4)
        if kind == 0:
            raw = bytearray(lines[w]["head"].tobytes())
            place, part = dice.below(len(raw)), dice.take(1 + dice.below(8))
            raw[place : place + len(part)] = part
            lines[w]["head"] = np.frombuffer(bytes(raw[: head.itemsize]), head)[0]
        elif kind == 1:
            lines[w]["data"] = np.full(dice.below(80), dice.pick(NUMBERS[:5]), np.float32)
        elif kind == 2:
            lines[w]["traj"] = np.full(dice.below(40), dice.pick(NUMBERS), np.float32)
        else:
            name = dice.pick((head.names or ())[:-3])
            field = lines[w]["head"][name]
            lines[w]["head"][name] = np.full(field.shape, dice.below(70_000)).astype(field.dtype)
    with h5py.File(path, "w") as file:
        text = _scratched(dice, header_xml(16, 18))
        file.create_dataset("dataset/xml", data=np.array([text], dtype=object), dtype=h5py.string_dtype())
        file.create_dataset("dataset/data", data=lines)
        _changed(dice, file["dataset"] if dice.below(2) else file)
    return path


def result(dice: Dice, path: Path) -> Path:
    image = np.abs(random_kspace(2, 16, 18)).astype(np.float32)
    with h5py.File(path, "w") as file:
        for name in ("reconstruction", "uncertainty_std", "error_bound", "target", "visibility/lesion:3:0.3"):
            file[name] = image
        file["samples"], file["mask"] = np.stack([image] * 3, axis=1), np.ones(18, bool)
        file["kspace_mean"], file["kspace_std"] = random_kspace(2, 1, 16, 18), image[:, None]
        file["error_bound"].attrs["level"] = 0.9
        file.attrs["provenance"] = '{"command": "recon", "config": {"model": "tdv-r4", "samples": 3}}'
        _changed(dice, file)
    return path


def _scratched(dice: Dice, text: str) -> str:
    """The text of a header with a few values changed; seldom any place overwritten."""
    for _ in range(dice.below(4)):
        values = [found.span(1) for found in re.finditer(r">([^<>\s]+)<", text)]
        start, end = dice.pick(values)
        if dice.below(8) == 7:
            start = dice.below(len(text))
            end = start + dice.below(20)
        put = dice.text() if dice.below(3) == 2 else str(dice.pick((*NUMBERS, *SIZES, 65535, 65536, 10**30)))
        text = text[:start] + escape(put.replace("\0", "")) + text[end:]
    return text


def _changed(dice: Dice, file: Any) -> None:
    steps: tuple[Callable[[Dice, Any], None], ...] = (_dataset, _dataset, _attribute, _attribute, _link)
    for _ in range(12):
        if dice.left <= 0:
            break
        with suppress(*UNWRITTEN):
            dice.pick(steps)(dice, file)


def _dataset(dice: Dice, file: Any) -> None:
    name, dtype, shape = dice.pick(NAMES), np.dtype(dice.pick(DTYPES)), dice.shape()
    how = dice.below(10)
    if how == 0:
        _replace(
            file, name, lambda: file.create_dataset(name, dice.pick(HUGE), dtype, chunks=dice.below(2) == 0 or None)
        )
    elif how == 1:
        _replace(file, name, lambda: file.create_dataset(name, data=h5py.Empty(dtype)))
    elif how == 2:
        _replace(file, name, lambda: file.create_dataset(name, data=dice.text()))
    else:
        shape = file[name].shape if how > 6 and isinstance(file.get(name), h5py.Dataset) else shape
        data = _values(dice, dtype, shape)
        more: dict[str, Any] = dice.pick(({}, {}, {"compression": "gzip", "shuffle": True}, {"compression": "lzf"}))
        _replace(file, name, lambda: file.create_dataset(name, data=data, dtype=dtype, **more))


def _values(dice: Dice, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
    n = int(np.prod(shape))
    if dtype.kind in "fciub" and dtype.names is None and dtype.subdtype is None:
        with np.errstate(all="ignore"):
            if dice.below(2):
                return np.resize(np.array([dice.pick(NUMBERS) for _ in range(1 + dice.below(3))]), shape).astype(dtype)
            values = random_kspace(1, 1, max(n, 1))[0, 0, :n].reshape(shape)
            return (values if dtype.kind == "c" else abs(values)).astype(dtype)
    if dtype.kind == "O":
        return np.array([dice.text() for _ in range(n)], dtype=object).reshape(shape)
    raw = dice.take(64).ljust(64, b"\1")
    return np.frombuffer((raw * (n * dtype.itemsize // 64 + 1))[: n * dtype.itemsize], dtype).reshape(shape)


def _attribute(dice: Dice, file: Any) -> None:
    owner = file.get(dice.pick(NAMES)) if dice.below(2) else file
    owner, name, how = file if owner is None else owner, dice.pick(ATTRIBUTES), dice.below(6)
    if how < 2 and (name != "checksums" or dice.below(4) == 3):
        owner.attrs[name] = dice.text()
    elif how == 2:
        owner.attrs[name] = dice.pick(NUMBERS)
    elif how == 3:
        owner.attrs[name] = np.full(dice.pick(((4, 4), (3,), (2, 4, 4), (0,), (1,))), dice.pick(NUMBERS))
    elif how == 4:
        owner.attrs[name] = dice.take(dice.below(20))
    elif name != "checksums" or dice.below(4) == 3:
        owner.attrs.create(name, _values(dice, np.dtype(dice.pick(DTYPES)), dice.shape()))


def _link(dice: Dice, file: Any) -> None:
    name = dice.pick(NAMES)
    made = (
        lambda: file.__setitem__(name, h5py.SoftLink(dice.pick(("/", f"/{name}", "/kspace", "/nowhere", "")))),
        lambda: file.__setitem__(name, h5py.ExternalLink("/etc/passwd", "/")),
        lambda: file.__setitem__(name, file),  # a group in itself
        lambda: file.create_group(name),
        lambda: file.__setitem__(name, np.dtype("f4")),
        lambda: None,
    )
    _replace(file, name, dice.pick(made))


def _replace(file: Any, name: str, make: Callable[[], Any]) -> None:
    if name in file or file.get(name, getlink=True, default=None) is not None:
        del file[name]
    make()


KINDS: dict[str, Callable[[Dice, Path], Path]] = {"fastmri": fastmri, "mrd": mrd, "result": result}
