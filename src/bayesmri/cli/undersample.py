"""bayesmri undersample FILE -o FILE.h5 --acceleration R."""

from pathlib import Path

from bayesmri.bounded import one_line
from bayesmri.cli.options import LAYOUT, SOURCE, Layout, Out, Source, Whole
from bayesmri.cli.output import print_json, print_messages, print_removed, sampling_line
from bayesmri.recon.acquisition import RULES, Sampling
from bayesmri.recon.files import undersample_file


def undersample(
    file: Path,
    /,
    *,
    output: Out,
    acceleration: float | None = None,
    center_fraction: float | None = None,
    mask: str = "random",
    offset: Whole | None = None,
    single_coil: bool = False,
    truth: bool = True,
    seed: Whole = 0,
    layout: Layout = LAYOUT,
    source: Source = SOURCE,
    strict: bool = False,
    anonymise: bool = False,
    force: bool = False,
    json: bool = False,
) -> None:
    """Keep exactly round(W/R) of the W lines of a fully sampled FILE, or round(HW/R) of its points.

    Parameters
    ----------
    file
        Fully sampled k-space of any known format.
    output
        HDF5 file to write, in fastMRI's layout with a dataset `mask`.
    acceleration
        R, 4 unless a mask file is given; the fully sampled centre counts as part of the round(W/R) lines.
    center_fraction
        Share of the lines in the fully sampled centre; 0.32/R unless given (8 % at R=4, 4 % at R=8).
    mask
        random, equispaced or partial-fourier lines; poisson or elliptical, points of both axes; or a file with one
        value per line (.npy or text), or per row and column (.npy), 1 if acquired, else 0.
    offset
        First line of an equispaced mask outside the centre, from 0; drawn unless given.
    single_coil
        Combine the coils into one emulated coil first, as fastMRI's single-coil track does.
    truth
        Keep the fully sampled image in the output, so that reconstructions of it can be judged.
    seed
        Seed of the mask.
    strict
        Treat warnings as errors: list them, write nothing and exit with 2.
    anonymise
        Leave out what identifies a patient (docs/privacy.md), and list what that was.
    force
        Overwrite outputs that are there.
    json
        Print JSON instead of text.
    """
    if acceleration is None and mask in RULES:
        acceleration = 4.0
    sampling = Sampling(acceleration, center_fraction, mask, offset, seed)
    made = undersample_file(
        file,
        output,
        sampling,
        keep_truth=truth,
        single_coil=single_coil,
        given=layout.given(),
        choice=source.choice(),
        trusted=source.trusted,
        strict=strict,
        anonymise=anonymise,
        force=force,
    )
    print_messages(made)
    print_removed(made)
    if json:
        print_json(made)
    else:
        print(f"{one_line(output, limit=4096)}: {sampling_line(made)}")
