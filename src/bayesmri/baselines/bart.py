"""What people use today: BART's `ecalib` and `pics`, with L1-wavelets or total variation, run as a program.

The weight is 0.01 for data that `pics` scales itself, fixed before anything was compared.
"""

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bayesmri.errors import DataError, MissingExtraError
from bayesmri.physics.operator import check_mask

WEIGHT = 0.01
ITERATIONS = 100
PENALTIES = {"l1": "W:7:0:", "tv": "T:7:0:"}
TIMEOUT = 1800  # seconds of one slice


@dataclass(frozen=True)
class Bart:
    """`ecalib -m1`, then `pics -S -i 100 -R …:0.01` for every slice; a single coil has s = 1. Runs on the CPU.

    Where `ecalib` refuses, for too few central lines, sensitivities are those of `caldir`.
    """

    penalty: Literal["l1", "tv"] = "l1"
    weight: float = WEIGHT
    iterations: int = ITERATIONS

    def __post_init__(self) -> None:
        if shutil.which("bart") is None:
            raise MissingExtraError(
                f"the method bart-{self.penalty} needs the program bart, which is not installed: apt install bart, or "
                "take l1-wavelet"
            )

    def __call__(self, z: Tensor, mask: Tensor) -> Tensor:
        """z: complex (B, Q, H, W), mask: bool (W,) → coil images s m, complex (B, Q, H, W)."""
        check_mask(z, mask)
        parts = [self._slice(np.asarray((part * mask).cpu().numpy(), np.complex64)) for part in z]
        return torch.from_numpy(np.stack(parts)).to(z)

    def _slice(self, z: NDArray[np.complex64]) -> NDArray[np.complex64]:
        with tempfile.TemporaryDirectory(prefix="bayesmri-bart-") as folder:
            here = Path(folder)
            write_cfl(here / "z", z.transpose(1, 2, 0)[:, :, None, :])
            self._sensitivities(here, z)
            _bart(here, "pics", "-S", "-i", str(self.iterations), "-R", f"{PENALTIES[self.penalty]}{self.weight:g}",
                  "z", "s", "m")  # fmt: skip
            s, m = (read_cfl(here / name) for name in ("s", "m"))
        return np.asarray((s * m).transpose(2, 0, 1), np.complex64)

    def _sensitivities(self, here: Path, z: NDArray[np.complex64]) -> None:
        if len(z) == 1:
            write_cfl(here / "s", np.ones((*z.shape[1:], 1, 1), np.complex64))
            return
        try:
            _bart(here, "ecalib", "-m1", "z", "s")
        except DataError:
            _bart(here, "caldir", str(min(24, *(n - 1 for n in z.shape[1:]))), "z", "s")


def write_cfl(base: Path, array: NDArray[np.complex64]) -> None:
    """BART's pair of files, in the array's own order of dimensions."""
    base.with_suffix(".hdr").write_text("# Dimensions\n" + " ".join(map(str, array.shape)) + "\n", encoding="ascii")
    array.astype("<c8").T.tofile(base.with_suffix(".cfl"))


def read_cfl(base: Path) -> NDArray[np.complex64]:
    """(read, phase, coils) of what BART has just written."""
    words = base.with_suffix(".hdr").read_text(encoding="ascii").splitlines()[1].split()
    shape = [int(word) for word in words]
    flat = np.fromfile(base.with_suffix(".cfl"), dtype="<c8")
    found: NDArray[np.complex64] = flat.reshape(shape[0], shape[1], -1, order="F")
    return found


def _bart(folder: Path, *words: str) -> None:
    threads = {"OMP_NUM_THREADS": str(torch.get_num_threads())}
    made = subprocess.run(
        ["bart", *words], cwd=folder, capture_output=True, timeout=TIMEOUT, check=False, env={**os.environ, **threads}
    )
    if made.returncode != 0:
        said = made.stderr.decode("utf-8", "replace").strip().splitlines()
        raise DataError(f"bart {words[0]} failed ({said[-1][:120] if said else 'without a word'}): take another method")
