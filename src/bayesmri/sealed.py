"""What other processes unpickle, together with the plug-ins that its classes come from."""

import pickle
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, final

from bayesmri.errors import ClusterLostError, ConfigError
from bayesmri.machine.crew import Parcel, digest
from bayesmri.registry import PluginFile, bring, plugin_files

Content = TypeVar("Content")


@final
@dataclass(frozen=True, eq=False)
class Sealed(Generic[Content]):
    """data: pickled. plugins: files that were given on the command line, with their text, which is sent along."""

    data: bytes
    plugins: tuple[PluginFile, ...] = ()

    def open(self) -> Content:
        """In a process that may know none of the plug-ins; one that it cannot import either ends the run."""
        try:
            for plugin in self.plugins:
                bring(plugin)
            found: Content = pickle.loads(self.data)
        except (ImportError, AttributeError, ConfigError) as error:
            raise ClusterLostError(
                f"a worker cannot load the model ({error}); install the package of its plug-in where the workers run, "
                "or give the plug-in as a file: --plugin FILE.py"
            ) from error
        return found


def sealed(content: Content) -> Parcel[Sealed[Content]]:
    """Under the digest of the content and the text of the plug-ins."""
    try:
        data = pickle.dumps(content, protocol=5)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ConfigError(
            f"got a model that cannot be sent to workers ({error}), expected its classes at the top of a module; move "
            "them there, or run without workers"
        ) from error
    plugins = plugin_files()
    parts: list[Any] = [part for plugin in plugins for part in (plugin.module, plugin.text)]
    return Parcel(digest(data, *parts), Sealed(data, plugins))
