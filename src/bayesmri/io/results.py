"""What `bayesmri recon` wrote: images at once, samples and k-space slice by slice; NumPy only."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from bayesmri.errors import BayesMRIError, DataError, FormatError
from bayesmri.io.guard import one_line, regular_file
from bayesmri.io.h5_geometry import stored_dicom, with_geometry
from bayesmri.io.integrity.seal import check_seal
from bayesmri.io.safe_h5 import (
    MESSAGES,
    check_size,
    dataset,
    member,
    names,
    number_attribute,
    open_h5,
    read_real,
    stored_messages,
    text_attribute,
)
from bayesmri.kspace import Header
from bayesmri.messages import NOTHING, Messages

Image = NDArray[np.float32]

SOURCE = "expected the HDF5 file that `bayesmri recon` wrote"
MAPS_MAX = 32  # of visibility
CONTENTS_MAX = 100  # names that are listed
PROVENANCE_MAX = 2**20  # characters
# by their names in the file; all but the truth have the shape of the reconstruction
IMAGES = ("uncertainty_std", "deterministic", "zero_filled", "error_std", "error_bound")
GROUP = "visibility"  # of maps, by the text of their templates
PROMISE = ("guarantee", "region", "subjects", "factor", "floor", "cap", "of")  # attributes of the error bound

EXPECTED = ("psnr", "psnr_low", "psnr_high", "nmse", "noise_share", "left_out")  # of the image, as expected_…


@dataclass(frozen=True, eq=False)
class Result:
    """An open file of `recon`.

    mean: float32 (slices, h, w). others: by their names in the file, of the same shape. truth: (slices, h', w').
    level: of the error bound, in (0, 1), where the file says it; promise: what else it says of the bound, by name.
    bound_note: why there is none, where the model has bounds for other data, or "".
    expected: psnr, psnr_low, psnr_high, nmse, … as left-out lines told them; {} where that was not asked for.
    mask: acquired lines, bool (W,), or points, bool (H, W).
    provenance: as recorded, {} where it is absent or cannot be read. contents: name, shape and dtype of every dataset.
    visibility: maps in percent by the texts of their templates, of the shape of the mean; visible_from: contrasts.
    said: notes and warnings. identified: the file names a patient.
    n_samples: kept for every slice. grid: (H, W) of the k-space in the file.
    """

    name: str
    mean: Image
    others: dict[str, Image]
    truth: Image | None
    level: float | None
    promise: dict[str, str]
    bound_note: str
    expected: dict[str, float]
    mask: NDArray[np.bool_] | None
    header: Header
    provenance: dict[str, Any]
    contents: tuple[tuple[str, str, str], ...]
    identified: bool
    n_samples: int
    grid: tuple[int, int] | None
    file: Any
    visibility: dict[str, Image] = field(default_factory=dict)
    visible_from: dict[str, float] = field(default_factory=dict)
    said: Messages = NOTHING

    @property
    def method(self) -> str:
        """The model or method as recorded; "" where it is not."""
        return _method(self._config())

    @property
    def drawn(self) -> int:
        """N, how many samples mean and standard deviation are made of; 0 where the file does not say."""
        n = self._config().get("samples")
        return n if isinstance(n, int) and 0 < n < 10**6 else self.n_samples

    @property
    def fast(self) -> bool:
        """Mean and standard deviation were predicted from few samples."""
        return self._config().get("fast") is True

    def _config(self) -> dict[str, Any]:
        config = self.provenance.get("config")
        return config if isinstance(config, dict) else {}

    def sample(self, s: int, i: int) -> Image:
        """Image i of slice s: (h, w)."""
        return _finite(self.file["samples"][s, i], "samples", self.name)

    def kspace_mean(self, s: int) -> Image:
        """(Σ_q |ū_q|²)^{1/2} of slice s over the model's coils: (H, W)."""
        return self._over_coils("kspace_mean", s)

    def kspace_std(self, s: int) -> Image:
        """(Σ_q σ_q²)^{1/2} of slice s: (H, W)."""
        return self._over_coils("kspace_std", s)

    def _over_coils(self, key: str, s: int) -> Image:
        # squares of single precision would overflow for a scanner of large numbers
        magnitude = np.abs(self.file[key][s]).astype(np.float64)
        return _finite(np.sqrt(np.sum(magnitude * magnitude, axis=0)), key, self.name)


