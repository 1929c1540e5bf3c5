"""All that a reader of a reconstruction should know besides the image and the data, assembled in this one place."""

from collections.abc import Sequence

from bayesmri.bounds.outside import extrapolation, reasons
from bayesmri.kspace import KSpace
from bayesmri.messages import NOTHING, Messages, noted, warned
from bayesmri.physics.espirit import FEWEST
from bayesmri.physics.pattern import centre_run, kind_of
from bayesmri.recon.choice import own_names, renamed
from bayesmri.recon.method import Method
from bayesmri.recon.request import Options

BRIGHTER, DARKER = 2.0, 1000.0  # a slice than its volume


def outside_of(method: Method, kspace: KSpace) -> tuple[str, ...]:
    """Why the data is unlike what a model was trained on, besides R; nothing for methods that were not trained."""
    return () if method.training is None else reasons(method.training, method.familiar, kspace)


def messages(
    method: Method,
    kspace: KSpace,
    asked: Options,
    choice: str | None,
    *,
    outside: Sequence[str],
    coil_lines: int | None,
    bound_note: str | None,
) -> Messages:
    """Of the choice of the model and what it was trained for, the coils, the error bound.

    choice: what `auto` chose. outside: what `outside_of` found. bound_note: why there is no error bound.
    coil_lines: central lines that sensitivities are learned from, None where none are wanted.
    """
    model = choice_note(choice) + noted(*renamed(asked), *own_names(asked))
    model += warned(*extrapolation(method.accelerations, kspace.acceleration), *_unlike(method, outside))
    if method.training is not None and method.familiar is None:
        model += noted(
            f"{method.name} does not record how its training data looked: whether these images are like them was not "
            "judged (bayesmri familiarise)"
        )
    bound = noted(*([] if bound_note is None else [bound_note]))
    return model + coil_messages(coil_lines) + plain_messages(kspace, asked) + bound


def _unlike(method: Method, outside: Sequence[str]) -> list[str]:
    if not outside:
        return []
    return [
        f"the data is unlike what {method.name} was trained on: {'; '.join(outside)}. Image and standard deviation may "
        "be wrong without a sign of it"
    ]


def choice_note(choice: str | None) -> Messages:
    """What `auto` chose."""
    return NOTHING if choice is None else noted(f"auto chose {choice}")


def coil_messages(lines: int | None) -> Messages:
    """Where too little is known of the coils."""
    if lines is None or lines >= FEWEST:
        return NOTHING
    if lines == 0:
        return warned(
            "no central line was acquired, so nothing is known of the coils: they were reconstructed one by one, "
            "which removes little folding; give their sensitivities (--sensitivities)"
        )
    return warned(
        f"only {lines} central line{'s were' if lines > 1 else ' was'} acquired: sensitivities were refined together "
        "with the image; look for folding, or give them (--sensitivities)"
    )


def scale_messages(factor: float, own: float) -> Messages:
    """Where a scale was given that looks like one of other data. own: of the data at hand, maybe a dark slice of it."""
    if BRIGHTER * factor >= own and factor <= DARKER * own:
        return NOTHING
    return warned(
        f"the scale that was given, {factor:.3g}, is far from that of this data, {own:.3g}: a method whose result "
        "depends on it may be wrong; is it of the same volume, coils and method?"
    )


def plain_messages(kspace: KSpace, asked: Options) -> Messages:
    """Where a method without a model has nothing to unfold the image by."""
    mask = kspace.mask
    if asked.model is not None or asked.method == "zero-filled" or mask.all():
        return NOTHING
    lines = centre_run(mask)
    if asked.method == "sense" and (kspace.z.shape[1] == 1 or lines < FEWEST):
        why = "a single coil" if kspace.z.shape[1] == 1 else f"{lines} lines around the centre complete"
        return warned(
            f"sense knows no sensitivities with {why}, and needs several coils and {FEWEST} complete lines: its images "
            "are the zero-filled ones, which fold; take a model (--model auto)"
        )
    if lines <= 1 and kind_of(mask) == "equispaced":
        return warned(f"lines at equal steps without a complete centre: {asked.method} cannot unfold the image")
    return NOTHING
