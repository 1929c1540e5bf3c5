"""Packages that only an extra installs: imported where their work begins, and named where they are missing."""

from importlib import import_module
from typing import Any

from bayesmri.errors import MissingExtraError


def needed(module: str, *, extra: str, what: str) -> Any:
    """The module, such as needed("pydicom", extra="dicom", what="DICOM")."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise MissingExtraError(
            f"{what} needs {package}, which is not installed: pip install 'bayesmri[{extra}]'"
        ) from error
