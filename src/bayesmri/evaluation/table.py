"""Every method on every volume at every acceleration, on the same coil images and masks: one row each."""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bayesmri.data.simulate import Scanner, acquire
from bayesmri.errors import BayesMRIError, ConfigError, DataError, MaskError, ModelError, ShapeError
from bayesmri.evaluation.entrants import Entrant, entrants
from bayesmri.evaluation.request import Study, Track, setting_name
from bayesmri.evaluation.reuse import Earlier, earlier
from bayesmri.evaluation.tracks import with_array
from bayesmri.io.atomic import atomic_paths, check_target
from bayesmri.io.formats import read, volume_paths
from bayesmri.io.integrity.seal import SEAL
from bayesmri.io.integrity.together import SET, set_text, table_checksum
from bayesmri.io.provenance import plain, provenance
from bayesmri.kspace import Images, KSpace
from bayesmri.machine.crew import ahead
from bayesmri.physics.mask import MaskSpec
from bayesmri.physics.pattern import mask_kind
from bayesmri.recon.acquisition import Sampling
from bayesmri.recon.files import Progress
from bayesmri.recon.undersample import single_coil, undersample
from bayesmri.report.results import page
from bayesmri.report.tables import latex
from bayesmri.report.tables import text as text
from bayesmri.zoo import own_files

ENDINGS = (".json", ".md", ".tex")  # of results: rows, a page, a table
LEVELS = ("notes", "warnings")  # of what was said of a volume and its reconstruction
CANNOT = (DataError, MaskError, ModelError, ShapeError)  # of one volume and one method; other errors end a study


@dataclass(frozen=True)
class Refusal:
    """A volume that a method could not do. file: as results call it."""

    method: str
    track: Track | None
    acceleration: float
    file: str
    reason: str

    @property
    def place(self) -> tuple[Track | None, float, str]:
        return self.track, self.acceleration, self.file

    @property
    def told(self) -> str:
        """Of the method, whatever the volume."""
        return f"{self.method}{'' if self.track is None else f', {self.track}-coil'}: {self.reason}"


def evaluate(study: Study, *, reuse: Sequence[Path] = (), progress: Progress | None = None) -> dict[str, Any]:
    """{"rows": [{method, track, acceleration, file, coils, psnr, …, seconds, parameters}, …], "skipped": […]}.

    The rows of one track and R are of the same volumes for every method; what could not be done is in `skipped`.

    reuse: results of earlier evaluations with the same settings; what is in them is not computed again.
    """
    files = data_files(study.data)
    if not study.methods:
        raise ConfigError("got no method, expected zero-filled, tv or models, such as --methods zero-filled,tv")
    check_masks(study, study.accelerations)
    known = earlier(reuse, plain(asdict(study)))

    given, skipped = entrants(study.methods, samples=study.samples, device=study.device)
    found: list[dict[str, Any]] = []
    refusals: list[Refusal] = []
    names = labels(files, study.data)
    total = max(1, len(study.tracks)) * len(files) * len(study.accelerations) * study.masks * len(given)
    with progress(total) if progress else nullcontext(lambda: None) as advance:

        def judged(volume: tuple[Path, Track | None, float, int, KSpace]) -> list[dict[str, Any] | Refusal]:
            path, track, R, draw, sampled = volume
            rows = []
            for entrant in given:
                row = _row(entrant, sampled, study, known, path=path, track=track, R=R, draw=draw)
                named = replace(row, file=names[path]) if isinstance(row, Refusal) else {**row, "file": names[path]}
                rows.append(named)
                advance()
            return rows

        for rows_of_one in ahead(judged, _volumes(study, names, skipped)):
            refusals += [row for row in rows_of_one if isinstance(row, Refusal)]
            found += [row for row in rows_of_one if not isinstance(row, Refusal)]
    rows, left_out = same_volumes(found, refusals)
    skipped = list(dict.fromkeys([*skipped, *left_out]))
    if found and not rows:
        raise DataError(f"no volume in {study.data} can be done by all methods, give fewer: {'; '.join(skipped[:3])}")
    _check_rows(rows, refusals, skipped, study)
    return {
        "rows": rows,
        "skipped": skipped,
        **{level: told_of(rows, level) for level in LEVELS},
        "study": {**asdict(study), "data": study.data.name},
        "command": command(study),
        **({"reused": [path.name for path in reuse]} if reuse else {}),
    }


