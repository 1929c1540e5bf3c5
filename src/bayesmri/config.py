"""Frozen dataclasses <-> TOML and JSON: every number has one typed field, an unknown key names its nearest neighbour.

A dataclass is its own schema: field types are checked, defaults fill what a file leaves out, and a nested dataclass is
a section. A field that may hold one of several classes lists them by name,
`field(metadata={"kinds": {"tdv": TDVConfig}})`; its section then says `kind = "tdv"`.
"""

import difflib
import json
import tomllib
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from bayesmri.errors import ConfigError

C = TypeVar("C")


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"configuration {path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"configuration {path.name} is not valid TOML: {error}") from error


def parse(cls: type[C], data: Mapping[str, Any], *, where: str = "") -> C:
    """An instance of the dataclass `cls` from nested tables; what is missing takes its default."""
    hints = typing.get_type_hints(cls)
    known = {f.name: f for f in fields(cls) if f.init}  # type: ignore[arg-type]
    for key in data:
        if key not in known:
            raise ConfigError(f"got the unknown key {_join(where, key)!r}{_nearest(key, known)}")
    values = {}
    for name, f in known.items():
        if name in data:
            values[name] = _value(_type(hints[name], f, data[name]), data[name], _join(where, name))
        elif f.default is MISSING and f.default_factory is MISSING:
            raise ConfigError(f"key {_join(where, name)!r} is missing: it has no default")
    return cls(**values)


def as_dict(config: object) -> dict[str, Any]:
    """The nested plain values of a dataclass, `kind` included where a field may hold several classes."""
    return {f.name: _plain(getattr(config, f.name), f) for f in fields(config)}  # type: ignore[arg-type]


def override(data: Mapping[str, Any], tokens: Sequence[str]) -> dict[str, Any]:
    """Tables with `--section.key value` (or `--section.key=value`) applied; values are written as in TOML."""
    result = json.loads(json.dumps(data))
    for dotted, text in _pairs(tokens):
        *sections, key = dotted.split(".")
        table = result
        for section in sections:
            table = table.setdefault(section, {})
            if not isinstance(table, dict):
                raise ConfigError(f"--{dotted} leads through {section!r}, which is a value and not a section")
        table[key] = literal(text)
    return dict(result)


def literal(text: str) -> Any:
    """The value a word of the command line stands for: a TOML value, `none`, or the word itself."""
    if text.lower() in ("none", "null"):
        return None
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def dump_toml(config: object) -> str:
    """The dataclass as a TOML file that `parse` reads back to an equal one; None is left out."""
    return _toml(as_dict(config), "").lstrip("\n")


def check_seed(seed: int) -> int:
    if not 0 <= seed < 2**63:
        raise ConfigError(f"got seed {seed}, expected a whole number from 0 to 2^63 − 1")
    return seed


def _pairs(tokens: Sequence[str]) -> list[tuple[str, str]]:
    pairs, rest = [], list(tokens)
    while rest:
        token = rest.pop(0)
        if not token.startswith("--") or len(token) == 2:
            raise ConfigError(f"got {token!r}, expected --section.key value")
        name, equals, text = token[2:].partition("=")
        if not equals:
            if not rest:
                raise ConfigError(f"got --{name} without a value, expected --{name} value")
            text = rest.pop(0)
        pairs.append((name.replace("-", "_"), text))
    return pairs


def _type(hint: Any, f: "Field[Any]", raw: Any) -> Any:
    """The class a tagged section asks for, or the field's own type."""
    kinds = f.metadata.get("kinds")
    if kinds is None or not isinstance(raw, Mapping):
        return hint
    kind = raw.get("kind", next(iter(kinds)))
    if kind not in kinds:
        raise ConfigError(f"got {f.name}.kind = {kind!r}{_nearest(str(kind), kinds)}")
    return kinds[kind]


