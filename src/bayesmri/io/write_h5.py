"""HDF5 in fastMRI's layout: k-space that fastMRI's own tools read, reconstructions that its evaluation reads."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from bayesmri.errors import ShapeError
from bayesmri.io.atomic import atomic_path, check_values
from bayesmri.io.geometry import usable_affine, usable_voxel, voxel_sizes
from bayesmri.io.integrity.seal import seal
from bayesmri.io.integrity.together import SET, set_text
from bayesmri.io.safe_h5 import MESSAGES
from bayesmri.io.write_header import fastmri_header
from bayesmri.kspace import Header, KSpace
from bayesmri.machine.scratch import LARGE, out_of_sight
from bayesmri.messages import NOTHING, Messages

Array = NDArray[np.generic]


def write_kspace(
    path: Path,
    kspace: KSpace,
    *,
    provenance: Mapping[str, object],
    truth: NDArray[np.float32] | None = None,
    said: Messages = NOTHING,
) -> None:
    """K-space as fastMRI stores it: `kspace` (slices, [coils], H, W), `ismrmrd_header`, and `mask` if undersampled.

    truth: fully sampled magnitude (slices, h, w), stored as `reconstruction_esc` (one coil) or `reconstruction_rss`.
    said: notes and warnings that are to stay with the data, where there are any.
    """
    n_slices, Q, H, W = kspace.z.shape
    datasets: dict[str, Array] = {"kspace": kspace.z[:, 0] if Q == 1 else kspace.z}
    attributes: dict[str, object] = {}
    if not kspace.fully_sampled:
        datasets["mask"] = kspace.mask
    if truth is not None:
        if truth.ndim != 3 or len(truth) != n_slices:
            raise ShapeError(f"got a truth {truth.shape} with {n_slices} slices of k-space, expected (slices, h, w)")
        datasets["reconstruction_esc" if Q == 1 else "reconstruction_rss"] = truth
        attributes = {"max": float(truth.max()), "norm": float(np.linalg.norm(truth.astype(np.float64)))}
    recon_shape = kspace.header.recon_shape or ((H, W) if truth is None else (truth.shape[1], truth.shape[2]))
    xml = fastmri_header(
        grid=(H, W), recon_shape=recon_shape, n_slices=n_slices, n_coils=Q, voxel_mm=_spacing(kspace.header)
    )
    told = None if said == NOTHING else said
    _write(path, datasets, {**attributes, **_attributes(kspace.header, provenance)}, xml=xml, said=told)


def write_reconstruction(
    path: Path,
    result: Mapping[str, Array],
    *,
    header: Header,
    provenance: Mapping[str, object],
    about: Mapping[str, Mapping[str, object]] | None = None,
    said: Messages | None = None,
) -> None:
    """One dataset per name of `result` (`reconstruction`, `zero_filled`, `mask`, `target`, …), with what is known.

    about: attributes of single datasets, by their names. said: notes and warnings, for the group `messages` and, as
    attributes, for the file and its `reconstruction`.
    """
    own = {name: dict(attributes) for name, attributes in (about or {}).items()}
    own["reconstruction"] = own.get("reconstruction", {}) | _joined(said or NOTHING)
    _write(path, result, _attributes(header, provenance), xml=None, about=own, said=said)


def _write(
    path: Path,
    datasets: Mapping[str, Array],
    attributes: Mapping[str, object],
    *,
    xml: str | None,
    about: Mapping[str, Mapping[str, object]] | None = None,
    said: Messages | None = None,
) -> None:
    stored = {name: _as_stored(array) for name, array in datasets.items()}
    for name, array in stored.items():
        check_values(name, array)
    with atomic_path(path) as temporary, _Disk(temporary, "w+") as disk:
        try:
            with h5py.File(disk, "w") as file:
                for name, array in stored.items():
                    _write_array(file, name, array).attrs.update((about or {}).get(name, {}))
                    disk.check()
                if xml is not None:
                    file.create_dataset("ismrmrd_header", data=xml)
                if said is not None:
                    _write_messages(file, said)
                file.attrs.update({**attributes, **({} if said is None else _joined(said))})
                disk.check()
                seal(file)
        finally:  # whatever HDF5 makes of it, this is the reason
            disk.check()


def _write_array(file: Any, name: str, array: Array) -> Any:
    """Slice by slice, so that what waits on the disk is never in memory as a whole."""
    if array.ndim < 3 or array.nbytes < LARGE:
        return file.create_dataset(name, data=array)
    stored = file.create_dataset(name, shape=array.shape, dtype=array.dtype)
    for s, part in enumerate(array):
        stored[s] = part
        out_of_sight(array)
    return stored


def name_files(path: Path, made: Mapping[str, Path]) -> None:
    """Enters into a file that was written the names and checksums of those that are to lie beside it."""
    with _Disk(path, "r+") as disk:
        try:
            with h5py.File(disk, "r+") as file:
                file.attrs[SET] = set_text(made)
                seal(file)
        finally:
            disk.check()


def _joined(said: Messages) -> dict[str, str]:
    """Of each level that says anything, one sentence a line."""
    return {level: "\n".join(texts) for level, texts in vars(said).items() if texts}


def _write_messages(file: Any, said: Messages) -> None:
    """The group `messages`: `notes` and `warnings`, each one text of fixed length a sentence, (n,), n may be 0."""
    group = file.create_group(MESSAGES)
    for level, texts in vars(said).items():
        coded = [text.encode() for text in texts]
        dtype = h5py.string_dtype("utf-8", max(map(len, coded), default=1))
        group.create_dataset(level, data=np.array(coded, dtype=dtype), shape=(len(coded),), dtype=dtype)


class _Disk(FileIO):
    """A file that never fails in the sight of HDF5, which crashes the process when it cannot write what it holds.

    The first error is kept for `check`.
    """

    error: BaseException | None = None

    def check(self) -> None:
        if self.error is not None:
            raise self.error

    def write(self, data: Any, /) -> int:
        rest = memoryview(data).cast("B")
        n = len(rest)
        with self._kept():
            while rest:  # a disk that is nearly full takes a part
                rest = rest[super().write(rest) :]
        return n

    def truncate(self, size: int | None = None, /) -> int:
        with self._kept():
            super().truncate(size)
        return self.tell() if size is None else size

    @contextmanager
    def _kept(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:  # an interruption, too, would reach HDF5 as a failure
            self.error = self.error or error


def _as_stored(array: Array) -> Array:
    """Single precision, and masks as uint8: what every reader of fastMRI files understands."""
    kinds = {"b": np.uint8, "f": np.float32, "c": np.complex64}
    wanted = kinds.get(array.dtype.kind)
    # a double beyond float32 becomes Inf here, and the check of values says so
    with np.errstate(over="ignore"):
        return array if wanted is None else np.asarray(array, dtype=wanted)


def _attributes(header: Header, provenance: Mapping[str, object]) -> dict[str, object]:
    known: dict[str, object] = {
        "acquisition": header.acquisition,
        "patient_id": header.patient_id,
        "provenance": json.dumps(provenance, allow_nan=False),
    }
    if header.dicom:
        known["dicom"] = json.dumps(dict(header.dicom), ensure_ascii=False)
    if header.affine is not None and usable_affine(header.affine):
        known["affine"] = np.asarray(header.affine, dtype=np.float64)
    spacing = _spacing(header)
    if spacing is not None:
        known["voxel_mm"] = np.array(spacing, dtype=np.float64)
    return known


def _spacing(header: Header) -> tuple[float, float, float] | None:
    """Along (h, w, slice), from the affine where there is one."""
    if header.affine is not None and usable_affine(header.affine):
        return voxel_sizes(header.affine)
    return header.voxel_mm if usable_voxel(header.voxel_mm) else None