def told_of(rows: Sequence[Mapping[str, Any]], level: str) -> list[str]:
    """Every note or warning once, with the volumes that it is of."""
    files: dict[str, dict[str, None]] = {}
    for row in rows:
        for said in row.get(level, ()):
            files.setdefault(said, {})[row["file"]] = None
    return [f"{_some(list(names))}: {said}" for said, names in files.items()]


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def same_volumes(rows: Sequence[dict[str, Any]], refusals: Sequence[Refusal]) -> tuple[list[dict[str, Any]], list[str]]:
    """The rows of volumes that every method of their track and R could do, so that means compare; and what is left out.

    A method that could do no volume of a track and R takes no part there, and the others keep their volumes.
    """
    present = {(row["track"], row["acceleration"], row["method"]) for row in rows}
    told: list[str] = []
    without: dict[tuple[Track | None, float, str], dict[str, list[str]]] = {}
    for refusal in refusals:
        if (refusal.track, refusal.acceleration, refusal.method) in present:
            without.setdefault(refusal.place, {}).setdefault(refusal.reason, []).append(refusal.method)
        else:
            told.append(refusal.told)
    for (track, R, file), reasons in without.items():
        why = "; ".join(f"{' and '.join(methods)} cannot do it: {reason}" for reason, methods in reasons.items())
        told.append(f"{file}, {setting_name(track, R)}: left out for all methods, since {why}")
    return [row for row in rows if (row["track"], row["acceleration"], row["file"]) not in without], told


def command(study: Study) -> str:
    """What to type to repeat the study, in the folder that holds the data."""
    default = Study(study.data)
    # of folders the last name: what is above may tell more than it should
    methods = [Path(name).name if Path(name).is_absolute() else name for name in study.methods]
    words = [f"bayesmri evaluate --data {study.data.name} --methods {','.join(methods)}"]
    words.append("--acceleration " + " ".join(f"{R:g}" for R in study.accelerations))
    if study.tracks:
        words.append("--track " + " ".join(study.tracks))
    if study.single_coil:
        words.append("--single-coil")
    for option, name in (
        ("samples", "samples"),
        ("slices", "slices"),
        ("masks", "masks"),
        ("coils", "coils"),
        ("snr", "snr_db"),
        ("mask", "mask"),
        ("center-fraction", "center_fraction"),
        ("device", "device"),
        ("seed", "seed"),
    ):
        if getattr(study, name) != getattr(default, name):
            words.append(f"--{option} {getattr(study, name)}")
    return " ".join(words)


def data_files(data: Path) -> list[Path]:
    """The volumes of a folder, at any depth, or the one file."""
    if data.is_file():
        return [data]
    files = list(volume_paths(data))
    if not files:
        raise DataError(f"{data} holds no files: give a folder of k-space or magnitude images")
    return files


def labels(files: Sequence[Path], data: Path) -> dict[Path, str]:
    """What the files are called in results: by their names, or from the folder on where two share one."""
    shared = {name for name, n in Counter(path.name for path in files).items() if n > 1}
    return {path: path.relative_to(data).as_posix() if path.name in shared else path.name for path in files}


