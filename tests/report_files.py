"""Small files as `bayesmri recon` writes them, and the browser that their pages are looked at with."""

import base64
import json
import zlib
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from bayesmri.io.write_h5 import write_reconstruction
from bayesmri.kspace import Header

SLICES, H, W, N, Q = 3, 21, 16, 4, 2
HEADER = Header("test", acquisition="T1 Schädel", patient_id="Jane Doe", voxel_mm=(2.0, 1.0, 5.0))
PROVENANCE = {
    "command": "recon",
    "config": {"method": "tv", "model": "tdv-single-r4", "samples": N, "fast": False, "seed": 7},
    "inputs": [{"name": "scan.h5", "sha256": "ab" * 32}],
    "versions": {"torch": "2.13"},
}


def volume(seed: int, shape: tuple[int, ...] = (SLICES, H, W)) -> NDArray[np.float32]:
    """A bright disc, different in every slice, with a little noise."""
    rng = np.random.default_rng(seed)
    rows, columns = np.ogrid[: shape[-2], : shape[-1]]
    disc = np.hypot(rows / shape[-2] - 0.5, columns / shape[-1] - 0.5) < 0.35
    levels = np.linspace(1, 2, shape[0]).reshape((-1,) + (1,) * (len(shape) - 1))
    return (disc * levels + 0.05 * rng.random(shape)).astype(np.float32)


def arrays(**changes: Any) -> dict[str, Any]:
    """Everything a file of `recon --samples --keep-samples` holds; None takes a dataset away."""
    rng = np.random.default_rng(9)
    mean = volume(0)
    u = rng.standard_normal((SLICES, Q, H, W)) + 1j * rng.standard_normal((SLICES, Q, H, W))
    samples = mean[:, None] + 0.1 * rng.standard_normal((SLICES, N, H, W))
    found: dict[str, Any] = {
        "reconstruction": mean,
        "uncertainty_std": np.abs(volume(2) - mean),
        "deterministic": volume(3),
        "zero_filled": 0.7 * volume(4),
        "target": volume(1),
        "mask": np.arange(W) % 2 == 0,
        "kspace_mean": u.astype(np.complex64),
        "kspace_std": rng.random((SLICES, Q, H, W)).astype(np.float32),
        "coil_std": rng.random((SLICES, Q, H, W)).astype(np.float32),
        "samples": samples.astype(np.float32),
    }
    return {name: array for name, array in (found | changes).items() if array is not None}


def write_recon(
    path: Path,
    datasets: Mapping[str, Any] | None = None,
    *,
    provenance: Mapping[str, object] = PROVENANCE,
    bound: tuple[NDArray[np.float32], float] | None = None,
) -> Path:
    """bound: the array and its level."""
    write_reconstruction(path, datasets or arrays(), header=HEADER, provenance=provenance)
    if bound is not None:
        with h5py.File(path, "a") as file:
            file.attrs.pop("checksums", None)  # changed on purpose
            file["error_bound"] = bound[0]
            file["error_bound"].attrs["level"] = bound[1]
    return path


class Markup(HTMLParser):
    """Every element of a page with its attributes, and the texts by the element they stand in."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append((self.elements[-1][0] if self.elements else "", data))

    def inside(self, tag: str) -> list[str]:
        return [text for name, text in self.texts if name == tag]

    @property
    def prose(self) -> str:
        """What a person reads, without styles and scripts."""
        return " ".join(" ".join(text for name, text in self.texts if name not in ("style", "script")).split())

    @property
    def data(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.inside("script")[0])
        return value


def unpacked(packed: Mapping[str, Any], shape: tuple[int, ...]) -> NDArray[np.float64]:
    """The values of `pack.image`, found without its help."""
    data = np.frombuffer(zlib.decompress(base64.b64decode(packed["z"])), np.uint8).astype(np.int64)
    high, low = data.reshape(2, -1)
    zigzag = 256 * high + low
    q = np.cumsum(np.where(zigzag % 2, -(zigzag + 1) // 2, zigzag // 2))
    values: NDArray[np.float64] = packed["low"] + packed["step"] * q.reshape(shape)
    return values
