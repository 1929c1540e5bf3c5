"""A stored result written anew without its patient: every array as it was, every word looked through."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesmri.io.apart.reading import reading
from bayesmri.io.privacy.anonymous import Cleaned, cleaned
from bayesmri.io.results import GROUP, open_result
from bayesmri.io.safe_h5 import MESSAGES, dataset, names, small_attributes
from bayesmri.io.write_h5 import write_reconstruction
from bayesmri.kspace import Header
from bayesmri.messages import Messages

SAID = ("notes", "warnings")  # attributes that are written from the messages


@dataclass(frozen=True)
class Stored:
    """All of a result. about: attributes of datasets, by their names."""

    arrays: dict[str, NDArray[Any]]
    about: dict[str, dict[str, Any]]
    header: Header
    provenance: dict[str, Any]
    said: Messages


def write_anonymous(path: Path, out: Path, *, trusted: bool) -> tuple[str, ...]:
    """The file of `recon` to another one without what identifies a patient; what that was, in words."""
    found = reading(lambda: _read(path), path, trusted=trusted)
    bare = cleaned(found.header, found.provenance, found.said)
    write_reconstruction(
        out,
        found.arrays,
        header=bare.header,
        provenance=bare.provenance,
        about={name: _texts(values, bare) for name, values in found.about.items()},
        said=bare.said,
    )
    return bare.removed


def _texts(values: dict[str, Any], bare: Cleaned) -> dict[str, object]:
    return {
        name: bare.text(value) if isinstance(value, str) else value
        for name, value in values.items()
        if name not in SAID
    }


def _read(path: Path) -> Stored:
    with open_result(path) as result:
        file = result.file
        places = {key: (file, key) for key in names(file) if key not in (MESSAGES, GROUP)}
        if GROUP in names(file):
            places |= {f"{GROUP}/{key}": (file[GROUP], key) for key in names(file[GROUP])}
        arrays = {name: np.asarray(dataset(*place)[()]) for name, place in places.items()}
        about = {name: small_attributes(dataset(*place)) for name, place in places.items()}
        return Stored(arrays, about, result.header, result.provenance, result.said)