def means(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The mean over volumes for each track, method and acceleration, in the order of the rows."""
    groups: dict[tuple[str | None, str, float], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row.get("track"), row["method"], row["acceleration"]), []).append(row)
    averaged = ("psnr", "nmse", "ssim", "seconds")
    return [
        {
            "method": method,
            "track": track,
            "acceleration": R,
            "samples": group[0].get("samples", 0),
            "volumes": len({row.get("file", i) for i, row in enumerate(group)}),
            "parameters": group[0]["parameters"],
            **{key: math.fsum(row[key] for row in group) / len(group) for key in averaged},
        }
        for (track, method, R), group in groups.items()
    ]


def evaluate_to(
    study: Study, out: Path, *, reuse: Sequence[Path] = (), force: bool = False, progress: Progress | None = None
) -> dict[str, Any]:
    """Evaluate, and write results.json with results.md and results.tex beside it. force: they may be there."""

    targets = [out.with_suffix(ending) for ending in ENDINGS]
    # results of before may lie among the data, and are renewed
    sources = [path for path in data_files(study.data) if path.suffix not in ENDINGS]
    sources += [file for name in study.methods for file in own_files(name)]
    for target in targets:
        check_target(target, *sources, force=force)
    _check_samples(study)
    result = evaluate(study, reuse=reuse, progress=progress)

    used = {row["file"] for row in result["rows"]}
    inputs = [path for path, name in labels(data_files(study.data), study.data).items() if name in used]
    result["provenance"] = provenance(
        command="evaluate", config=result["study"], seed=study.seed, inputs=inputs, threads=torch.get_num_threads()
    )
    table = means(result["rows"])
    texts = [page(result, table), latex(table)]
    with atomic_paths(targets) as temporaries:  # the first appears last, and names the others
        beside = dict(zip((target.name for target in targets[1:]), temporaries[1:], strict=True))
        for temporary, text in zip(temporaries[1:], texts, strict=True):
            temporary.write_text(text, encoding="utf-8")
        signed = {**result, SET: json.loads(set_text(beside))}
        signed[SEAL] = table_checksum(json.loads(json.dumps(signed, allow_nan=False)))
        temporaries[0].write_text(json.dumps(signed, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    return result


def derived_seed(*parts: object) -> int:
    """A seed that depends on all parts and nothing else."""
    return int.from_bytes(hashlib.sha256("/".join(map(str, parts)).encode()).digest()[:7], "big")


def sampling_of(path: Path, R: float, study: Study, draw: int = 0) -> Sampling:
    """The lines of a volume at R: they follow the study's seed, the file's name and the number of the draw."""
    seed = derived_seed(study.seed, path.name, f"{R:g}", *([draw] if draw else []))
    return Sampling(R, study.center_fraction, study.mask, None, seed)


def coils_of(path: Path, study: Study) -> int:
    """Of the array that is simulated for a file."""
    if study.most_coils <= study.coils or study.coils == 1:
        return study.coils
    share = (derived_seed(study.seed, path.name, "coils") % 2**20) / 2**20
    return round(study.coils * math.exp(share * math.log(study.most_coils / study.coils)))


def fully_sampled(path: Path, study: Study) -> KSpace:
    """Measured k-space as it is, or simulated from magnitude images; the coils follow the study and the file's name."""
    value = read(path)
    if isinstance(value, Images):
        return middle_slices(_simulated(value, path, study), study.slices)
    if not value.fully_sampled:
        raise DataError(f"it is undersampled (R={value.acceleration:.3g}): there is no truth to compare with")
    if study.array:
        value = with_array(value, coils=coils_of(path, study), seed=derived_seed(study.seed, path.name, "scanner"))
    value = middle_slices(value, study.slices)
    return single_coil(value) if study.single_coil else value


def middle_slices(kspace: KSpace, K: int | None) -> KSpace:
    """The K slices in the middle, as if the file held no others; all where there are not more."""
    n = len(kspace.z)
    if K is None or n <= K:
        return kspace
    first = (n - K) // 2
    return kspace.part(slice(first, first + K))


def _simulated(images: Images, path: Path, study: Study) -> KSpace:

    rng = torch.Generator().manual_seed(derived_seed(study.seed, path.name, "scanner"))
    magnitude = torch.from_numpy(images.magnitude / max(float(images.magnitude.max()), 1e-30))
    u = acquire(magnitude, Scanner(coils=coils_of(path, study), snr_db=study.snr_db), rng=rng).numpy()
    return KSpace(z=u, mask=np.ones(u.shape[-1], dtype=bool), header=images.header)


def _volumes(
    study: Study, names: Mapping[Path, str], skipped: list[str]
) -> Iterator[tuple[Path, Track | None, float, int, KSpace]]:
    """Every volume in every track at every R with every mask, by its number.

    None, and a reason in `skipped`, where it has no truth or no such mask.

    Coils, noise and mask are drawn once, before any method is asked.
    """
    for track in study.tracks or (None,):
        for path, name in names.items():
            try:
                full = fully_sampled(path, study.track(track))
            except BayesMRIError as error:
                skipped.append(f"{name}: {error}")
                continue
            for R, draw in product(study.accelerations, range(study.masks)):
                try:
                    sampled = undersample(full, sampling_of(path, R, study, draw))
                except MaskError as error:
                    skipped.append(f"{name}, {setting_name(track, R)}: {error}")
                    continue
                yield path, track, R, draw, sampled


def _row(
    entrant: "Entrant",
    sampled: KSpace,
    study: Study,
    known: Earlier,
    *,
    path: Path,
    track: Track | None,
    R: float,
    draw: int,
) -> dict[str, Any] | Refusal:
    """One row, of an earlier evaluation where it is known; or why the entrant cannot do that volume."""
    where = {"method": entrant.name, "track": track, "acceleration": R, "draw": draw}
    try:
        facts = entrant.facts(sampled)
        row = known.find(path, **where, **facts)
        if row is not None:
            return row
        result = entrant.run(sampled, seed=study.seed, device=study.device)
        metrics = vars(result.metrics())
    except CANNOT as error:
        return Refusal(entrant.name, track, R, path.name, str(error))
    return {
        **where,
        "coils": sampled.z.shape[1],
        "slices": len(sampled.z),
        **metrics,
        "seconds": result.seconds,
        **facts,
        **{level: list(texts) for level in LEVELS if (texts := getattr(result, level))},
    }


def _check_samples(study: Study) -> None:
    """Where samples are asked for, somebody can be sampled."""
    if not (study.samples and study.methods):
        return

    if not any(entrant.samples for entrant in entrants(study.methods, samples=study.samples, device=study.device)[0]):
        raise ConfigError(
            f"got {study.samples} samples with methods of which none has a posterior ({', '.join(study.methods)}); "
            "name a model with one, such as auto, or leave the samples out"
        )


def check_masks(study: Study, accelerations: Sequence[float]) -> None:
    """What is wrong with R or the centre for any volume is no matter of one."""

    for R in accelerations:
        MaskSpec(mask_kind(study.mask), R, study.center_fraction)


def _check_rows(
    rows: Sequence[dict[str, Any]], refusals: Sequence[Refusal], skipped: Sequence[str], study: Study
) -> None:
    """There is something to judge, and nobody who was asked for is missing everywhere."""
    judged = {row["method"] for row in rows}
    for refusal in refusals:
        if refusal.method not in judged:
            raise ModelError(refusal.told)
    if not rows:
        raise DataError(f"no volume in {study.data} can be judged: {'; '.join(skipped[:3])}")
