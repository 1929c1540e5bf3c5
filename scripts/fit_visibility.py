"""Fits the weights of visibility on training subjects: python scripts/fit_visibility.py [--data DIR] [-o FILE].

Structures are planted into the middle slices of every fully sampled volume, which is then undersampled and
reconstructed by the shipped models, one coil and arrays at R = 4 and 8. No validation data is read.
"""

import argparse
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch

from bayesmri.analysis.visibility import Weights
from bayesmri.evaluation.cohort import Volumes, load, rules, taken
from bayesmri.evaluation.request import Request, Track
from bayesmri.evaluation.table import derived_seed, sampling_of
from bayesmri.io.provenance import provenance
from bayesmri.recon.reconstruct import reconstruct
from bayesmri.recon.request import Options
from bayesmri.recon.undersample import undersample
from bayesmri.recon.visibility import Sights
from bayesmri.studies.plant import plant_volume
from bayesmri.studies.visibility_fit import Looked, Samples, fitted

ROOT = Path(__file__).resolve().parents[1]
TRAINING = ROOT.parent / "shared" / "data" / "train"
TARGET = ROOT / "src" / "bayesmri" / "analysis" / "visibility.json"


@dataclass(frozen=True)
class Setting:
    """slices: of every volume, in the middle. seeds: of structures, masks, coils, phase and noise, each on its own."""

    track: Track
    R: float
    model: str
    slices: int
    seeds: tuple[int, ...] = (1,)


SETTINGS = (
    Setting("single", 4, "tdv-r4", slices=3, seeds=(1, 2)),
    Setting("single", 8, "tdv-r8", slices=3),
    Setting("multi", 4, "tdv-r4", slices=2),
    Setting("multi", 8, "tdv-r8", slices=2),
)


def gather(samples: Samples, data: Path, setting: Setting, seed: int) -> list[Path]:
    """The structures of all volumes in one setting; returns the files they were planted into."""
    loaded = load(setting.model)
    request = Request((setting.model,), data, (setting.R,), slices=setting.slices, seed=seed, track=setting.track)
    volumes = Volumes(request)
    for path, full in volumes:
        began = time.perf_counter()
        planted, structures = plant_volume(taken(full, loaded), seed=seed, name=path.name)
        sampled = undersample(planted, sampling_of(path, setting.R, rules(request)))
        sights = Sights()
        result = reconstruct(sampled, Options(model=loaded.model, full_fov=True), watch=sights)
        assert result.truth is not None
        for s, (sight, part) in enumerate(zip(sights.found, structures, strict=True)):
            looked = Looked(sight.times(float(result.mean[s].max()) / float(sight.X.max())))
            rng = np.random.default_rng(derived_seed(seed, path.name, "places", s))
            samples.add(looked, part, result.mean[s].astype(np.float64) - result.truth[s], rng=rng)
        seconds = time.perf_counter() - began
        print(f"{setting.model} {setting.track} R={setting.R:g} {path.name}: {seconds:.0f} s", flush=True)
    return volumes.used


def fit(data: Path) -> Weights:
    samples, used = Samples(), []
    for setting in SETTINGS:
        for seed in setting.seeds:
            used = gather(samples, data, setting, seed)
    config = {"data": data.name, "settings": [asdict(setting) for setting in SETTINGS]}
    origin = provenance(
        command="scripts/fit_visibility.py", config=config, seed=None, inputs=used, threads=torch.get_num_threads()
    )
    origin.pop("processor", None)
    about = f"fitted on {len(used)} training volumes with tdv-r4 and tdv-r8, one coil and arrays at R = 4 and 8"
    return fitted(samples, {"about": about, **origin})


def main() -> None:
    parser = argparse.ArgumentParser(description="Fit the weights of visibility.")
    parser.add_argument("--data", type=Path, default=TRAINING, help="fully sampled training volumes")
    parser.add_argument("-o", "--output", type=Path, default=TARGET)
    asked = parser.parse_args()
    weights = fit(asked.data)
    asked.output.write_text(json.dumps(weights.as_json(), indent=1) + "\n", encoding="utf-8")
    print(f"wrote {asked.output}")


if __name__ == "__main__":
    main()
