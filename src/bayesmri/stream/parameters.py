"""What a client asks for: a configuration by name or as text (JSON, XML, key = value), read into known parameters.

A name is looked up in lists, never opened or imported. What is not known is named and left aside.
"""

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast, get_args

from bayesmri.config import parse
from bayesmri.errors import ConfigError
from bayesmri.io.guard import one_line
from bayesmri.io.ismrmrd_xml import MAX_TAGS
from bayesmri.messages import NOTHING, Messages, noted
from bayesmri.recon.request import BASELINES, MethodName, Options, check_spread
from bayesmri.zoo import AUTO, Shipped, shipped

Scale = Literal["slice", "volume"]
Pixels = Literal["int16", "float32"]
OWN = ("bayesmri", "default", "")  # names that mean the server's own settings
MOST_PARAMETERS = 1000
NO_DRAWS: dict[str, Any] = {"samples": 0, "fast": False, "level": None}
PAIR = re.compile(r"([A-Za-z][\w-]*)\s*[=:]")
LONGEST_LINE = 1000


@dataclass(frozen=True)
class Wish:
    """options: how to reconstruct. scale: one number for each slice, or for a volume, which then comes at its end.

    pixels: of the images. texts: whether notes and warnings come as messages too. prewhiten: by noise scans.
    """

    options: Options
    scale: Scale = "slice"
    pixels: Pixels = "int16"
    texts: bool = True
    prewhiten: bool = True


@dataclass(frozen=True)
class Parameters:
    """What clients may say, as they call it; None is the server's own."""

    model: str | None = None
    method: str | None = None
    samples: int | None = None
    seed: int | None = None
    fast: bool | None = None
    check: bool | None = None
    level: float | None = None
    tv_weight: float | None = None
    coils: int | None = None
    single_coil: bool | None = None
    full_fov: bool | None = None
    strict: bool | None = None
    prewhiten: bool | None = None
    scale: Scale | None = None
    pixels: Pixels | None = None
    texts: bool | None = None


OF_WISH = ("prewhiten", "scale", "pixels", "texts")
KINDS = {name: get_args(kind)[0] for name, kind in Parameters.__annotations__.items()}


@dataclass(frozen=True)
class Terms:
    """What the server grants. own: what it does unless asked. most_samples: that anyone may draw.

    models: the shipped ones by name, which alone clients may name besides `auto`.
    """

    own: Wish
    most_samples: int = 64
    models: Mapping[str, Shipped] = field(default_factory=lambda: {model.name: model for model in shipped()})

    @property
    def names(self) -> tuple[str, ...]:
        return (AUTO, *self.models)


def by_name(name: str, terms: Terms, wish: Wish) -> tuple[Wish, Messages]:
    """A method or a shipped model; any other name is the server's own settings, which is said."""
    plain = name.strip().removesuffix(".xml").removesuffix(".json")
    if plain in BASELINES:
        return _granted({"method": plain}, terms, wish), NOTHING
    if plain in terms.names:
        return _granted({"model": plain}, terms, wish), NOTHING
    if plain in OWN:
        return wish, NOTHING
    return wish, noted(
        "the configuration that was named is none of bayesmri's, and the server's own settings were taken: "
        f"{described(wish)}; known are {', '.join((*BASELINES, *terms.names))}"
    )


def by_text(text: str, terms: Terms, wish: Wish) -> tuple[Wish, Messages]:
    """JSON, XML, or lines of `key = value`; parameters that are not ours are named, and left aside."""
    found = _pairs(text)
    given = {key: value for key, value in found.items() if key in KINDS}
    said = NOTHING
    for key in ("config", "customconfig"):  # of Open Recon: a name
        if isinstance(name := found.pop(key, None), str) and name:
            wish, more = by_name(name, terms, wish)
            said += more
    if not given:
        return wish, said + noted(
            f"the configuration holds no parameter of bayesmri's, and the server's own settings were taken: "
            f"{described(wish)}; known are {', '.join(KINDS)}"
        )
    unknown = [one_line(key, limit=40) for key in found if key not in KINDS]
    if unknown:
        listed = ", ".join(unknown[:8]) + (", …" if len(unknown) > 8 else "")
        said += noted(f"parameters that are not known were left aside: {listed}; known are {', '.join(KINDS)}")
    return _granted(given, terms, wish), said


def described(wish: Wish) -> str:
    """ "model auto, 16 samples"."""
    options = wish.options
    drawn = f", {options.samples} samples" if options.samples else ""
    return (f"method {options.method}" if options.model is None else f"model {_name(options.model)}") + drawn


