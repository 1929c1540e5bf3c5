"""Small training set-ups shared by the tests of data, checkpoints and training."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np

from bayesmri.config import parse
from bayesmri.training.settings import TrainConfig

TINY: dict[str, Any] = {
    "name": "tiny",
    "seed": 5,
    "model": {"kind": "tdv", "Q": 1, "features": 4, "macroblocks": 1, "scales": 2, "init_scale": 4.0},
    "data": {
        "patch_rows": 16,
        "patch_cols": 24,
        "val_fraction": 0.3,
        "val_slices": 2,
        "sources": [{"phantom": "knee", "count": 4, "size": [24, 24]}],
    },
    "augment": {"flip": True, "turn": True, "gamma": [0.7, 1.4], "resize": [0.8, 1.2], "jitter": 0.2},
    "unroll": {"T0": 2.0, "S_start": 1, "S_every": 4, "S_max": 2},
    "loss": {"tau": 0.1, "reduction": "mean"},
    "optimizer": {"lr": 1e-3, "lr_T": 1e-2, "ema": 0.9, "reset_every": 5, "halve_every": 5},
    "train": {
        "iterations": 12,
        "batch": 2,
        "compile": "off",
        "threads": 1,
        "log_every": 2,
        "val_every": 4,
        "sample_every": 4,
        "checkpoint_every": 2,
    },
}


def tiny(**sections: dict[str, Any]) -> TrainConfig:
    """The tiny configuration with some keys of some sections replaced."""
    data = {k: dict(v) if isinstance(v, dict) else v for k, v in TINY.items()}
    for section, values in sections.items():
        data[section] = data.get(section, {}) | values
    return parse(TrainConfig, data)


def write_raw(
    path: Path, *, slices: int = 3, coils: int = 1, shape: tuple[int, int] = (24, 26), patient: str = ""
) -> None:
    """Measured-looking k-space in fastMRI's layout."""
    rng = np.random.default_rng(abs(hash_name(path.name)))
    H, W = shape
    size = (slices, H, W) if coils == 1 else (slices, coils, H, W)
    z = (rng.normal(size=size) + 1j * rng.normal(size=size)).astype(np.complex64)
    with h5py.File(path, "w") as file:
        file["kspace"] = z
        if patient:
            file.attrs["patient_id"] = patient


def write_images(path: Path, *, slices: int = 3, shape: tuple[int, int] = (24, 26), subject: str = "") -> None:
    """A magnitude volume in the layout with a dataset `image`."""
    rng = np.random.default_rng(abs(hash_name(path.name)))
    with h5py.File(path, "w") as file:
        file["image"] = rng.integers(0, 4096, size=(slices, *shape), dtype=np.uint16)
        if subject:
            file.attrs["subject"] = subject


def hash_name(name: str) -> int:
    """A number from a name, the same in every process."""
    return int.from_bytes(name.encode()[-8:])
