"""HDF5 from strangers: hard links, storage, dtype and size are checked before any array is read."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from bayesmri.errors import FormatError
from bayesmri.io.guard import byte_budget, check_bytes, damaged_as_format_error, one_line, regular_file
from bayesmri.io.layout.numbers import as_complex, is_number
from bayesmri.messages import Messages

MAX_TEXT = 16 * 2**20
MESSAGES = "messages"  # group of notes and warnings in files of our own
MOST_MESSAGES, MESSAGE_MAX = 200, 2000  # of each level, and characters of one
# deflate, shuffle, fletcher32, szip, n-bit, scale-offset, lzf: what HDF5 and h5py bring along. Any other filter would
# make HDF5 look for a plugin, a shared library, on the machine.
FILTERS = frozenset({1, 2, 3, 4, 5, 6, 32000})


@contextmanager
def open_h5(path: Path) -> Iterator[Any]:
    """The open file; any error of HDF5 inside the block is reported as damage of `path`."""
    regular_file(path)
    with damaged_as_format_error(path), h5py.File(path, "r") as file:
        yield file


def names(group: Any) -> tuple[str, ...]:
    return tuple(str(name) for name in group)


def member(group: Any, name: str) -> Any:
    """The object under a hard link: soft and external links can point to other files of the machine."""
    link = group.get(name, getlink=True)
    if not isinstance(link, h5py.HardLink):
        raise FormatError(
            f"{where(group, name)} is a {type(link).__name__}, expected the data itself in the file; "
            "repack it with h5repack or h5copy"
        )
    return group[name]


def dataset(group: Any, name: str) -> Any:
    """A dataset whose bytes lie in this file, without virtual sources, external storage or foreign filters."""
    found = member(group, name)
    label = where(group, name)
    if not isinstance(found, h5py.Dataset):
        raise FormatError(f"{label} is a {type(found).__name__.lower()}, expected a dataset")
    if found.is_virtual or found.external is not None:
        kind = "virtual" if found.is_virtual else "stored in an external file"
        raise FormatError(f"{label} is {kind}, expected the data itself in the file; repack it with h5repack")
    if found.shape is None:
        raise FormatError(f"{label} is an empty dataset, expected an array")
    plist = found.id.get_create_plist()
    used = {plist.get_filter(i)[0] for i in range(plist.get_nfilters())}
    if used - FILTERS:
        raise FormatError(
            f"{label} is compressed with HDF5 filter {min(used - FILTERS)}, "
            "expected gzip, lzf, szip or none; use h5repack -f GZIP=4"
        )
    return found


def where(group: Any, name: str) -> str:
    inside = f"{group.name.rstrip('/')}/{name}".lstrip("/")
    return f"`{one_line(inside)}` in {one_line(Path(group.file.filename).name)}"


def read_complex(group: Any, name: str, *, budget: int | None = None) -> tuple[NDArray[np.complex64], tuple[str, ...]]:
    """A complex dataset of any axes as complex64, and notes; pairs of reals, however they are stored, are joined."""
    data = dataset(group, name)
    if not is_number(data.dtype):
        raise FormatError(
            f"{where(group, name)} has dtype {one_line(data.dtype, limit=60)}, expected complex64 or complex128 "
            "k-space; real and imaginary parts belong into one complex array"
        )
    raw = _read(group, name, data, ndim=tuple(range(2, 17)), axes="", budget=budget)
    return as_complex(raw, name=where(group, name))


def read_real(
    group: Any, name: str, *, ndim: tuple[int, ...], axes: str = "", budget: int | None = None
) -> NDArray[Any]:
    """A dataset of booleans, integers or floats, in the dtype it is stored in. axes: in words."""
    data = dataset(group, name)
    if data.dtype.kind not in "buif" or data.dtype.itemsize > 8:
        raise FormatError(
            f"{where(group, name)} has dtype {one_line(data.dtype, limit=60)}, "
            "expected real numbers (an integer or float dtype)"
        )
    return _read(group, name, data, ndim=ndim, axes=axes, budget=budget)


def read_text(group: Any, name: str) -> str:
    """One string: a scalar or a dataset of a single entry, at most 16 MB."""
    data = dataset(group, name)
    kind = h5py.check_string_dtype(data.dtype)
    if kind is None or data.size != 1 or (kind.length or 0) > MAX_TEXT:
        raise FormatError(f"{where(group, name)} is not a text, expected one string of at most 16 MB")
    value = data[()]
    text = value if isinstance(value, str | bytes) else value.reshape(-1)[0]
    if len(text) > MAX_TEXT:
        raise FormatError(f"{where(group, name)} holds {len(text)} characters, expected at most 16 MB of text")
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)


def stored_messages(file: Any) -> Messages:
    """Notes and warnings of a file that this package wrote; none where there are none, or what is there is no text."""
    link = file.get(MESSAGES, getlink=True)
    group = file[MESSAGES] if isinstance(link, h5py.HardLink) else None
    return Messages(*(_texts(group, level) for level in ("notes", "warnings")))


def _texts(group: Any, name: str) -> tuple[str, ...]:
    if not isinstance(group, h5py.Group) or not isinstance(group.get(name, getlink=True), h5py.HardLink):
        return ()
    try:
        data = dataset(group, name)
    except FormatError:
        return ()
    kind = h5py.check_string_dtype(data.dtype)
    if kind is None or kind.length is None or kind.length > 4 * MESSAGE_MAX or data.ndim != 1 or not data.size:
        return ()
    found = data[:MOST_MESSAGES]
    return tuple(one_line(text.decode("utf-8", "replace"), limit=MESSAGE_MAX) for text in found)


def text_attribute(owner: Any, name: str, *, limit: int = 200) -> str:
    """A string (or scalar number) attribute as one clean line; "" where there is none."""
    attribute = _small_attribute(owner, name)
    if attribute is None or attribute.size != 1:
        return ""
    value = attribute.reshape(-1)[0]
    return one_line(value.decode("utf-8", "replace") if isinstance(value, bytes) else value, limit=limit)


def number_attribute(owner: Any, name: str, *, shape: tuple[int, ...]) -> NDArray[np.float64] | None:
    """A finite numeric attribute of exactly this shape, or None."""
    attribute = _small_attribute(owner, name)
    if attribute is None or attribute.dtype.kind not in "uif" or attribute.shape != shape:
        return None
    value = attribute.astype(np.float64)
    return value if np.isfinite(value).all() else None


def small_attributes(owner: Any) -> dict[str, Any]:
    """All texts and numbers that are attributes, as plain values; large ones and other kinds are left out."""
    found = {str(name): _small_attribute(owner, name) for name in owner.attrs}
    return {name: _plain(value) for name, value in found.items() if value is not None}


def _plain(value: NDArray[Any]) -> Any:
    flat = [one.decode("utf-8", "replace") if isinstance(one, bytes) else one for one in value.reshape(-1).tolist()]
    return flat if value.ndim else flat[0]


def to_complex64(array: NDArray[Any]) -> NDArray[np.complex64]:
    with np.errstate(over="ignore", invalid="ignore"):  # an overflow becomes Inf, which check_finite reports
        return np.ascontiguousarray(array, dtype=np.complex64)


def _small_attribute(owner: Any, name: str) -> NDArray[Any] | None:
    if name not in owner.attrs:
        return None
    kind = owner.attrs.get_id(name)
    is_text = h5py.check_string_dtype(kind.dtype) is not None
    if (
        not (is_text or kind.dtype.kind in "buif")
        or int(np.prod(kind.shape, dtype=object)) * kind.dtype.itemsize > 2**16
    ):
        return None
    return np.asarray(owner.attrs[name])


def _read(group: Any, name: str, data: Any, *, ndim: tuple[int, ...], axes: str, budget: int | None) -> NDArray[Any]:
    check_size(group, name, data, ndim=ndim, axes=axes, budget=budget)
    return np.asarray(data[()])


def check_size(
    group: Any, name: str, data: Any, *, ndim: tuple[int, ...], axes: str = "", budget: int | None = None
) -> None:
    """A dataset with so many axes, within the budget, and really stored."""
    label = where(group, name)
    if data.ndim not in ndim:
        wanted = " or ".join(str(n) for n in ndim)
        raise FormatError(f"{label} has shape {data.shape}, expected {wanted} axes{axes and f', {axes}'}")
    stored = data.id.get_storage_size()
    claimed = check_bytes(label, data.shape, data.dtype.itemsize, stored=stored, budget=byte_budget(budget))
    if data.chunks is not None:  # HDF5 unpacks whole chunks, which may be larger than what is asked of them
        check_bytes(f"a chunk of {label}", data.chunks, data.dtype.itemsize, stored=stored, budget=byte_budget(budget))
    if claimed and not stored:
        raise FormatError(f"{label} claims shape {data.shape} but was never written: the file is empty; write it again")
