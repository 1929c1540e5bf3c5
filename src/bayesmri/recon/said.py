"""All that a reader of a reconstruction should know besides the image and the data, assembled in this one place."""

from bayesmri.kspace import KSpace
from bayesmri.messages import NOTHING, Messages, noted, warned
from bayesmri.physics.espirit import FEWEST
from bayesmri.recon.choice import extrapolation, renamed
from bayesmri.recon.request import Options


def messages(
    kspace: KSpace, asked: Options, *, choice: str | None, coil_lines: int | None, bound_note: str | None
) -> Messages:
    """Of the choice of the model and what it was trained for, the coils, the error bound.

    choice: what `auto` chose. coil_lines: central lines that sensitivities are learned from, None where none are
    wanted. bound_note: why there is no error bound.
    """
    model = choice_note(choice) + noted(*renamed(asked))
    model += warned(*extrapolation(asked, kspace))
    bound = noted(*([] if bound_note is None else [bound_note]))
    return model + coil_messages(coil_lines) + bound


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
