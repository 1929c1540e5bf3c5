"""The commands on a page of the docs, to be run as they stand there."""

import re
import shlex
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"


def commands(page: str) -> list[list[str]]:
    """The words of every line of the page's ```sh blocks, lines that end in a backslash joined."""
    blocks = re.findall(r"```sh\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]
