"""The files behind a name: what a checksum covers and what no output may overwrite."""

from pathlib import Path


def input_files(path: Path) -> tuple[Path, ...]:
    """Both halves of a BART pair where `path` is one of them or their common name, else the path alone."""
    base = str(path)[:-4] if path.suffix in (".cfl", ".hdr") else str(path)
    pair = Path(base + ".hdr"), Path(base + ".cfl")
    try:
        named = path.suffix in (".cfl", ".hdr") or not path.exists()
        return pair if named and all(half.is_file() for half in pair) else (path,)
    except (OSError, ValueError):  # a name too long, or with a null byte
        return (path,)
