"""Identifiers that follow from the content: the same result has the same ones, another result has others."""

import hashlib
import uuid
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray


def uid(*parts: str) -> str:
    """ "2.25." and the decimal number of a UUID, as PS3.5 B.2 has it, here of a digest of the parts."""
    digest = hashlib.sha256("\0".join(parts).encode(errors="surrogateescape")).digest()
    return f"2.25.{uuid.UUID(bytes=digest[:16], version=5).int}"


def digest(arrays: Mapping[str, NDArray[np.generic]], *words: str) -> str:
    """sha256 over names, shapes and values, and whatever else makes the files what they are."""
    found = hashlib.sha256("\0".join(words).encode(errors="surrogateescape"))
    for name, array in arrays.items():
        found.update(f"{name}/{array.shape}/{array.dtype.str}/".encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()
