"""A model's files replaced by others without a moment in which there is none.

Weights are never overwritten: they come under a free name, the JSON file that names them is put in place in one step
and is the only commit, and what the former one named goes last. A kill at any moment leaves the old model or the new.
"""

import hashlib
import re
from contextlib import suppress
from pathlib import Path

from bayesmri.io.atomic import atomic_path

ENDING = ".safetensors"
SHORT = 12  # digits of a checksum in a name


def content_name(path: Path, digest: str) -> str:
    """model.json → model.0123456789ab.safetensors."""
    return f"{path.stem}.{digest[:SHORT]}{ENDING}"


def placed(path: Path, weights: bytes) -> Path:
    """The weights of the model `path` (.json) in a file of their own: NAME.safetensors where that is free or has the
    same bytes, else a name that their checksum gives."""
    digest = hashlib.sha256(weights).hexdigest()
    for file in (path.with_suffix(ENDING), path.with_name(content_name(path, digest))):
        if _holds(file, weights):
            return file
        if not file.exists() and _created(file, weights):
            return file
    with atomic_path(file) as temporary:  # of that checksum by its name, and damaged
        temporary.write_bytes(weights)
    return file


def commit(path: Path, text: bytes, weights: Path, content: bytes, former: str | None) -> None:
    """The JSON file `path` becomes `text`; then the former weights and those that no JSON ever named are removed."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(text)
    if not _holds(weights, content):  # another writer of the same model swept them
        with atomic_path(weights) as temporary:
            temporary.write_bytes(content)
    ours = re.compile(re.escape(path.stem) + rf"(\.[0-9a-f]{{{SHORT}}})?" + re.escape(ENDING))
    for file in path.parent.iterdir():
        others = ours.fullmatch(file.name) and not (file.stem != path.stem and file.with_suffix(".json").exists())
        if file.name != weights.name and (others or file.name == former):
            with suppress(OSError):
                file.unlink()


def _holds(file: Path, content: bytes) -> bool:
    try:
        return file.stat().st_size == len(content) and file.read_bytes() == content
    except OSError:
        return False


def _created(file: Path, content: bytes) -> bool:
    """Whether the file was made by us: it appears whole, and only where there was none."""
    with suppress(FileExistsError), atomic_path(file, fresh=True) as temporary:
        temporary.write_bytes(content)
        return True
    return False