@dataclass(frozen=True)
class Glance:
    """What a list of results says of each: read without its images. shape: (slices, h, w)."""

    method: str
    samples: int
    shape: tuple[int, ...]
    provenance: dict[str, Any]


def glance(path: Path) -> Glance | None:
    """None where the file is something else, or cannot be read."""
    try:
        regular_file(path)
        if not h5py.is_hdf5(path):
            return None
        with open_h5(path) as file:
            if "reconstruction" not in names(file):
                return None
            shape = dataset(file, "reconstruction").shape
            told = _provenance(file)
    except BayesMRIError:
        return None
    found = told.get("config")
    config: dict[str, Any] = found if isinstance(found, dict) else {}
    n = config.get("samples")
    return Glance(_method(config), n if isinstance(n, int) and 0 < n < 10**6 else 0, tuple(shape), told)


def _method(config: Mapping[str, Any]) -> str:
    named = config.get("model") or config.get("method")
    return one_line(named, limit=60) if isinstance(named, str) else ""


@contextmanager
def open_result(path: Path) -> Iterator[Result]:
    """The file, checked: every shape fits, every image is finite; errors while it is open name the file."""
    regular_file(path)
    if not h5py.is_hdf5(path):
        raise FormatError(f"{one_line(path)} is not an HDF5 file, {SOURCE}")
    with open_h5(path) as file:
        if "reconstruction" not in names(file):
            raise FormatError(f"{one_line(path)} holds no `reconstruction`, {SOURCE}")
        check_seal(file)
        yield _result(file, one_line(path.name, limit=120))


def read_provenance(path: Path) -> dict[str, Any]:
    """What a file records of its making, {} where that is nothing; one that is damaged is a FormatError."""
    with open_h5(path) as file:
        check_seal(file)
        return _provenance(file)


def _result(file: Any, name: str) -> Result:
    image = _image(file, "reconstruction", name)
    if min(image.shape) < 1:
        raise FormatError(f"`reconstruction` in {name} has shape {image.shape}, expected at least one slice and pixel")
    present = set(names(file))
    others = {key: _image(file, key, name) for key in IMAGES if key in present}
    for key, other in others.items():
        _want(other.shape == image.shape, key, other.shape, image.shape, name)
    truth = _image(file, "target", name) if "target" in present else None
    if truth is not None:
        _want(len(truth) == len(image) and min(truth.shape) > 0, "target", truth.shape, image.shape, name)
    return Result(
        name=name,
        mean=image,
        others=others,
        truth=truth,
        level=_level(file) if "error_bound" in others else None,
        promise=_promise(file["error_bound"]) if "error_bound" in others else {},
        bound_note=text_attribute(file["uncertainty_std"], "bound_note", limit=400)
        if "uncertainty_std" in others
        else "",
        expected=_expected(file["reconstruction"]),
        mask=_mask(file, name) if "mask" in present else None,
        header=with_geometry(_header(file), file),
        provenance=_provenance(file),
        contents=tuple(_described(file, key) for key in names(file)[:CONTENTS_MAX] if key != MESSAGES),
        identified=bool(text_attribute(file, "patient_id")),
        n_samples=_n_samples(file, image.shape, name) if "samples" in present else 0,
        grid=_grid(file, len(image), name) if {"kspace_mean", "kspace_std"} <= present else None,
        file=file,
        **(_visibility(file, image.shape, name) if GROUP in present else {}),
        said=stored_messages(file),
    )


def _header(file: Any) -> Header:
    return Header(
        "recon",
        acquisition=text_attribute(file, "acquisition"),
        patient_id=text_attribute(file, "patient_id"),
        dicom=stored_dicom(file),
    )


def _visibility(file: Any, shape: tuple[int, ...], name: str) -> dict[str, Any]:
    group = member(file, GROUP)
    if not isinstance(group, h5py.Group):
        raise FormatError(f"`{GROUP}` in {name} is no group of maps, {SOURCE}")
    keys = names(group)[:MAPS_MAX]
    maps = {key: _image(group, key, name) for key in keys}
    for key, found in maps.items():
        _want(found.shape == shape, f"{GROUP}/{key}", found.shape, shape, name)
    known = {key: number_attribute(group[key], "visible_from", shape=()) for key in keys}
    contrasts = {one_line(key, limit=80): float(value) for key, value in known.items() if value is not None}
    return {"visibility": {one_line(key, limit=80): image for key, image in maps.items()}, "visible_from": contrasts}


