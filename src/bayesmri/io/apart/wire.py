"""What a child process says: values as JSON with their arrays beside it. No pickle: a child is not believed more."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesmri import errors
from bayesmri.errors import BayesMRIError, FormatError
from bayesmri.io.guard import one_line

Array = NDArray[Any]
KINDS = "biufcU"  # of arrays: numbers and fixed texts, no objects


def packed(value: Any) -> tuple[bytes, list[Array]]:
    """(JSON, arrays in the order of their places in it) of dataclasses, tuples, lists, mappings, numbers and texts."""
    arrays: list[Array] = []
    return json.dumps(_plain(value, arrays)).encode(), arrays


def unpacked(text: bytes, arrays: Sequence[Array]) -> Any:
    """The inverse of `packed`; only values and dataclasses of this package come of it."""
    return _value(json.loads(text), arrays)


def described(arrays: Sequence[Array]) -> list[dict[str, Any]]:
    """dtype and shape of each, for `blank`."""
    return [{"dtype": array.dtype.str, "shape": array.shape} for array in arrays]


def dtype_of(text: str) -> np.dtype[Any]:
    dtype = np.dtype(text)
    if dtype.kind not in KINDS:
        raise FormatError(f"a child process sent an array of {one_line(dtype, limit=60)}, expected numbers")
    return dtype


def packed_error(error: BaseException) -> dict[str, Any]:
    """Our own errors and those of the system by their names, all others as what they are."""
    number = error.errno if isinstance(error, OSError) else None
    return {"error": type(error).__name__, "text": one_line(error, limit=2000), "errno": number}


def unpacked_error(said: Mapping[str, Any]) -> Exception:
    name, text = str(said["error"]), one_line(said["text"], limit=2000)
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, BayesMRIError):
        error = kind.__new__(kind, text)  # whatever its __init__ takes
        error.args = (text,)
        return error
    if name == "MemoryError":
        return MemoryError(text)
    if said.get("errno") is not None:
        return OSError(int(said["errno"]), text)
    return RuntimeError(f"{one_line(name, limit=60)}: {text}")


def _plain(value: Any, arrays: list[Array]) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return _plain(value.item(), arrays)
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in KINDS:
            raise TypeError(f"an array of {value.dtype} cannot be sent")
        arrays.append(value)
        return {"array": len(arrays) - 1}
    if is_dataclass(value) and not isinstance(value, type):
        kind = type(value)
        own = {part.name: _plain(getattr(value, part.name), arrays) for part in fields(value)}
        return {"type": f"{kind.__module__}:{kind.__qualname__}", "fields": own}
    if isinstance(value, tuple):
        return {"tuple": [_plain(part, arrays) for part in value]}
    if isinstance(value, list):
        return [_plain(part, arrays) for part in value]
    if isinstance(value, Mapping):
        return {"map": [[_plain(k, arrays), _plain(v, arrays)] for k, v in value.items()]}
    raise TypeError(f"a {type(value).__name__} cannot be sent")


def _value(plain: Any, arrays: Sequence[Array]) -> Any:
    if isinstance(plain, list):
        return [_value(part, arrays) for part in plain]
    if not isinstance(plain, dict):
        return plain
    if "array" in plain:
        return arrays[plain["array"]]
    if "tuple" in plain:
        return tuple(_value(part, arrays) for part in plain["tuple"])
    if "map" in plain:
        return {_value(k, arrays): _value(v, arrays) for k, v in plain["map"]}
    return _kind(plain["type"])(**{name: _value(part, arrays) for name, part in plain["fields"].items()})


def _kind(name: str) -> type[Any]:
    """A dataclass of this package, which is loaded already: what is not is not made."""
    module, _, inside = name.partition(":")
    found = getattr(sys.modules.get(module), inside, None)
    if not module.startswith("bayesmri.") or not (isinstance(found, type) and is_dataclass(found)):
        raise FormatError(f"a child process sent a {one_line(name, limit=60)}, expected what readers give")
    return found
