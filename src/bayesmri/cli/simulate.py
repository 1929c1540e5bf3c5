"""bayesmri simulate (--phantom NAME | IMAGES) -o FILE.h5."""

from pathlib import Path
from typing import Literal

from bayesmri.cli.options import Out, parse_shape
from bayesmri.cli.output import count, print_json
from bayesmri.errors import ConfigError
from bayesmri.pipeline.files import PhantomRequest, simulate_file


def simulate(
    images: Path | None = None,
    /,
    *,
    output: Out,
    phantom: Literal["knee", "head"] | None = None,
    contrast: Literal["PD", "PD-FS"] = "PD",
    size: str = "320x320",
    slices: int = 1,
    coils: int = 1,
    snr: float | None = None,
    seed: int = 0,
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
        Of the phantom: proton density, without or with fat saturation.
    size
        Of the phantom, HxW in pixels.
    slices
        Of the phantom.
    coils
        Receive coils around the object.
    snr
        Power signal-to-noise ratio of k-space in dB; no noise unless given.
    seed
        Of anatomy, phase, coils and noise.
    json
        Print JSON instead of text.
    """
    if (images is None) == (phantom is None):
        raise ConfigError("give either IMAGES or --phantom knee|head, and not both")
    source = images if images is not None else PhantomRequest(phantom or "knee", contrast, parse_shape(size), slices)
    made = simulate_file(source, output, coils=coils, snr_db=snr, seed=seed)
    if json:
        print_json(made)
    else:
        H, W = made["shape"]
        print(f"{output}: {count(made['slices'], 'slice')}, {count(made['coils'], 'coil')}, {H} x {W}, fully sampled")
