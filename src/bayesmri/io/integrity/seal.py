"""Checksums inside an HDF5 file of ours: of every dataset and of every attribute, so that damage is seen before use.

The attribute `checksums` of the file is JSON: {"of": {"reconstruction": sha256, "reconstruction@notes": …}, "sha256":
of all of these}. It shows damage and edits; whoever forges a file can forge it too.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

import h5py
import numpy as np

from bayesmri.bounded import json_of, one_line
from bayesmri.errors import FormatError
from bayesmri.io.safe_h5 import check_size, dataset, member

SEAL = "checksums"
LONGEST = 2**20  # bytes of the JSON text
SLAB = 2**24  # bytes that are hashed at a time


def seal(file: Any) -> None:
    """Enters the checksums of all that an open file holds."""
    found = dict(_found(file))
    file.attrs[SEAL] = json.dumps({"of": found, "sha256": _over(found)})


def check_seal(file: Any) -> bool:
    """Whether an open file has checksums; a FormatError where something does not match its own."""
    if SEAL not in file.attrs:
        return False
    name = one_line(file.filename.rpartition("/")[2] if isinstance(file.filename, str) else "the file")
    for place, digest in _entered(file, name).items():
        key, _, attribute = place.partition("@")
        owner = file if not key else _member(file, key)
        found = None
        if owner is not None:
            found = _of_attribute(owner, attribute) if attribute else _of_dataset(owner)
        if found != digest:
            raise FormatError(
                f"`{one_line(place)}` in {name} is not what was written: its checksum differs; copy the file again, or "
                f"make it again (if you changed it yourself, delete its attribute `{SEAL}`)"
            )
    return True


def _entered(file: Any, name: str) -> Mapping[str, str]:
    """The checksums as they stand in the file."""
    try:
        text = file.attrs[SEAL]
        coded = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else bytes(text)
        if len(coded) > LONGEST:
            raise ValueError("too long")
        value = json_of(coded)
        of = value["of"]
        if value["sha256"] != _over(of) or not all(isinstance(digest, str) for digest in of.values()):
            raise ValueError("not its own")
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise FormatError(f"the checksums of {name} are damaged: copy the file again, or make it again") from error
    return dict(of)


def _over(found: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()


def _found(file: Any) -> Iterator[tuple[str, str]]:
    """Places, `name` or `name@attribute`, and their checksums."""
    owners = {"": file}
    file.visititems(lambda key, owner: owners.update({key: owner}) or None)
    for key, owner in sorted(owners.items()):
        if isinstance(owner, h5py.Dataset):
            yield key, str(_of_dataset(owner))
        for attribute in sorted(owner.attrs):
            if (key, attribute) != ("", SEAL):
                yield f"{key}@{attribute}", str(_of_attribute(owner, attribute))


def _member(file: Any, key: str) -> Any:
    """The object of a path of hard links, None where there is none."""
    owner = file
    for part in key.split("/"):
        if not isinstance(owner, h5py.Group) or part not in owner:
            return None
        owner = member(owner, part)
    return dataset(owner.parent, key.rpartition("/")[2]) if isinstance(owner, h5py.Dataset) else owner


def _of_dataset(data: Any) -> str | None:
    if not isinstance(data, h5py.Dataset):
        return None
    digest = hashlib.sha256(f"{data.dtype.str}{data.shape}".encode())
    if data.dtype.hasobject or data.ndim == 0:
        digest.update(_bytes(data[()]))
        return digest.hexdigest()
    check_size(data.parent, data.name.rpartition("/")[2], data, ndim=tuple(range(1, 33)))
    rows = max(1, SLAB // max(1, data.dtype.itemsize * int(np.prod(data.shape[1:], dtype=object))))
    for start in range(0, len(data), rows):
        digest.update(np.ascontiguousarray(data[start : start + rows]).tobytes())
    return digest.hexdigest()


def _of_attribute(owner: Any, name: str) -> str | None:
    if name not in owner.attrs:
        return None
    value = owner.attrs[name]
    kind = "text" if isinstance(value, str | bytes) else f"{np.asarray(value).dtype.str}{np.shape(value)}"
    return hashlib.sha256(kind.encode() + _bytes(value)).hexdigest()


def _bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, bytes):
        return value
    array = np.asarray(value)
    return b"".join(map(_bytes, array.reshape(-1).tolist())) if array.dtype.hasobject else array.tobytes()
