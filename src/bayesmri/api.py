"""The few functions a script or a notebook needs."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, SupportsIndex, cast, get_args

from numpy.typing import ArrayLike

from bayesmri.arguments import as_array, as_images, number, texts, whole
from bayesmri.bounds.bound import FLOOR, RELATIVE_FLOOR, Region
from bayesmri.bounds.expected import Expected
from bayesmri.checkpoint import load_model as _load
from bayesmri.checkpoint import save_model as _save
from bayesmri.config import parse
from bayesmri.data.simulate import Scanner
from bayesmri.errors import ConfigError, DataError
from bayesmri.evaluation.calibrate import calibrate as _calibrate
from bayesmri.evaluation.calibrate import with_bound
from bayesmri.evaluation.cohort import Loaded, load_stochastic
from bayesmri.evaluation.request import Wanted
from bayesmri.io.guard import one_line
from bayesmri.io.inspect import data_messages, mask_messages
from bayesmri.io.layout.array import kspace_of_array
from bayesmri.io.layout.given import Given
from bayesmri.io.layout.overrule import stored_mask
from bayesmri.io.sensitivity_maps import with_sensitivities
from bayesmri.kspace import Images, KSpace
from bayesmri.model import Model
from bayesmri.recon.acquisition import RULES, Sampling
from bayesmri.recon.files import Anatomy, PhantomRequest
from bayesmri.recon.intervention import Intervention
from bayesmri.recon.method import model_name
from bayesmri.recon.reconstruct import Reconstruction
from bayesmri.recon.reconstruct import reconstruct as _reconstruct
from bayesmri.recon.request import BASELINES, MethodName, Options, check_sensitivities
from bayesmri.recon.simulated import measured, phantom_images
from bayesmri.recon.undersample import check_full, keep_lines
from bayesmri.recon.undersample import single_coil as to_single_coil
from bayesmri.recon.undersample import undersample as _undersample
from bayesmri.recon.whatif import WhatIf
from bayesmri.recon.whatif import whatif as _whatif
from bayesmri.training.run_folder import read_config
from bayesmri.training.run_folder import train as _train
from bayesmri.training.settings import TrainConfig


def as_kspace(
    z: ArrayLike,
    mask: ArrayLike | None = None,
    *,
    axes: str | None = None,
    shifted: bool | None = None,
    images: bool | None = None,
) -> KSpace:
    """K-space from an array: (H, W), (coils, H, W) or (slices, coils, H, W), complex, zero frequency in the centre.

    mask: one bool per column, or per row and column; found in the data as the readers of files do unless given.
    axes: what each axis is where it is otherwise, such as "row column coil"; - for one of which the first is taken.
    shifted: the zero frequency lies in the corners. images: these are complex coil images, to be transformed.
    """
    if isinstance(z, Images):
        raise DataError(
            f"got magnitude images ({z.header.source}), expected k-space; `bayesmri simulate` makes k-space of them"
        )
    if isinstance(z, str | Path):
        raise DataError(f"got the name {one_line(z)}, expected k-space; bayesmri.read gives that of a file")
    given = Given.of(axes, shifted=shifted, images=images)
    lines = None if mask is None else as_array("the mask", mask)
    return kspace_of_array(as_array("k-space", z).copy(), mask=lines, source="array", name="an array", given=given)


def simulate(
    source: "Literal['knee', 'head'] | Images | ArrayLike",
    *,
    shape: tuple[int, int] = (320, 320),
    slices: SupportsIndex = 1,
    contrast: "Literal['PD', 'PD-FS']" = "PD",
    coils: SupportsIndex = 1,
    snr_db: float | None = None,
    seed: SupportsIndex = 0,
) -> KSpace:
    """Fully sampled k-space as `bayesmri simulate` makes it: smooth phase, coils around the object, noise.

    source: the phantom "knee" or "head" (of which shape, slices and contrast speak), or magnitude images, as `read`
        gives them or an array (slices, H, W) or (H, W).
    """
    draw = whole("seed", seed)
    if isinstance(source, str):
        if source not in get_args(Anatomy):
            raise ConfigError(f"got the phantom {source!r}, expected {' or '.join(get_args(Anatomy))}, or images")
        drawn = PhantomRequest(cast(Anatomy, source), contrast, shape, whole("slices", slices))
        images = phantom_images(drawn, seed=draw)
    else:
        images = source if isinstance(source, Images) else as_images(as_array("the images", source))
    return measured(images, Scanner(coils=whole("coils", coils), snr_db=number("SNR", snr_db)), seed=draw)


def undersample(
    kspace: KSpace | ArrayLike,
    acceleration: float | None = None,
    *,
    center_fraction: float | None = None,
    mask: str | Path | ArrayLike = "random",
    offset: SupportsIndex | None = None,
    seed: SupportsIndex = 0,
    strict: bool = False,
) -> KSpace:
    """Exactly round(W/R) lines of fully sampled data; `truth` of the result is the fully sampled image.

    acceleration: R, 4 unless given or the mask is one's own.
    mask: random, equispaced, partial-fourier, poisson, elliptical, a file, or an array of 0 and 1, one for each column,
        or one for each row and column.
    strict: raise a StrictError where there is something to warn of.
    """
    full, own = _as_kspace(kspace), not isinstance(mask, str) or mask not in RULES
    sampling = Sampling(
        4.0 if acceleration is None and not own else number("acceleration", acceleration),
        number("center fraction", center_fraction),
        str(mask) if isinstance(mask, str | Path) else "array",
        None if offset is None else whole("offset", offset),
        whole("seed", seed),
    )
    if isinstance(mask, str | Path):
        sampled = _undersample(full, sampling)
    else:
        check_full(full)
        sampled = keep_lines(full, stored_mask(as_array("the mask", mask), (full.z.shape[2], full.z.shape[3])))
    if strict:
        (data_messages(full) + mask_messages(sampled.encoded_mask)).check(strict=True)
    return sampled


def load_model(path: str | Path) -> "Model":
    """A trained model, to reconstruct with many times: a shipped name, a run folder or a model's .json file."""

    return _load(path)


