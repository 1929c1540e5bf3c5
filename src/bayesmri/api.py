"""The few functions a script or a notebook needs."""

from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesmri.bounds import Region
from bayesmri.data.kspace import Header, KSpace
from bayesmri.data.sampling import finish, mask_from_file
from bayesmri.errors import DataError, ShapeError
from bayesmri.pipeline.options import BASELINES, MethodName, Options
from bayesmri.pipeline.sampling import Sampling
from bayesmri.pipeline.sampling import undersample as _undersample

if TYPE_CHECKING:
    from bayesmri.model import Model
    from bayesmri.pipeline.reconstruct import Reconstruction


def as_kspace(z: ArrayLike, mask: ArrayLike | None = None) -> KSpace:
    """K-space from an array: (H, W), (coils, H, W) or (slices, coils, H, W), complex, zero frequency in the centre.

    mask: one bool per column; found in the data as the readers of files do unless given.
    """
    array = np.asarray(z)
    if array.dtype.kind != "c":
        raise DataError(f"an array of {array.dtype} came: k-space is complex; for magnitude images simulate it first")
    if not 2 <= array.ndim <= 4:
        raise ShapeError(f"an array of shape {array.shape} came: want (H, W), (coils, H, W) or (slices, coils, H, W)")
    volume: NDArray[np.complex64] = array.reshape((1,) * (4 - array.ndim) + array.shape).astype(np.complex64)
    lines = None if mask is None else mask_from_file(np.asarray(mask), volume.shape[-1])
    return finish(volume, Header(source="array"), mask=lines)


def undersample(
    kspace: KSpace | ArrayLike,
    acceleration: float = 4.0,
    *,
    center_fraction: float | None = None,
    mask: str = "random",
    offset: int | None = None,
    seed: int = 0,
) -> KSpace:
    """Exactly round(W/R) lines of fully sampled data; `truth` of the result is the fully sampled image."""
    return _undersample(_as_kspace(kspace), Sampling(acceleration, center_fraction, mask, offset, seed))


def load_model(path: str | Path) -> "Model":
    """A trained model, to reconstruct with many times: a shipped name, a run folder or a model's .json file."""
    from bayesmri.checkpoint import load_model as load

    return load(Path(path))


def reconstruct(
    kspace: KSpace | ArrayLike,
    model: "str | Path | Model" = "tv",
    *,
    samples: int = 0,
    seed: int = 0,
    keep_samples: bool = False,
    fast: bool = False,
    level: float | None = None,
    device: str = "cpu",
    tv_weight: float | None = None,
) -> "Reconstruction":
    """A value with `mean` (also called `image`), `zero_filled`, `mask` and `metrics(truth)`; with samples also `std`.

    Images are float32 (slices, h, w), in the units of the input.

    model: "tv", "zero-filled", "sense" or "l1-wavelet", or a trained model: "auto" (a shipped one that fits coils and
        acceleration; `method` of the result names it), a shipped name, a run folder or file, or a loaded one.
    samples: N draws of the model's posterior; 0 reconstructs once, at its mean.
    fast: six draws, or as many as `samples` says, of which the model's predictor makes mean and std.
    level: of `error_bound`, refused where the model was not calibrated for such data; None takes the highest level that
        holds, if any.
    seed: of the draws. keep_samples: also give `samples`, (slices, N, h, w).
    """
    from bayesmri.pipeline.reconstruct import reconstruct as run

    method, learned = _named(model)
    return run(
        _as_kspace(kspace),
        Options(
            method=method,
            model=learned,
            device=device,
            tv_weight=tv_weight,
            samples=samples,
            seed=seed,
            keep_samples=keep_samples,
            fast=fast,
            level=level,
        ),
    )


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
    slices: int | None = None,
    mask: str = "random",
    seed: int = 0,
) -> "Model":
    """The model with an error bound at that level, which `reconstruct` then gives as `error_bound`.

    The last of `calibrations` added says what is promised (`guarantee`). Nothing is written.

    data: a folder of fully sampled volumes that the model was not trained on; files that name one patient are one
        subject, unless `by_file`.
    acceleration: R, the model's own unless given. samples: N, 32 unless given; the bound holds for this number alone.
    region: pixels that are counted, everywhere or foreground.
    cap: the largest share of a subject's pixels that counts as missed; by the number of subjects unless given.
    """
    from bayesmri.model import Model
    from bayesmri.pipeline.calibrate import Wanted, with_bound
    from bayesmri.pipeline.calibrate import calibrate as run
    from bayesmri.pipeline.methods import model_name
    from bayesmri.pipeline.study_volumes import Loaded, load_stochastic

    loaded = Loaded(model_name(model), Path(), model) if isinstance(model, Model) else load_stochastic(str(model))
    wanted = Wanted(
        data=Path(data),
        level=level,
        acceleration=acceleration,
        samples=samples,
        fast=fast,
        region=region,
        cap=cap,
        by_file=by_file,
        slices=slices,
        mask=mask,
        seed=seed,
    )
    return with_bound(loaded.model, run(loaded, wanted)[0])


def _named(model: "str | Path | Model") -> "tuple[MethodName, str | Model | None]":
    """A method by its name, or else a model."""
    if isinstance(model, str) and model in BASELINES:
        return cast(MethodName, model), None
    return "tv", str(model) if isinstance(model, Path) else model


def _as_kspace(value: KSpace | ArrayLike) -> KSpace:
    return value if isinstance(value, KSpace) else as_kspace(value)
