"""What people use today: BART's `ecalib` and `pics`, with L1-wavelets or total variation, run as a program.

The weight is 0.01 for data that `pics` scales itself, fixed before anything was compared.
"""

import os
import re
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
from bayesmri.io.guard import one_line
from bayesmri.physics.centre import n_central_lines
from bayesmri.physics.espirit import FEWEST
from bayesmri.physics.operator import batched, check_mask

WEIGHT = 0.01
ITERATIONS = 100
PENALTIES = {"l1": "W:7:0:", "tv": "T:7:0:"}
TIMEOUT = 1800  # seconds of one slice


@dataclass(frozen=True)
class Bart:
    """`ecalib -m1`, then `pics -S -i 100 -R …:0.01` for every slice; a single coil has s = 1. Runs on the CPU.

    With fewer than FEWEST central lines, of which `ecalib` makes nothing useful, and where it refuses, sensitivities
    are those of `caldir`. On odd sizes BART's `pics` shows the image one pixel further on: it is moved back.
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
        """z: complex (B, Q, H, W), mask: bool (W,) or (H, W) → coil images s m, complex (B, Q, H, W)."""
        check_mask(z, mask)
        enough = int(n_central_lines(batched(mask)).min()) >= FEWEST
        parts = [self._slice(np.asarray((part * mask).cpu().numpy(), np.complex64), enough) for part in z]
        return torch.from_numpy(np.stack(parts)).to(z)

    def _slice(self, z: NDArray[np.complex64], enough: bool) -> NDArray[np.complex64]:
        """enough: there are central lines for `ecalib`."""
        heard = np.abs(z).max(axis=(1, 2)) > 0  # an empty first coil would make all others NaN
        x = np.zeros_like(z)
        if not heard.any():
            return x
        with tempfile.TemporaryDirectory(prefix="bayesmri-bart-") as folder:
            x[heard] = self._image(Path(folder), z[heard], enough)
        return x

    def _image(self, here: Path, z: NDArray[np.complex64], enough: bool) -> NDArray[np.complex64]:
        odd = tuple(n % 2 for n in z.shape[1:])
        write_cfl(here / "z", z.transpose(1, 2, 0)[:, :, None, :])
        s = self._sensitivities(here, z, enough)
        write_cfl(here / "s", np.roll(s, odd, axis=(0, 1))[:, :, None, :])
        penalty = f"{PENALTIES[self.penalty]}{self.weight:g}"
        _bart(here, "pics", "-S", "-i", str(self.iterations), "-R", penalty, "z", "s", "m")
        m = np.roll(read_cfl(here / "m"), tuple(-n for n in odd), axis=(0, 1))
        return np.asarray((s * m).transpose(2, 0, 1), np.complex64)

    def _sensitivities(self, here: Path, z: NDArray[np.complex64], enough: bool) -> NDArray[np.complex64]:
        """(H, W, coils)."""
        if len(z) == 1:
            return np.ones((*z.shape[1:], 1), np.complex64)
        try:
            if not enough:
                raise DataError("too few central lines for ecalib")
            _bart(here, "ecalib", "-m1", "z", "c")
        except DataError:
            _bart(here, "caldir", str(min(24, *(n - 1 for n in z.shape[1:]))), "z", "c")
        return read_cfl(here / "c")


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
    try:
        made = subprocess.run(
            ["bart", *words], cwd=folder, capture_output=True, timeout=TIMEOUT, check=False,
            env={**os.environ, **threads},
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise DataError(f"bart {words[0]} did not end within {TIMEOUT} s: take another method") from error
    if made.returncode != 0:
        plain = re.sub(r"\x1b\[[0-9;]*m", "", made.stderr.decode("utf-8", "replace"))
        said = [line for line in plain.splitlines() if re.search(r"[a-z]{3}", line)]
        why = one_line(said[-1], limit=120) if said else "without a word"
        raise DataError(f"bart {words[0]} failed ({why}): take another method")
