"""What a volume costs, fitted to measurements on this machine and checked at other sizes.

    core-seconds = slices [ K P (a + b Q) + d P Q ] + e,   P = H W pixels, Q coils, K reconstructions of a slice

K = 1 without samples; with N samples 1 + N and two more for the typical error. a: ∇R, b: coils in the data term, d:
sensitivities, e: reading, writing and the rest of a volume. Volumes of fewer than eight central lines cost more, since
sensitivities are refined for them, and those that take two sets of them.
"""

import math
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.optimize import nnls

from bayesmri.posterior.rescans import RESCANS
from bayesmri.recon.acquisition import Sampling
from bayesmri.recon.batch.folder import Batch, reconstruct_folder
from bayesmri.recon.files import PhantomRequest, simulate_file
from bayesmri.recon.request import Options

MODEL, R = "tdv-r4", 4.0


@dataclass(frozen=True)
class Work:
    """One volume."""

    slices: int
    shape: tuple[int, int]
    coils: int
    samples: int

    @property
    def terms(self) -> list[float]:
        P, K = math.prod(self.shape), 1 + self.samples + (RESCANS if self.samples else 0)
        return [self.slices * K * P, self.slices * K * P * self.coils, self.slices * P * self.coils, 1.0]

    @property
    def bytes_read(self) -> float:
        """K-space in single precision."""
        return 8.0 * self.slices * self.coils * math.prod(self.shape)

    @property
    def bytes_written(self) -> float:
        """Four images, and with samples mean and deviations of k-space and coils (16 bytes a sample of k-space)."""
        images = (4 if not self.samples else 6) * 4.0 * self.slices * math.prod(self.shape)
        return images + (2.0 * self.bytes_read if self.samples else 0.0)

    @property
    def bytes_moved(self) -> float:
        """To workers that do not see the file, and back: x, and the moments of every block of eight samples."""
        blocks = -(-self.samples // 8)
        back = 8.0 * self.coils + blocks * (16.0 + 48.0 * self.coils)
        return self.bytes_read + self.slices * math.prod(self.shape) * back


FITTED = (
    Work(2, (96, 96), 1, 0),
    Work(2, (96, 96), 1, 4),
    Work(2, (96, 96), 8, 0),
    Work(1, (96, 96), 8, 4),
    Work(1, (192, 192), 1, 2),
    Work(1, (192, 192), 4, 2),
    Work(6, (64, 128), 2, 0),
)
CHECKED = (Work(3, (128, 128), 4, 2), Work(1, (256, 256), 2, 2), Work(1, (160, 200), 8, 3))
PLANS = {
    "fastMRI knee, multi-coil test (118 volumes, 35 slices, 640x368, 15 coils), 16 samples": (
        118,
        Work(35, (640, 368), 15, 16),
    ),
    "the same at the posterior's mean": (118, Work(35, (640, 368), 15, 0)),
    "a hospital's day (200 volumes, 30 slices, 320x320, 16 coils), 16 samples": (200, Work(30, (320, 320), 16, 16)),
    "100,000 volumes (30 slices, 320x320, 16 coils), at the posterior's mean": (100_000, Work(30, (320, 320), 16, 0)),
}


def bench_cost(say: Callable[[str], None] = lambda text: None) -> dict[str, Any]:
    """The four numbers, their error at three other sizes, and the plans."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with tempfile.TemporaryDirectory() as name:
            measured = {work: _seconds(work, Path(name) / str(i), say) for i, work in enumerate((*FITTED, *CHECKED))}
    finally:
        torch.set_num_threads(threads)
    rates = fitted({work: measured[work] for work in FITTED})
    checks = [{**asdict(work), "seconds": measured[work], "predicted": predicted(work, rates)} for work in CHECKED]
    return {
        "model": MODEL,
        "rates": dict(zip(("gradient", "coils", "sensitivities", "volume"), rates, strict=True)),
        "fit": [{**asdict(work), "seconds": measured[work], "predicted": predicted(work, rates)} for work in FITTED],
        "checks": checks,
        "plans": [plan(name, n, work, rates) for name, (n, work) in PLANS.items()],
    }


def fitted(measured: dict[Work, float]) -> list[float]:
    """argmin Σ (predicted / measured − 1)², none of the rates negative."""
    rows = np.array([np.array(work.terms) / seconds for work, seconds in measured.items()])
    scale = rows.max(axis=0)
    found, _ = nnls(rows / scale, np.ones(len(rows)))
    return [float(rate) for rate in found / scale]


def predicted(work: Work, rates: Sequence[float]) -> float:
    return math.fsum(rate * term for rate, term in zip(rates, work.terms, strict=True))


def plan(name: str, volumes: int, work: Work, rates: Sequence[float]) -> dict[str, Any]:
    return {
        "what": name,
        "core_hours": volumes * predicted(work, rates) / 3600,
        "terabytes_read": volumes * work.bytes_read / 1e12,
        "terabytes_moved": volumes * work.bytes_moved / 1e12,
        "terabytes_written": volumes * work.bytes_written / 1e12,
    }


def _seconds(work: Work, folder: Path, say: Callable[[str], None]) -> float:
    """Of processor time: the least of three goes in this process."""
    say(f"{work.slices} slices of {work.shape[0]}x{work.shape[1]}, {work.coils} coils, {work.samples} samples")
    folder.mkdir()
    request = PhantomRequest("head", shape=work.shape, slices=work.slices)
    simulate_file(request, folder / "scan.h5", coils=work.coils, snr_db=30, seed=1)
    asked = Batch(Options(model=MODEL, samples=work.samples), Sampling(R), force=True)
    times = []
    for go in range(3):
        began = time.process_time()
        reconstruct_folder([folder / "scan.h5"], folder / f"out{go}", asked)
        times.append(time.process_time() - began)
    return min(times)
