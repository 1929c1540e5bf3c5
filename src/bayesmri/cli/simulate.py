"""bayesmri simulate (--phantom NAME | IMAGES) -o FILE.h5."""

from functools import partial
from pathlib import Path
from typing import Literal

from bayesmri.bounded import one_line
from bayesmri.cli.options import Out, Whole, parse_shape
from bayesmri.cli.output import count, print_json, print_messages, print_removed
from bayesmri.cli.progress import progress
from bayesmri.errors import ConfigError
from bayesmri.recon.files import PhantomRequest, simulate_file


def simulate(
    images: Path | None = None,
    /,
    *,
    output: Out,
    phantom: Literal["knee", "head"] | None = None,
    contrast: Literal["PD", "PD-FS"] | None = None,
    size: str | None = None,
    slices: Whole | None = None,
    coils: Whole = 1,
    snr: float | None = None,
    seed: Whole = 0,
    anonymise: bool = False,
    force: bool = False,
    trusted: bool = False,
    json: bool = False,
) -> None:
    """Simulate fully sampled k-space (smooth phase, coils around the object, noise) in fastMRI's layout.

    Parameters
    ----------
    images
        Magnitude images: a DICOM folder or file, NIfTI, or HDF5 with a dataset `image`.
    output
        HDF5 file to write.
    phantom
        Draw this anatomy instead of reading images.
    contrast
        Contrast of the phantom: proton density, without or with fat saturation; PD unless given.
    size
        Size of the phantom, HxW in pixels; 320x320 unless given.
    slices
        Slices of the phantom; 1 unless given.
    coils
        Receive coils around the object.
    snr
        Power signal-to-noise ratio of k-space in dB; no noise unless given.
    seed
        Seed of anatomy, phase, coils and noise.
    anonymise
        Leave out what identifies a patient (docs/privacy.md), and list what that was.
    force
        Overwrite outputs that are there.
    trusted
        Read the file in this process, and not in a child process with limits of memory and time.
    json
        Print JSON instead of text.
    """
    source = _source(images, phantom, contrast, size, slices)
    bar = partial(progress, title="simulate")
    made = simulate_file(
        source,
        output,
        coils=coils,
        snr_db=snr,
        seed=seed,
        force=force,
        trusted=trusted,
        anonymise=anonymise,
        progress=bar,
    )
    print_messages(made)
    print_removed(made)
    if json:
        print_json(made)
    else:
        H, W = made["shape"]
        facts = f"{count(made['slices'], 'slice')}, {count(made['coils'], 'coil')}, {H} x {W}, fully sampled"
        print(f"{one_line(output, limit=4096)}: {facts}")


def _source(
    images: Path | None,
    phantom: Literal["knee", "head"] | None,
    contrast: Literal["PD", "PD-FS"] | None,
    size: str | None,
    slices: Whole | None,
) -> Path | PhantomRequest:
    if images is not None and phantom is None:
        drawn = {"--contrast": contrast, "--size": size, "--slices": slices}
        given = [name for name, value in drawn.items() if value is not None]
        if given:
            raise ConfigError(
                f"got {', '.join(given)} with images, which have their own, expected it with --phantom only; "
                "leave one of them out"
            )
        return images
    if phantom is None or images is not None:
        raise ConfigError("give either IMAGES or --phantom knee|head, and not both")
    return PhantomRequest(phantom, contrast or "PD", parse_shape(size or "320x320"), 1 if slices is None else slices)
