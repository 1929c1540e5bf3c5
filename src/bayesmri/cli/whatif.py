"""bayesmri whatif FILE --erase x,y,r | --plant x,y,r,c -o OUT.h5."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from bayesmri.bounded import one_line
from bayesmri.cli.options import Whole
from bayesmri.cli.output import print_json, print_messages, print_removed, print_wrote
from bayesmri.errors import ConfigError
from bayesmri.machine.memory import keep_memory
from bayesmri.recon.acquisition import Sampling
from bayesmri.recon.files import with_ending
from bayesmri.recon.intervention import intervention, whatif_file
from bayesmri.recon.request import MethodName, Options


def whatif(
    file: Path,
    /,
    *,
    erase: str | None = None,
    plant: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    slice: Whole | None = None,
    method: MethodName | None = None,
    model: str | None = None,
    acceleration: float | None = None,
    center_fraction: float | None = None,
    mask: str = "random",
    seed: Whole = 0,
    single_coil: bool = False,
    full_fov: bool = False,
    scale: float | None = None,
    device: str = "cpu",
    png: bool = False,
    anonymise: bool = False,
    force: bool = False,
    json: bool = False,
) -> None:
    """Take a structure out of the image of FILE, or put one in, scan it anew and reconstruct: did the data carry it?

    What was erased and comes back by itself was invented by the model; what stays away was in the data.

    Parameters
    ----------
    file
        K-space of any known format.
    erase
        x,y,r: column, row and radius in pixels of the shown image, from 0. What is inside becomes what is around.
    plant
        x,y,r,c: a disc of contrast c over the brightness around, such as 0.3 (−0.3: darker).
    output
        HDF5 file to write, .h5 or .hdf5; FILE.whatif.h5 in the working folder unless given.
    slice
        Of the volume, from 0; the middle one unless given.
    method
        Reconstruct by a method without a model.
    model
        Trained model, as in `bayesmri recon`; auto unless a method is given.
    acceleration
        Undersample a fully sampled file by R first.
    center_fraction
        Share of the lines in the calibration area; 0.32/R unless given.
    mask
        random, equispaced, or a file, as in `bayesmri recon`.
    seed
        Seed of the mask.
    single_coil
        Combine the coils into one emulated coil first.
    full_fov
        Count x and y on the whole grid where the file asks for its central part only.
    scale
        Divide the data by this number, as `bayesmri recon --scale`.
    device
        cpu, cuda or cuda:N.
    png
        Also write OUT.png: before, as asked for, after, and the change asked for beside the one seen.
    anonymise
        Leave out what identifies a patient (docs/privacy.md), and list what that was.
    force
        Overwrite outputs that are there already.
    json
        Print JSON instead of text.
    """
    if method is not None and model is not None:
        raise ConfigError(
            f"got both the method {method} and the model {model}, expected one of them; leave one of the two out"
        )
    asked = intervention(erase, plant, slice)
    keep_memory()
    sampling = Sampling(acceleration, center_fraction, mask, None, seed)
    options = Options(
        method=method or "tv",
        model=None if method else model or "auto",
        single_coil=single_coil,
        full_fov=full_fov,
        scale=scale,
        device=device,
    )
    made = whatif_file(
        file,
        output or Path("anonymous.whatif.h5" if anonymise else with_ending(Path(file.name), ".whatif.h5")),
        asked,
        options,
        sampling if sampling.needs_full_data else None,
        png=png,
        anonymise=anonymise,
        force=force,
    )
    print_messages(made)
    print_removed(made)
    if json:
        print_json(made)
        return
    what = "what is" if asked.kind == "erase" else "a structure"
    print(
        f"{one_line(made['file'])}, slice {made['slice']}: {what} at {asked.x:g},{asked.y:g} within {asked.r:g} pixels"
    )
    print(f"  {made['verdict']}")
    units = "" if made["noise_units"] is None else f", {made['noise_units']:.1f} times the noise"
    print(f"  the measured lines hold {100 * made['kept']:.0f} % of its energy{units} ({made['method']})")
    print_wrote(made["outputs"])
