"""`auto` as a model: the shipped one for the coils and the acceleration of the data at hand."""

from dataclasses import replace

from bayesmri.data.kspace import KSpace
from bayesmri.pipeline.options import Options
from bayesmri.zoo import AUTO, choose, reason


def chosen(options: Options, kspace: KSpace) -> tuple[Options, str | None]:
    """The options with `auto` replaced by a shipped model's name, and what it was chosen by (None: it was not auto).

    kspace: as it will be reconstructed, coils combined and lines left out.
    """
    if not isinstance(options.model, str) or options.model != AUTO:
        return options, None
    coils, R = kspace.z.shape[1], kspace.acceleration
    model = choose(coils=coils, acceleration=R, samples=options.samples)
    return replace(options, model=str(model.path)), reason(model, coils=coils, acceleration=R)
