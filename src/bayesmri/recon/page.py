"""RECON.h5 in, one page out; torch is loaded only after the file was found good."""

from pathlib import Path
from typing import Any

from bayesmri.errors import ConfigError
from bayesmri.io.apart.reading import reading_result
from bayesmri.io.atomic import atomic_path, check_target
from bayesmri.io.privacy.anonymous import anonymous_result

MEGABYTES = 30.0


def report_file(
    path: Path,
    out: Path,
    *,
    megabytes: float = MEGABYTES,
    anonymise: bool = False,
    force: bool = False,
    trusted: bool = True,
) -> dict[str, Any]:
    """Write the page; return its name, size, slices and what was cut.

    megabytes: of packed data; what does not fit is left out, and the page says so. force: `out` may be there.
    trusted: the file is read in this process, and not in a child. anonymise: without what identifies a patient.
    """
    if not 0.1 <= megabytes <= 500:
        raise ConfigError(f"got a page of {megabytes:g} MB, expected 0.1 to 500; browsers show more with difficulty")
    check_target(out, path, force=force)
    with reading_result(path, trusted=trusted) as result:
        from bayesmri.recon.page_content import content

        shown, removed = anonymous_result(result) if anonymise else (result, None)
        text, facts = content(shown, limit=round(megabytes * 1e6))
    with atomic_path(out) as temporary:
        temporary.write_text(text, encoding="utf-8")
    told = {} if removed is None else {"removed": list(removed)}
    return {"file": result.name, "output": str(out), "bytes": len(text.encode()), **told, **facts}
