"""bayesmri send DIR --to host:port."""

from functools import partial
from pathlib import Path

from bayesmri.cli.output import count, print_json, print_messages
from bayesmri.cli.progress import progress
from bayesmri.io.pacs.send import AET, CALLED, SECONDS
from bayesmri.io.pacs.send import send as send_files


def send(
    folder: Path,
    /,
    *,
    to: str | None = None,
    web: str | None = None,
    aet: str = AET,
    called: str = CALLED,
    timeout: float = SECONDS,
    json: bool = False,
) -> None:
    """Send DICOM files to an archive, by C-STORE or over the web.

    Parameters
    ----------
    folder
        What `recon --dicom` or `export --dicom` wrote, or a single file.
    to
        host:port of the archive, such as localhost:4242. DICOM's own protocol has no encryption: for networks that are
        trusted, or through a tunnel.
    web
        Address of a DICOMweb server instead, such as https://pacs.example/dicom-web. Names and passwords are taken from
        ~/.netrc.
    aet
        Our application entity title, which the archive may have to know.
    called
        The archive's application entity title.
    timeout
        Seconds that the archive may be silent.
    json
        Print JSON instead of text.
    """
    made = send_files(
        folder,
        to=to,
        web=web,
        aet=aet,
        called=called,
        timeout=timeout,
        progress=partial(progress, title="send", unit="files"),
    )
    print_messages(made)
    if json:
        print_json(made)
        return
    print(f"sent {count(made['files'], 'file')} to {made['to']}")
