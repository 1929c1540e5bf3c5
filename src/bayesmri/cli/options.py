"""Options that several commands share."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter, Token

from bayesmri.cluster.connect import Hands, hands
from bayesmri.errors import ConfigError
from bayesmri.io.layout.given import Given
from bayesmri.io.mrd.choice import Choice
from bayesmri.physics.pattern import MaskKind

Out = Annotated[Path, Parameter(name=["--output", "-o"])]


def _whole(kind: Any, tokens: Sequence[Token]) -> int:
    """cyclopts alone would read 1.5 as 1."""
    try:
        return int(tokens[0].value)
    except ValueError as error:
        raise ValueError(f"{tokens[0].value!r} is not a whole number") from error


Whole = Annotated[int, Parameter(converter=_whole)]


@Parameter(name="*")
@dataclass(frozen=True)
class Scan:
    """How fully sampled volumes are seen: the flags of `Acquisition`, shared by all commands that judge.

    Attributes
    ----------
    slices
        Use only so many slices in the middle of every volume, as if it held no others: a quick look.
    mask
        How lines are chosen: random, equispaced, partial-fourier (5/8 of k-space, from one edge on); or points of both
        axes: poisson (a variable-density Poisson disc), elliptical (the same without the corners of k-space).
    center_fraction
        Share of the lines in the fully sampled centre; 0.32/R unless given. Of points, of rows and of columns; 0.64/R.
    coils
        Simulated for magnitude images, 1 unless given; for arrays (--track multi) of all volumes that are none, 8.
    most_coils
        Arrays of --coils to so many coils, one number for every file, instead of all alike.
    snr
        Signal-to-noise ratio of simulated k-space, in dB.
    device
        cpu, cuda or cuda:N.
    seed
        Seed of coils, phase, noise, masks and samples, together with each file's name.
    """

    slices: Whole | None = None
    mask: MaskKind = "random"
    center_fraction: float | None = None
    coils: Whole | None = None
    most_coils: Whole = 0
    snr: float | None = 30.0
    device: str = "cpu"
    seed: Whole = 0

    def values(self) -> dict[str, Any]:
        """As `Acquisition` calls them."""
        own = {part.name: getattr(self, part.name) for part in fields(self) if part.name != "snr"}
        return {**own, "snr_db": self.snr, "coils": 1 if self.coils is None else self.coils}


SCAN = Scan()


@Parameter(name="*")
@dataclass(frozen=True)
class Layout:
    """What the user says of an array that does not say it itself.

    Attributes
    ----------
    axes
        What each axis of an array is (.npy, .npz, HDF5 `kspace`, .cfl): slice, coil, row and column in the order of the
        file, such as "row column coil"; - for an axis of which the first entry is taken. The rows are the readout; of
        3-D k-space readout is an axis of its own, in the place of slice.
    shifted
        The zero frequency lies in the corners of k-space, as np.fft.fft2 leaves it, and is moved to the centre;
        --no-shifted: it lies in the centre, whatever it seems.
    images
        The array holds complex coil images, which are transformed into k-space; --no-images: it holds k-space, whatever
        it seems.
    """

    axes: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None
    shifted: bool | None = None
    images: bool | None = None

    def given(self) -> Given:
        return Given.of(self.axes, shifted=self.shifted, images=self.images)


LAYOUT = Layout()


@Parameter(name="*")
@dataclass(frozen=True)
class Source:
    """Which image of a file is read, and how carefully.

    Attributes
    ----------
    repetition
        Of an ISMRMRD/MRD file, by its own counter, from 0; the first unless given.
    contrast
        Likewise, such as the echo.
    phase
        Likewise, such as the phase of the heart.
    set
        Likewise, such as the velocity encoding.
    prewhiten
        Make the noise of the coils independent and equally strong, by the noise scans of an ISMRMRD/MRD file.
    trusted
        Read the file in this process. Files are read in a child process with limits of memory and time otherwise,
        since a damaged or hostile one can crash the library that reads it.
    """

    repetition: Whole | None = None
    contrast: Whole | None = None
    phase: Whole | None = None
    set: Whole | None = None
    prewhiten: bool = True
    trusted: bool = False

    def choice(self) -> Choice:
        return Choice(self.repetition, self.contrast, self.phase, self.set, self.prewhiten)


SOURCE = Source()


@Parameter(name="*")
@dataclass(frozen=True)
class Workers:
    """Who does the work; results are the same, bit by bit.

    Attributes
    ----------
    workers
        Processes of this machine, of one thread each, that slices and blocks of samples are shared out to (Dask).
    cluster
        A Dask cluster instead: tcp://HOST:PORT of its scheduler, the scheduler's .json file, or a .toml file that says
        how jobs of a batch system are (kind = "slurm", jobs, cores, memory, …).
    """

    workers: Whole | None = None
    cluster: str | None = None

    def at_work(self) -> AbstractContextManager[object]:
        return hands(Hands(self.workers, self.cluster))


WORKERS = Workers()


def parse_shape(text: str) -> tuple[int, int]:
    """ "320x256" → (320, 256); one number stands for a square."""
    parts = text.lower().split("x")
    if not 1 <= len(parts) <= 2 or not all(part.isdecimal() for part in parts):
        raise ConfigError(f"got the size {text!r}, expected HxW in pixels, such as 320x320")
    return int(parts[0]), int(parts[-1])
