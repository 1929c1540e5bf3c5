"""bayesmri app [FOLDER]."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from bayesmri.app.settings import GIGABYTES, LOOPBACK, PORT, settings
from bayesmri.cli.options import Whole
from bayesmri.machine.optional import needed


def app(
    folder: Annotated[tuple[Path, ...], Parameter(negative=())] = (Path(),),
    /,
    *,
    host: str = LOOPBACK,
    port: Whole = PORT,
    token: str | None = None,
    upload_gb: float = GIGABYTES,
    open: bool = True,
) -> None:
    """Work in the browser: open a scan, reconstruct it, compare results, and ask the image. Ends with Ctrl+C.

    Parameters
    ----------
    folder
        Folders of scans and results, the working folder unless given; nothing outside of them is read or written. In
        the place of the first a file of it may be named, which is shown at once.
    host
        Address to listen on; this machine alone unless given, another one needs --token.
    port
        Port to listen on; 0 takes any that is free.
    token
        Secret in the address, 16 characters or more; drawn unless given.
    upload_gb
        Largest file that may be dropped into the page. It is kept on disk until the end, and no longer unless asked.
    open
        Open the browser; --no-open only prints the address.
    """
    chosen = settings(folder, host=host, port=port, token=token, gigabytes=upload_gb)
    for module in ("starlette", "uvicorn"):
        needed(module, extra="app", what="the application")
    from bayesmri.app.serve import serve

    serve(chosen, show=open, say=lambda address: print(f"open {address}\nCtrl+C ends it.", flush=True))