def _name(model: Any) -> str:
    last = re.split(r"[/\\]", str(model))[-1]  # folders of the server are its own
    return one_line(last.removesuffix(".json"), limit=60)


def _granted(given: Mapping[str, Any], terms: Terms, wish: Wish) -> Wish:
    """The wish with these parameters, each of its type."""
    asked = parse(Parameters, {key: _typed(key, value) for key, value in given.items()})
    changes: dict[str, Any] = {key: value for key in given if (value := getattr(asked, key)) is not None}
    of_wish = {key: changes.pop(key) for key in OF_WISH if key in changes}
    method, model = changes.pop("method", None), changes.pop("model", None)
    if method is not None and model is not None:
        raise ConfigError("got both a method and a model, expected one of them; leave one of the two out")
    if model is not None and model not in terms.names:
        raise ConfigError(f"got a model that is not offered here, expected one of {', '.join(terms.names)}")
    if method is not None and method not in BASELINES:
        raise ConfigError(f"got a method that is not known, expected one of {', '.join(BASELINES)}")
    if model in terms.models:
        chosen = terms.models[model]
        # its file, and never one of that name in the server's folder; none is drawn of a model without a posterior
        changes = {**({} if chosen.stochastic else NO_DRAWS), **changes, "model": str(chosen.path)}
    elif model is not None:
        changes["model"] = model
    elif method is not None:
        changes = {**NO_DRAWS, **changes, "model": None, "method": cast(MethodName, method)}
    made = replace(wish.options, **changes)
    if made.samples > terms.most_samples:
        raise ConfigError(f"got {made.samples} samples, expected at most {terms.most_samples} on this server")
    check_spread(made.samples)
    return replace(wish, options=made, **of_wish)


def _typed(key: str, value: Any) -> Any:
    """Texts as what the parameter is: clients send "True", "8" and "0.9"."""
    kind = KINDS[key]
    if kind is str or not isinstance(value, str):
        return str(value) if kind is str and not isinstance(value, bool) else value
    text = value.strip()
    if kind is bool and text.lower() in ("true", "yes", "on", "1", "false", "no", "off", "0"):
        return text.lower() in ("true", "yes", "on", "1")
    if kind is int and re.fullmatch(r"[+-]?\d{1,20}", text):
        return int(text)
    if kind is float:
        try:
            return float(text)
        except ValueError:
            return text
    return text


def _pairs(text: str) -> dict[str, Any]:
    """Parameters by name, in small letters with underscores; of XML also those of tags that are ours."""
    start = text.lstrip()[:1]
    raw = _of_json(text) if start == "{" else _of_xml(text) if start == "<" else _of_lines(text)
    if len(raw) > MOST_PARAMETERS:
        raise ConfigError(f"got a configuration of {len(raw)} parameters, expected at most {MOST_PARAMETERS}")
    return {key.strip().lower().replace("-", "_"): value for key, value in raw.items()}


def _of_json(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError('got a configuration that is not valid JSON, expected {"parameters": {…}}') from error
    inner = found.get("parameters", found)
    if not isinstance(inner, dict):
        raise ConfigError('got `parameters` that are no table, expected {"parameters": {"samples": 16, …}}')
    return inner


def _of_xml(text: str) -> dict[str, Any]:
    """<property><name>…</name><value>…</value></property> as in Gadgetron's, and tags of our parameters' names."""
    if "<!DOCTYPE" in text.upper() or "<!ENTITY" in text.upper() or text.count("<") > MAX_TAGS:
        raise ConfigError("got a configuration with XML entities or too many tags, expected a plain one")
    try:
        root = ET.fromstring(text.strip("\0 \r\n\t"))
    except (ET.ParseError, ValueError) as error:
        raise ConfigError("got a configuration that is not valid XML; mend it, or send none") from error
    found: dict[str, Any] = {}
    for node in root.iter():
        tag = node.tag.rpartition("}")[2].lower()
        if tag == "property" and (name := node.findtext("{*}name") or node.findtext("name")):
            found[name] = node.findtext("{*}value") or node.findtext("value") or ""
        elif tag in KINDS and node.text and node.text.strip() and not len(node):
            found[tag] = node.text
    return found


def _of_lines(text: str) -> dict[str, Any]:
    """Sections and comments of .ini and .toml files are passed over."""
    found = {}
    for line in (line.strip() for line in text.splitlines() if len(line) <= LONGEST_LINE):
        if line[:1] not in ("#", ";", "[") and (pair := PAIR.match(line)):
            found[pair[1]] = line[pair.end() :].strip().strip("\"'")
    return found