def save_model(path: str | Path, model: "Model") -> None:
    """A model to give away: the .json file of that path, and its weights beside it."""

    _save(Path(path), model)


def train(
    config: "TrainConfig | Mapping[str, Any] | str | Path",
    out: str | Path,
    *,
    resume: bool = False,
    say: "Callable[[str, dict[str, Any]], None] | None" = None,
) -> "Model":
    """Train into the folder `out`, as `bayesmri train` does; returns the best model of the run.

    config: a .toml file, the same as nested tables, or a TrainConfig. resume: go on from the last checkpoint.
    say: called with the name of every event (log, val, note) and its values.
    """

    if isinstance(config, str | Path):
        config = read_config(Path(config))
    settings = config if isinstance(config, TrainConfig) else parse(TrainConfig, config)
    _train(settings, Path(out), resume=resume, say=say or (lambda event, values: None))
    return _load(Path(out))


def reconstruct(
    kspace: KSpace | ArrayLike,
    model: "str | Path | Model" = "tv",
    *,
    samples: SupportsIndex = 0,
    seed: SupportsIndex = 0,
    keep_samples: bool = False,
    fast: bool = False,
    level: float | None = None,
    check: bool = False,
    tune: bool = False,
    device: str = "cpu",
    tv_weight: float | None = None,
    coils: SupportsIndex | None = None,
    single_coil: bool = False,
    full_fov: bool = False,
    scale: float | None = None,
    sensitivities: ArrayLike | None = None,
    visibility: Sequence[str] = (),
    strict: bool = False,
) -> "Reconstruction":
    """A value with `mean` (also called `image`), `zero_filled`, `mask` and `metrics(truth)`; with samples also `std`.

    Images are float32 (slices, h, w), in the units of the input.

    model: "tv", "zero-filled", "sense" or "l1-wavelet", or a trained model: "auto" (a shipped one that fits coils and
        acceleration; `method` of the result names it), a shipped name, a run folder or file, or a loaded one.
    samples: N draws of the model's posterior; 0 reconstructs once, at its mean.
    fast: six draws, or as many as `samples` says, of which the model's predictor makes mean and std.
    level: of `error_bound`, refused where the model was not calibrated for such data; None takes the highest level that
        holds, if any.
    check: also give `expected`, the error as lines that were measured and left out tell it; takes five times as long.
    tune: let left-out lines of this scan choose ρ and the number of steps of the model; `tuned` says which.
    seed: of the draws. keep_samples: also give `samples`, (slices, N, h, w).
    coils: compress to that many virtual coils first (SVD); models do so by themselves.
    single_coil: combine the coils into one emulated coil first, as fastMRI's single-coil track does. A truth that came
        with the data is that of all coils, and left out then: give `metrics` one of your own.
    full_fov: keep the whole grid where the data asks for its central part only (readout oversampling).
    scale: what the data is divided by, instead of a number taken from the whole volume: with `scale` of the volume's
        result a slice alone becomes the image that it is in its volume (docs/inputs.md#scale).
    sensitivities: of the coils, complex (coils, H, W), (sets, coils, H, W) or (slices, sets, coils, H, W), for models
        that know coils; estimated from the central lines unless given.
    visibility: templates such as "lesion:3:0.3"; `visibility` of the result has, by these texts, `mean` in percent of
        the contrast that would survive at every place, `worst` over directions, and `visible_from`.
    strict: raise a StrictError where there are warnings, which `warnings` of the result would hold; `notes` has what
        was done or assumed.
    """

    method, learned = _named(model)
    options = Options(
        method=method,
        model=learned,
        device=device,
        tv_weight=number("TV weight", tv_weight),
        coils=None if coils is None else whole("coils", coils),
        single_coil=single_coil,
        full_fov=full_fov,
        scale=number("scale", scale),
        samples=whole("samples", samples),
        seed=whole("seed", seed),
        keep_samples=keep_samples,
        fast=fast,
        level=number("level", level),
        check=check,
        tune=tune,
        visibility=texts("visibility", visibility),
        strict=strict,
    )
    measured = _as_kspace(kspace)
    if sensitivities is not None:
        check_sensitivities(options)
        measured = with_sensitivities(measured, as_array("sensitivities", sensitivities))
    return _reconstruct(to_single_coil(measured) if single_coil else measured, options)


