"""Small stored results for the tests of DICOM: every map, an oblique place, a patient with umlauts."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from bayesmri.io.write_h5 import write_reconstruction
from bayesmri.kspace import Header
from bayesmri.messages import Messages

NAME = "Müller^Jürgen 渡辺"
PATIENT = {
    "PatientName": NAME,
    "PatientBirthDate": "1960-02-29",
    "PatientSex": "M",
    "StudyInstanceUID": "1.2.826.0.1.77",
    "StudyDate": "2024-05-06",
    "RepetitionTime": "500",
    "EchoTime": "12.5",
}
SAID = Messages(("a note for readers",), ("the data is unlike that of training",))
TIME = "2026-01-02T03:04:05+00:00"


def oblique(*, left_handed: bool = False) -> NDArray[np.float64]:
    """RAS+, no two lengths or directions alike: nothing that could hide a swap or a flip."""
    affine = np.eye(4)
    turn = Rotation.from_euler("xyz", [20, -35, 50], degrees=True).as_matrix()
    affine[:3, :3] = turn @ np.diag([0.9, 1.3, -3.5 if left_handed else 3.5])
    affine[:3, 3] = 11, -23, 5
    return affine


def image(shape: tuple[int, int, int], seed: int = 0) -> NDArray[np.float32]:
    """Noise on a bright corner, a brighter one in later slices; in units as small as those of fastMRI."""
    X = np.random.default_rng(seed).random(shape)
    X[:, : shape[1] // 3, : shape[2] // 4] += 2
    X *= 1 + np.arange(shape[0])[:, None, None]
    return (1e-6 * X).astype(np.float32)


def stored(path: Path, shape: tuple[int, int, int] = (4, 21, 34), *, header: Header | None = None, **more: Any) -> Path:
    mean = image(shape)
    arrays = {
        "reconstruction": mean,
        "uncertainty_std": mean * np.float32(0.1),
        "error_std": mean * np.float32(0.2),
        "error_bound": mean[::-1] * np.float32(0.3),
        "visibility/lesion:3:0.3": 100 * mean / mean.max(),
        "mask": np.arange(shape[2]) % 2 == 0,
    }
    known = header or Header("test", acquisition="T1 Schädel", patient_id="p7", affine=oblique(), dicom=PATIENT)
    config = {"model": "tdv-r4", "samples": 16}
    record = {"time": TIME, "config": config, "inputs": [{"name": "scan.h5", "sha256": "ab" * 32}], **more}
    expected = {"psnr": 31.2, "psnr_low": 30.1, "psnr_high": 32.3, "nmse": 0.012, "noise_share": 0.1, "left_out": 8}
    about: dict[str, dict[str, object]] = {
        "error_bound": {"level": 0.9, "guarantee": "holds 90 % of the pixels"},
        "reconstruction": {f"expected_{name}": value for name, value in expected.items()},
    }
    write_reconstruction(path, arrays, header=known, provenance=record, about=about, said=SAID)
    return path
