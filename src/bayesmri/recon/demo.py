"""The first minutes with bayesmri: a real head slice, eight simulated coils, a quarter of the lines, an image.

With a shipped model for several coils it is the mean of N samples, with a standard deviation for every pixel.
"""

import gzip
import importlib.util
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from bayesmri import zoo
from bayesmri.io.atomic import check_target
from bayesmri.kspace import Header, Images
from bayesmri.recon.acquisition import Sampling
from bayesmri.recon.files import PhantomRequest, Progress, output_files, reconstruct_file
from bayesmri.recon.request import Options
from bayesmri.recon.work import phantom_images, simulate_images

COILS, SNR_DB, SEED, R, N = 8, 30.0, 0, 4.0, 16
HEAD_SHAPE = (256, 256)


def demo(folder: Path, *, force: bool = False, progress: Progress | None = None) -> dict[str, Any]:
    """Simulate, reconstruct, write; returns what `recon` returns, and what was simulated."""
    images = head_slice() or phantom_images(PhantomRequest("head", "PD", HEAD_SHAPE), seed=SEED)
    raw = folder / "kspace.h5"
    for target in (raw, *output_files(folder / "recon.h5", nifti=True, png=True, std=True).values()):
        check_target(target, force=force)
    simulate_images(images, raw, coils=COILS, snr_db=SNR_DB, seed=SEED, config={"source": images.header.source})
    made = reconstruct_file(
        raw,
        folder / "recon.h5",
        options(),
        Sampling(acceleration=R, seed=SEED),
        nifti=True,
        png=True,
        force=force,
        progress=progress,
    )
    return {**made, "simulated_from": images.header.source, "outputs": [str(raw), *made["outputs"]]}


def options() -> Options:
    """N samples of the shipped model that fits, or total variation where none does."""
    fitting = [m for m in zoo.shipped() if m.family == zoo.MAIN_FAMILY and m.takes(COILS) and m.stochastic]
    return Options(model=zoo.AUTO, samples=N, seed=SEED) if fitting else Options(method="tv")


def head_slice() -> Images | None:
    """The head slice among matplotlib's sample data, or None where it was not installed."""
    spec = importlib.util.find_spec("matplotlib")
    for place in (spec.submodule_search_locations or []) if spec else []:
        path = Path(place, "mpl-data", "sample_data", "s1045.ima.gz")
        try:
            values = np.frombuffer(gzip.decompress(path.read_bytes()), dtype="<u2")
        except (OSError, EOFError, zlib.error):
            continue
        if values.size == HEAD_SHAPE[0] * HEAD_SHAPE[1]:
            header = Header(source="a head slice of matplotlib's sample data", acquisition="head", patient_id="s1045")
            return Images(magnitude=values.reshape(1, *HEAD_SHAPE).astype(np.float32), header=header)
    return None