def _value(hint: Any, raw: Any, where: str) -> Any:
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return _union(hint, raw, where)
    if origin is Literal:
        return _literal(get_args(hint), raw, where)
    if origin is tuple:
        return _tuple(get_args(hint), raw, where)
    if is_dataclass(hint):
        if not isinstance(raw, Mapping):
            raise ConfigError(f"got {where} = {raw!r}, expected a section with keys")
        table = {k: v for k, v in raw.items() if k != "kind" or _has_kind(hint)}
        return parse(typing.cast(type, hint), table, where=where)
    return _scalar(hint, raw, where)


def _scalar(hint: Any, raw: Any, where: str) -> Any:
    if hint is float and isinstance(raw, int) and not isinstance(raw, bool):
        return float(raw)
    if hint is bool and isinstance(raw, bool):
        return raw
    if hint is str and isinstance(raw, (bool, int, float)):
        return str(raw)
    if isinstance(raw, hint) and not isinstance(raw, bool):
        return raw
    raise ConfigError(f"got {where} = {raw!r}, expected {_name(hint)}")


def _union(hint: Any, raw: Any, where: str) -> Any:
    if raw is None and type(None) in get_args(hint):
        return None
    reasons = []
    for option in get_args(hint):
        if option is not type(None):
            try:
                return _value(option, raw, where)
            except ConfigError as error:
                reasons.append(str(error))
    if len(reasons) == 1:
        raise ConfigError(reasons[0])
    raise ConfigError(f"got {where} = {raw!r}, expected {' or '.join(_name(a) for a in get_args(hint))}")


def _literal(allowed: tuple[Any, ...], raw: Any, where: str) -> Any:
    if raw not in allowed:
        raise ConfigError(f"got {where} = {raw!r}, expected one of {', '.join(map(str, allowed))}")
    return raw


def _tuple(items: tuple[Any, ...], raw: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(raw, (list, tuple)):
        raise ConfigError(f"got {where} = {raw!r}, expected a list")
    if len(items) == 2 and items[1] is Ellipsis:
        items = (items[0],) * len(raw)
    if len(items) != len(raw):
        raise ConfigError(f"got {len(raw)} values for {where}, expected {len(items)}")
    return tuple(_value(item, r, f"{where}[{i}]") for i, (item, r) in enumerate(zip(items, raw, strict=True)))


def _plain(value: Any, f: "Field[Any] | None" = None) -> Any:
    if is_dataclass(value):
        kinds = {} if f is None else f.metadata.get("kinds", {})
        names = [name for name, cls in kinds.items() if cls is type(value)]
        return ({"kind": names[0]} if names else {}) | as_dict(value)
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    return value


def _toml(table: Mapping[str, Any], where: str) -> str:
    sections = {k: v for k, v in table.items() if isinstance(v, dict)}
    arrays = {k: v for k, v in table.items() if isinstance(v, list) and v and isinstance(v[0], dict)}
    lines = [f"{k} = {_word(v)}" for k, v in table.items() if k not in sections and k not in arrays and v is not None]
    text = "\n".join(lines) + ("\n" if lines else "")
    for key, section in sections.items():
        text += f"\n[{_join(where, key)}]\n{_toml(section, _join(where, key))}"
    for key, items in arrays.items():
        text += "".join(f"\n[[{_join(where, key)}]]\n{_toml(item, _join(where, key))}" for item in items)
    return text


def _word(value: Any) -> str:
    """JSON strings, booleans, numbers and lists are TOML too."""
    return json.dumps(value, ensure_ascii=False)


def _has_kind(hint: Any) -> bool:
    return any(f.name == "kind" for f in fields(hint))


def _nearest(key: str, known: typing.Iterable[str]) -> str:
    names = list(known)
    close = difflib.get_close_matches(key, names, n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else f", expected one of {', '.join(names)}"


def _join(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key


def _name(hint: Any) -> str:
    return {int: "a whole number", float: "a number", str: "a text", bool: "true or false", type(None): "none"}.get(
        hint, getattr(hint, "__name__", str(hint))
    )
