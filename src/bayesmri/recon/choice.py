"""`auto` as a model: the shipped one for the coils and the acceleration of the data at hand."""

from dataclasses import replace

from bayesmri.kspace import KSpace
from bayesmri.recon.request import Options
from bayesmri.zoo import AUTO, FORMER, choose, reason, shadowed, shipped


def chosen(options: Options, kspace: KSpace) -> tuple[Options, str | None]:
    """The options with `auto` replaced by a shipped model's name, and what it was chosen by (None: it was not auto).

    kspace: as it will be reconstructed, coils combined and lines left out.
    """
    if not isinstance(options.model, str) or options.model != AUTO:
        return options, None
    coils, R = kspace.z.shape[1], kspace.acceleration
    model = choose(coils=coils, acceleration=R, samples=options.samples)
    return replace(options, model=str(model.path)), reason(model, coils=coils, acceleration=R)


def own_names(options: Options) -> list[str]:
    """A sentence where a local model has the name of a shipped one, which was taken."""
    said = shadowed(options.model) if isinstance(options.model, str) else None
    return [] if said is None else [said]


def renamed(options: Options) -> list[str]:
    """A sentence where a model's former name was given."""
    name = options.model
    if not isinstance(name, str) or name not in FORMER or name in {model.name for model in shipped()}:
        return []
    return [f"{name} was replaced by {FORMER[name]}, which takes one coil and any array, and was taken"]
