"""Every method on every volume at every acceleration, on the same coil images and masks: one row each."""

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayesmri.atomic import atomic_path, check_target
from bayesmri.data.formats import read, volume_paths
from bayesmri.data.kspace import Images, KSpace
from bayesmri.errors import BayesMRIError, ConfigError, DataError
from bayesmri.pipeline.files import Progress
from bayesmri.pipeline.options import BASELINES, Options
from bayesmri.pipeline.sampling import Sampling, single_coil, undersample

if TYPE_CHECKING:
    from bayesmri.pipeline.methods import Method


@dataclass(frozen=True)
class Study:
    """What is compared.

    methods: zero-filled, tv, or models (a run folder or a model's file).
    coils: simulated for magnitude images. single_coil: measured arrays are combined into one emulated coil.
    """

    data: Path
    methods: tuple[str, ...] = BASELINES
    accelerations: tuple[float, ...] = (4.0,)
    mask: str = "random"
    center_fraction: float | None = None
    coils: int = 1
    snr_db: float | None = 30.0
    single_coil: bool = False
    device: str = "cpu"
    seed: int = 0


def evaluate(study: Study, *, progress: Progress | None = None) -> dict[str, Any]:
    """{"rows": [{method, acceleration, file, coils, psnr, nmse, ssim, seconds, parameters}, …], "skipped": […]}."""
    files = data_files(study.data)
    if not study.methods:
        raise ConfigError("no method was given: want zero-filled, tv or models, such as --methods zero-filled,tv")

    methods = _methods(study)
    rows: list[dict[str, Any]] = []
    skipped: list[str] = []
    total = len(files) * len(study.accelerations) * len(methods)
    with progress(total) if progress else nullcontext(lambda: None) as advance:
        for path in files:
            try:
                full = fully_sampled(path, study)
            except BayesMRIError as error:
                skipped.append(f"{path.name}: {error}")
                continue
            for R in study.accelerations:
                rows += [_row(path, sampled, R, m, advance) for m, sampled in _pairs(full, path, R, methods, study)]
    if not rows:
        raise DataError(f"no fully sampled volume in {study.data}: {'; '.join(skipped[:3])}")
    return {"rows": rows, "skipped": skipped, "study": {**asdict(study), "data": study.data.name}}


def data_files(data: Path) -> list[Path]:
    """The volumes of a folder, at any depth, or the one file."""
    if data.is_file():
        return [data]
    files = list(volume_paths(data))
    if not files:
        raise DataError(f"{data} holds no files: give a folder of k-space or magnitude images")
    return files


def means(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The mean over volumes for each method and acceleration, in the order of the rows."""
    groups: dict[tuple[str, float], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["method"], row["acceleration"]), []).append(row)
    averaged = ("psnr", "nmse", "ssim", "seconds")
    return [
        {
            "method": method,
            "acceleration": R,
            "volumes": len(group),
            "parameters": group[0]["parameters"],
            **{key: math.fsum(row[key] for row in group) / len(group) for key in averaged},
        }
        for (method, R), group in groups.items()
    ]


def evaluate_to(study: Study, out: Path, *, progress: Progress | None = None) -> dict[str, Any]:
    """Evaluate, and write results.json with results.md and results.tex beside it."""
    import json

    from bayesmri.provenance import provenance
    from bayesmri.report.tables import latex, markdown

    for ending in (".json", ".md", ".tex"):
        check_target(out.with_suffix(ending))
    result = evaluate(study, progress=progress)

    import torch

    inputs = sorted({p for p in data_files(study.data) if p.name in {row["file"] for row in result["rows"]}})
    result["provenance"] = provenance(
        command="evaluate", config=result["study"], seed=study.seed, inputs=inputs, threads=torch.get_num_threads()
    )
    table = means(result["rows"])
    rows = json.dumps(result, indent=1, allow_nan=False) + "\n"
    texts = {".json": rows, ".md": markdown(table), ".tex": latex(table)}
    for ending, text in texts.items():
        with atomic_path(out.with_suffix(ending)) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return result


def derived_seed(*parts: object) -> int:
    """A seed that depends on all parts and nothing else."""
    return int.from_bytes(hashlib.sha256("/".join(map(str, parts)).encode()).digest()[:7], "big")


def sampling_of(path: Path, R: float, study: Study) -> Sampling:
    """The lines of a volume at R: they follow the study's seed and the file's name."""
    return Sampling(R, study.center_fraction, study.mask, None, derived_seed(study.seed, path.name, f"{R:g}"))


def _methods(study: Study) -> list["Method"]:
    """In their order, each once; where two would share a name, each is called as it was given."""
    given = {text: _method(text, study) for text in study.methods}
    count = Counter(method.name for method in given.values())
    return [method if count[method.name] == 1 else replace(method, name=text) for text, method in given.items()]


def _method(name: str, study: Study) -> "Method":
    from bayesmri.pipeline.methods import make_method

    if name in BASELINES:
        return make_method(replace(Options(device=study.device), method=name))  # type: ignore[arg-type]
    return make_method(Options(model=name, device=study.device))


def fully_sampled(path: Path, study: Study) -> KSpace:
    """Measured k-space as it is, or simulated from magnitude images; the coils follow the study and the file's name."""
    value = read(path)
    if isinstance(value, Images):
        return _simulated(value, path, study)
    if not value.fully_sampled:
        raise DataError(f"it is undersampled (R={value.acceleration:.3g}): there is no truth to compare with")
    return single_coil(value) if study.single_coil else value


def _simulated(images: Images, path: Path, study: Study) -> KSpace:
    import numpy as np
    import torch

    from bayesmri.data.simulate import Scanner, acquire

    rng = torch.Generator().manual_seed(derived_seed(study.seed, path.name, "scanner"))
    magnitude = torch.from_numpy(images.magnitude / max(float(images.magnitude.max()), 1e-30))
    u = acquire(magnitude, Scanner(coils=study.coils, snr_db=study.snr_db), rng=rng).numpy()
    return KSpace(z=u, mask=np.ones(u.shape[-1], dtype=bool), header=images.header)


def _pairs(
    full: KSpace, path: Path, R: float, methods: Sequence["Method"], study: Study
) -> Iterator[tuple["Method", KSpace]]:
    """Each method with the same undersampled data."""
    sampled = undersample(full, sampling_of(path, R, study))
    return ((method, sampled) for method in methods)


def _row(path: Path, sampled: KSpace, R: float, method: "Method", advance: Callable[[], None]) -> dict[str, Any]:
    from bayesmri.pipeline.reconstruct import reconstruct

    result = reconstruct(sampled, method)
    advance()
    return {
        "method": method.name,
        "acceleration": R,
        "file": path.name,
        "coils": sampled.z.shape[1],
        "slices": len(sampled.z),
        **vars(result.metrics()),
        "seconds": result.seconds,
        "parameters": method.parameters,
    }
