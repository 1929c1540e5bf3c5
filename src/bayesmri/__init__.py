"""Learned variational MRI reconstruction that says how sure it is of every pixel. For research use only."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bayesmri.api import as_kspace as as_kspace
    from bayesmri.api import calibrate as calibrate
    from bayesmri.api import load_model as load_model
    from bayesmri.api import reconstruct as reconstruct
    from bayesmri.api import undersample as undersample
    from bayesmri.io.formats import read as read
    from bayesmri.metrics import volume_metrics as volume_metrics

__version__ = version("bayesmri")

# resolved on first use: `import bayesmri` must not wait for torch
_HOMES = {
    "as_kspace": "bayesmri.api",
    "calibrate": "bayesmri.api",
    "load_model": "bayesmri.api",
    "reconstruct": "bayesmri.api",
    "undersample": "bayesmri.api",
    "read": "bayesmri.io.formats",
    "volume_metrics": "bayesmri.metrics",
}
__all__ = ["as_kspace", "calibrate", "load_model", "read", "reconstruct", "undersample", "volume_metrics"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'bayesmri' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