def check(
    kspace: KSpace | ArrayLike,
    model: "str | Path | Model" = "tv",
    *,
    device: str = "cpu",
    single_coil: bool = False,
    full_fov: bool = False,
    scale: float | None = None,
    sensitivities: ArrayLike | None = None,
) -> "Expected":
    """PSNR, NMSE and RMS error to be expected of a reconstruction, without a truth: `psnr`, `psnr_low`, `psnr_high`, …

    All as for `reconstruct`, whose `expected` this is. Data that cannot tell it is a DataError.
    """
    result = reconstruct(
        kspace,
        model,
        check=True,
        device=device,
        single_coil=single_coil,
        full_fov=full_fov,
        scale=scale,
        sensitivities=sensitivities,
    )
    if result.expected is None:
        raise DataError(result.notes[-1])
    return result.expected


def whatif(
    kspace: KSpace | ArrayLike,
    model: "str | Path | Model" = "auto",
    *,
    erase: Sequence[float] | None = None,
    plant: Sequence[float] | None = None,
    slice: SupportsIndex | None = None,
    device: str = "cpu",
    single_coil: bool = False,
    full_fov: bool = False,
    scale: float | None = None,
) -> "WhatIf":
    """A structure taken out of the image (erase: x, y, r) or put in (plant: x, y, r, contrast), scanned and
    reconstructed again: `carried` (1: the data carried it, 0: the model made it), `noise_units`, `verdict`.

    x, y: column and row in the image that `reconstruct` gives, from 0; r in pixels. slice: the middle one unless given.
    model and the rest: as for `reconstruct`.
    """
    if (erase is None) == (plant is None):
        raise ConfigError("got neither or both of erase and plant, expected one of them, such as erase=(120, 96, 4)")
    name, values, length = ("erase", erase, 3) if plant is None else ("plant", plant, 4)
    numbers = as_array(name, cast(ArrayLike, values))
    if numbers.shape != (length,) or numbers.dtype.kind not in "iuf":
        raise ConfigError(f"got {name} {one_line(repr(values), limit=60)}, expected {length} numbers")
    x, y, r, *contrast = map(float, numbers)
    asked = Intervention(x, y, r, contrast[0] if contrast else None, None if slice is None else whole("slice", slice))
    method, learned = _named(model)
    options = Options(
        method=method,
        model=learned,
        device=device,
        single_coil=single_coil,
        full_fov=full_fov,
        scale=number("scale", scale),
    )
    measured = _as_kspace(kspace)
    return _whatif(to_single_coil(measured) if single_coil else measured, asked, options)


def calibrate(
    model: "str | Path | Model",
    data: str | Path,
    *,
    level: float = 0.9,
    acceleration: float | None = None,
    samples: int | None = None,
    fast: bool = False,
    region: Region = "everywhere",
    cap: float | None = None,
    by_file: bool = False,
    relative: bool = False,
    slices: int | None = None,
    mask: str = "random",
    seed: int = 0,
) -> "Model":
    """The model with an error bound at that level, which `reconstruct` then gives as `error_bound`.

    The last of `calibrations` added says what is promised (`guarantee`). Nothing is written. A warning names volumes
    that had to be left out.

    data: a folder of fully sampled volumes that the model was not trained on; files that name one patient are one
        subject, unless `by_file`.
    acceleration: R, the model's own unless given. samples: N, 32 unless given; the bound holds for this number alone.
    region: pixels that are counted, everywhere or foreground.
    cap: the largest share of a subject's pixels that counts as missed; by the number of subjects unless given.
    relative: to the error that left-out lines tell of a scan; `reconstruct` then has the bound with `check` alone.
    """

    loaded = Loaded(model_name(model), Path(), model) if isinstance(model, Model) else load_stochastic(str(model))
    wanted = Wanted(
        data=Path(data),
        level=level,
        acceleration=number("acceleration", acceleration),
        samples=None if samples is None else whole("samples", samples),
        fast=fast,
        region=region,
        cap=number("cap", cap),
        by_file=by_file,
        relative=relative,
        floor=RELATIVE_FLOOR if relative else FLOOR,
        slices=None if slices is None else whole("slices", slices),
        mask=mask,
        seed=whole("seed", seed),
    )
    found, facts = _calibrate(loaded, wanted)
    if facts["skipped"]:
        warnings.warn(f"left out of the calibration: {'; '.join(facts['skipped'])}", stacklevel=2)
    return with_bound(loaded.model, found)


def _named(model: "str | Path | Model") -> "tuple[MethodName, str | Model | None]":
    """A method by its name, or else a model."""
    if isinstance(model, str) and model in BASELINES:
        return cast(MethodName, model), None
    return "tv", str(model) if isinstance(model, Path) else model


def _as_kspace(value: KSpace | ArrayLike) -> KSpace:
    return value if isinstance(value, KSpace) else as_kspace(value)