def _image(file: Any, key: str, name: str) -> Image:
    return _finite(read_real(file, key, ndim=(3,)), key, name)


def _finite(array: NDArray[Any], key: str, name: str) -> Image:
    with np.errstate(over="ignore"):
        single = np.asarray(array, dtype=np.float32)
    if not np.isfinite(single).all():
        raise DataError(f"`{key}` in {name} holds NaN or Inf, expected finite numbers; reconstruct it again")
    return single


def _want(fits: bool, key: str, shape: tuple[int, ...], other: tuple[int, ...], name: str) -> None:
    if not fits:
        raise FormatError(f"`{key}` in {name} has shape {shape} beside a reconstruction {other}, {SOURCE}")


def _mask(file: Any, name: str) -> NDArray[np.bool_]:
    mask = read_real(file, "mask", ndim=(1, 2))
    if mask.size == 0:
        raise FormatError(f"`mask` in {name} is empty, expected one value per column or point of k-space")
    return np.asarray(mask != 0)


def _level(file: Any) -> float | None:
    found = number_attribute(file["error_bound"], "level", shape=())
    return float(found) if found is not None and 0 < float(found) < 1 else None


def _expected(image: Any) -> dict[str, float]:
    """All of it, or {}."""
    found = {name: number_attribute(image, f"expected_{name}", shape=()) for name in EXPECTED}
    numbers = {name: float(value) for name, value in found.items() if value is not None}
    return numbers if len(numbers) == len(EXPECTED) and np.isfinite(list(numbers.values())).all() else {}


def _promise(bound: Any) -> dict[str, str]:
    found = {name: text_attribute(bound, name, limit=400) for name in PROMISE}
    for name in found:
        number = number_attribute(bound, name, shape=())
        if number is not None:
            found[name] = f"{float(number):.4g}"
    return {name: text for name, text in found.items() if text}


def _provenance(file: Any) -> dict[str, Any]:
    """{} where it is not a JSON object: a page without an origin says so, and is still a page."""
    if "provenance" not in file.attrs or h5py.check_string_dtype(file.attrs.get_id("provenance").dtype) is None:
        return {}
    try:
        text = file.attrs["provenance"]
        value = json.loads(text) if len(text) < PROVENANCE_MAX else {}
    except (ValueError, TypeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _described(file: Any, key: str) -> tuple[str, str, str]:
    link = file.get(key, getlink=True)
    found = file[key] if isinstance(link, h5py.HardLink) else None
    if not isinstance(found, h5py.Dataset):
        maps = key == GROUP and isinstance(found, h5py.Group)
        return one_line(key, limit=80), "", "a group of maps" if maps else "not a dataset"
    shape = " × ".join(map(str, found.shape or ()))
    return one_line(key, limit=80), shape, one_line(found.dtype, limit=60)


def _n_samples(file: Any, shape: tuple[int, ...], name: str) -> int:
    data = _stored(file, "samples", "f", name)
    fits = data.shape[:1] + data.shape[2:] == shape and data.shape[1] > 0
    _want(fits, "samples", data.shape, shape, name)
    return int(data.shape[1])


def _grid(file: Any, n_slices: int, name: str) -> tuple[int, int]:
    mean, std = _stored(file, "kspace_mean", "c", name), _stored(file, "kspace_std", "f", name)
    fits = mean.shape == std.shape and len(mean) == n_slices and min(mean.shape) > 0
    _want(fits, "kspace_mean", mean.shape, (n_slices,), name)
    return int(mean.shape[2]), int(mean.shape[3])


def _stored(file: Any, key: str, kind: str, name: str) -> Any:
    """A dataset (slices, samples or coils, height, width), to be read slice by slice."""
    data = dataset(file, key)
    if data.dtype.kind != kind or data.dtype.itemsize > 16:
        raise FormatError(f"`{key}` in {name} has dtype {one_line(data.dtype, limit=60)}, {SOURCE}")
    check_size(file, key, data, ndim=(4,))
    return data
