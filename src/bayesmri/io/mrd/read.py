"""Read an MRD file: its header and its acquisitions, which `sort.py` makes k-space of."""

from pathlib import Path
from typing import Any

import h5py

from bayesmri.errors import FormatError
from bayesmri.io.guard import one_line
from bayesmri.io.ismrmrd_xml import parse_header
from bayesmri.io.mrd.choice import FIRST, Choice
from bayesmri.io.mrd.sort import sort_lines
from bayesmri.io.mrd.source import Stored
from bayesmri.io.mrd.trajectory import check_trajectory
from bayesmri.io.safe_h5 import member, names, open_h5, read_text, where
from bayesmri.kspace import KSpace


def mrd_group(file: Any) -> str | None:
    """The top-level group that holds `xml` and `data`; None where there is none."""
    found = [name for name in names(file) if _is_mrd(file, name)]
    if len(found) > 1 and "dataset" not in found:
        raise FormatError(
            f"the MRD file holds the groups {one_line(', '.join(found))}, expected one group; split it with h5copy"
        )
    return "dataset" if "dataset" in found else found[0] if found else None


def read_mrd(path: Path, *, budget: int | None = None, choice: Choice = FIRST) -> KSpace:
    """z (slices, Q, H, W), as `sort_lines` makes it of all lines of the file."""
    with open_h5(path) as file:
        name = mrd_group(file)
        if name is None:
            raise FormatError(f"{one_line(path)} is no MRD file, expected a group with `xml` and `data`")
        group = member(file, name)
        encoding = parse_header(read_text(group, "xml"), name=where(group, "xml"))
        check_trajectory(encoding)
        return sort_lines(Stored.of(group, budget=budget), encoding, budget=budget, choice=choice).kspace


def _is_mrd(file: Any, name: str) -> bool:
    hard = isinstance(file.get(name, getlink=True), h5py.HardLink)
    group = file[name] if hard else None
    return isinstance(group, h5py.Group) and {"xml", "data"} <= set(names(group))
