"""One small, whole file of every format, for the tests that break it."""

from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from reader_files import bart_kspace, header_xml, mrd_line, random_kspace, write_cfl, write_dicom, write_h5, write_mrd

nibabel = pytest.importorskip("nibabel")
RNG = np.random.default_rng(3)
PIXELS = RNG.integers(1, 4000, (3, 24, 25), dtype=np.uint16)


def fastmri(folder: Path) -> Path:
    u = random_kspace(2, 2, 24, 25)
    datasets = {
        "kspace": u,
        "mask": np.ones(25),
        "ismrmrd_header": header_xml(24, 25),
        "reconstruction_rss": abs(u[:, 0]),
    }
    return write_h5(folder / "a.h5", datasets, {"max": 1.0, "acquisition": "AXT2"})


def packed(folder: Path) -> Path:
    with h5py.File(folder / "a.h5", "w") as file:
        file.create_dataset(
            "kspace", data=random_kspace(2, 24, 25), chunks=(1, 24, 25), compression="gzip", shuffle=True
        )
    return folder / "a.h5"


def mrd(folder: Path) -> Path:
    u = random_kspace(2, 24, 25)
    return write_mrd(folder / "a.h5", header_xml(24, 25), [mrd_line(u[:, :, w], w) for w in range(25)])


def cfl(folder: Path) -> Path:
    write_cfl(folder / "a", bart_kspace(24, 25, 2))
    return folder / "a.cfl"


def npy(folder: Path) -> Path:
    np.save(folder / "a.npy", random_kspace(2, 24, 25))
    return folder / "a.npy"


def npz(folder: Path) -> Path:
    np.savez_compressed(folder / "a.npz", kspace=random_kspace(2, 24, 25), mask=np.ones(25))
    return folder / "a.npz"


def images(folder: Path) -> Path:
    return write_h5(folder / "a.h5", {"image": PIXELS}, {"anatomy": "knee"})


def nifti(folder: Path) -> Path:
    nibabel.Nifti1Image(PIXELS.T, np.eye(4)).to_filename(folder / "a.nii")
    return folder / "a.nii"


def nifti_gz(folder: Path) -> Path:
    nibabel.Nifti1Image(PIXELS.T, np.eye(4)).to_filename(folder / "a.nii.gz")
    return folder / "a.nii.gz"


def dicom(folder: Path) -> Path:
    pytest.importorskip("pydicom")
    return write_dicom(folder / "a.dcm", PIXELS[0])


Writer = Callable[[Path], Path]
WRITERS: list[Writer] = [fastmri, packed, mrd, cfl, npy, npz, images, nifti, nifti_gz, dicom]
