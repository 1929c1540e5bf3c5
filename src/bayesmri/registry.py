"""What a configuration's `kind` may name: regularizers and networks, ours and other people's.

An entry has a name, a frozen dataclass that configures it, and the class that owns the weights. Classes of other
packages are registered by `@register("name", Config)` when their module is imported: named on the command line
(--plugin), or installed under the entry-point group `bayesmri.plugins`. No torch here.
"""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from importlib.metadata import entry_points
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from bayesmri.errors import ConfigError

GROUP = "bayesmri.plugins"
OWN = "bayesmri."  # modules of this package
C = TypeVar("C", bound=type)


@dataclass(frozen=True)
class Entry:
    """name: the kind. config: its dataclass. make: the class that owns the weights. plugin: the module, "" for ours."""

    name: str
    config: type
    make: type
    plugin: str = ""


@dataclass(frozen=True)
class PluginFile:
    """A plug-in that is a file. module: what it is imported as. path: as it was given. text: what it says."""

    module: str
    path: str
    text: str


_entries: dict[str, Entry] = {}
_files: dict[str, PluginFile] = {}
_configs: dict[str, type] = {}
# the dataclass of every kind, for configuration files; it grows with the entries
CONFIGS: Mapping[str, type] = MappingProxyType(_configs)


def register(name: str, config: type) -> Callable[[C], C]:
    """Makes `kind = "name"` mean a class: a regularizer (EnergyRegularizer, ParametricRegularizer), or a network, any
    torch.nn.Module that makes images of (z, mask).

    config: a frozen dataclass of plain values, of which Q is the number of coils; `cls(config, rng)` makes a
        regularizer, `cls(config)` a network.
    """
    _check(name, config)

    def add(cls: C) -> C:
        known = _entries.get(name)
        module = cls.__module__
        if known is not None and (known.make.__module__, known.make.__qualname__) != (module, cls.__qualname__):
            raise ConfigError(
                f"got a second {name!r} in {module}, the first is {known.make.__module__}.{known.make.__qualname__}; "
                "give it another name"
            )
        _entries[name] = Entry(name, config, cls, "" if module.startswith(OWN) else module)
        _configs[name] = config
        return cls

    return add


def entry(kind: str) -> Entry:
    """Of a kind; installed plug-ins are looked at where it is not known yet."""
    if kind not in _entries:
        load_installed()
    try:
        return _entries[kind]
    except KeyError:
        raise ConfigError(
            f"got the kind {kind!r}, expected one of {', '.join(_entries)}; --plugin loads more"
        ) from None


def of_config(config: object) -> Entry:
    """The entry whose dataclass a configuration is of."""
    for found in _entries.values():
        if found.config is type(config):
            return found
    raise ConfigError(f"got a {type(config).__name__}, which no registered kind is configured by; register it first")


def load_plugin(name: str) -> None:
    """Imports a module by its name, or a .py file by its path."""
    try:
        if name.endswith(".py"):
            _load_file(Path(name))
        else:
            if "" not in sys.path:
                sys.path.insert(0, "")  # the working folder, as `python -m` has it
            importlib.import_module(name)
    except ConfigError:
        raise
    except Exception as error:  # a plug-in is a stranger's code: whatever it raises is said in one line
        raise ConfigError(
            f"the plug-in {name} cannot be loaded ({type(error).__name__}: {error}); correct it"
        ) from error


def load_installed() -> None:
    """Imports what installed packages offer."""
    for point in entry_points(group=GROUP):
        try:
            point.load()
        except ConfigError:
            raise
        except Exception as error:
            raise ConfigError(
                f"the installed plug-in {point.name} cannot be loaded ({type(error).__name__}: {error}); uninstall or "
                "correct it"
            ) from error


def plugin_files() -> tuple[PluginFile, ...]:
    """Those that were loaded here."""
    return tuple(_files.values())


def bring(plugin: PluginFile) -> None:
    """Loads a plug-in by its text, in a process that may not see its file; once, as long as it says the same."""
    if _files.get(plugin.module) == plugin:
        return
    try:
        _run(plugin)
    except Exception as error:
        raise ConfigError(f"the plug-in {plugin.path} cannot be loaded: {type(error).__name__}: {error}") from error


def _load_file(path: Path) -> None:
    if not path.is_file():
        raise ConfigError(f"got the plug-in {path}, which is no file; give a module's name or a .py file")
    _run(PluginFile(path.stem, str(path), importlib.util.decode_source(path.read_bytes())))


def _run(plugin: PluginFile) -> None:
    """As a module of its name, unless another has that name; the same plug-in loaded anew takes its place."""
    spec = importlib.util.spec_from_loader(plugin.module, None, origin=plugin.path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    module.__file__ = plugin.path
    if plugin.module in _files or plugin.module not in sys.modules:
        sys.modules[plugin.module] = module
    try:
        exec(compile(plugin.text, plugin.path, "exec"), module.__dict__)
    except BaseException:
        if sys.modules.get(plugin.module) is module:
            del sys.modules[plugin.module]
        raise
    _files[plugin.module] = plugin


def _check(name: str, config: Any) -> None:
    if not name or not name.replace("-", "").replace("_", "").isalnum() or not name.isascii():
        raise ConfigError(f"got the kind {name!r}, expected letters, digits, - and _")
    if not (isinstance(config, type) and is_dataclass(config) and config.__dataclass_params__.frozen):  # type: ignore[attr-defined]
        raise ConfigError(f"got {config!r} to configure {name!r}, expected a frozen dataclass")
    if "Q" not in {f.name for f in fields(config)}:
        raise ConfigError(f"{config.__name__} has no field Q, expected one: the number of coils, 1 for one image")
