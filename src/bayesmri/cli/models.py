"""bayesmri models [NAME]."""

from collections.abc import Callable

from bayesmri.bounded import one_line
from bayesmri.cli.output import print_json
from bayesmri.errors import ConfigError, ModelError
from bayesmri.runs import locate
from bayesmri.zoo import Shipped, entry, find, shipped


def models(name: str | None = None, /, *, markdown: bool = False, json: bool = False) -> None:
    """List the models that came with the package, or print the card of one.

    Parameters
    ----------
    name
        A shipped model, or a model's .json file or run folder: print its card instead of the list.
    markdown
        Print the card as a Markdown page.
    json
        Print JSON instead of text.
    """
    from bayesmri.report import card

    if name is None and markdown:
        raise ConfigError("got --markdown without a model; give the name of one, such as bayesmri models prints")
    if name is not None:
        model = _open(name)
        if json:
            print_json(dict(model.record))
        else:
            print(_shown(card.markdown if markdown else card.text, model))
        return
    found = shipped()
    if json:
        print_json([card.listed(model) for model in found])
    elif found:
        print(card.table(found))
        print("\nbayesmri models NAME prints a card; recon --model auto chooses by coils and acceleration.")
        print("For research use only.")
    else:
        print("No models came with this installation: train one with bayesmri train.")


def _shown(show: Callable[[Shipped], str], model: Shipped) -> str:
    """The card's text; one that others wrote may hold anything in any place."""
    try:
        return show(model).rstrip()
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        said = one_line(repr(error), limit=120)
        raise ModelError(f"the card of {one_line(model.name)} is not of this version ({said})") from error


def _open(name: str) -> Shipped:
    path = find(name)
    return entry(path if path.suffix == ".json" and not path.is_dir() else locate(name))
