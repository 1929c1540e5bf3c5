"""evaluate, study, calibrate and distill with workers: the same numbers and weights as by one process, bit by bit."""

import json
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from bayesmri.checkpoint import save_model
from bayesmri.cli import main, options
from bayesmri.cluster.connect import Hands, hands
from bayesmri.cluster.crew import DaskCrew
from bayesmri.machine.crew import at_work
from study_runs import save_heads, tiny

pytest.importorskip("distributed", reason="the extra `cluster` is not installed")


@pytest.fixture(scope="module")
def crew() -> Iterator[DaskCrew]:
    with hands(Hands(workers=2)) as found:
        assert found is not None
        yield found


class Counted:
    """A crew, and how many jobs it was given."""

    def __init__(self, crew: DaskCrew) -> None:
        self.crew, self.volumes, self.jobs = crew, crew.volumes, 0

    def results(self, jobs: Any) -> Iterator[Any]:
        def counted() -> Iterator[Any]:
            for job in jobs:
                self.jobs += 1
                yield job

        return self.crew.results(counted())

    def stopped(self) -> Any:
        return self.crew.stopped()


@pytest.fixture
def far(crew: DaskCrew, monkeypatch: pytest.MonkeyPatch) -> Counted:
    """`--workers` stands for the crew that is there, since each command would start its own."""
    counted = Counted(crew)
    monkeypatch.setattr(options, "hands", lambda asked: at_work(counted) if asked.workers else nullcontext())
    return counted


@pytest.fixture(scope="module")
def heads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_heads(tmp_path_factory.mktemp("heads"), 4)


def both(words: list[str], folder: Path, name: str, far: Counted) -> tuple[Path, Path]:
    """The command without and with workers, which did the work: where its outputs are."""
    made = [folder / part / name for part in ("plain", "far")]
    for path, extra in zip(made, ([], ["--workers", "2"]), strict=True):
        path.parent.mkdir(exist_ok=True)
        before = far.jobs
        assert main([*words, "-o", str(path), *extra]) == 0
        assert (far.jobs > before) == bool(extra)
    return made[0], made[1]


def without(value: Any, *names: str) -> Any:
    """JSON values but for those of these names, which tell time and place."""
    if isinstance(value, dict):
        return {key: without(part, *names) for key, part in value.items() if key not in names}
    return [without(part, *names) for part in value] if isinstance(value, list) else value


def same_models(one: Path, other: Path) -> None:
    """Weights and what is said of them; sha256 is of all, the time included."""
    a, b = (load_file(path.with_suffix(".safetensors")) for path in (one, other))
    assert a.keys() == b.keys()
    for key in a:
        np.testing.assert_array_equal(a[key], b[key], err_msg=key)
    said = [without(json.loads(path.read_text()), "provenance", "seconds", "sha256") for path in (one, other)]
    assert said[0] == said[1]


@pytest.mark.parametrize(
    "more",
    [
        ["--level", "0.8", "--samples", "10"],
        ["--level", "0.8", "--samples", "3", "--relative"],
        ["--expected", "--repeats", "2", "--coils", "3"],
    ],
)
def test_calibrate(heads: Path, models: Path, tmp_path: Path, far: Counted, more: list[str]) -> None:
    model = str(models / ("two.json" if "--coils" in more else "wide.json"))
    words = ["calibrate", model, "--data", str(heads), "--acceleration", "4", *more]
    same_models(*both(words, tmp_path, "model.json", far))


def test_evaluate(scans: Path, models: Path, tmp_path: Path, far: Counted) -> None:
    words = ["evaluate", "--data", str(scans / "one.h5"), "--slices", "2", "--samples", "3"]
    made = both([*words, "--methods", f"tv,{models / 'wide.json'}"], tmp_path, "rows.json", far)
    rows = [without(json.loads(path.read_text())["rows"], "seconds") for path in made]
    assert rows[0] == rows[1]


def test_study(scans: Path, models: Path, tmp_path: Path, far: Counted) -> None:
    words = ["study", "kspace", "--model", str(models / "wide.json"), "--data", str(scans / "one.h5"), "--samples", "3"]
    made = both(words, tmp_path, "study", far)
    said = [without(json.loads((path / "kspace.json").read_text()), "provenance") for path in made]
    assert said[0] == said[1]


@pytest.mark.parametrize("what", ["spread", "error"])
def test_distill(scans: Path, tmp_path: Path, far: Counted, what: str) -> None:
    save_model(tmp_path / "model.json", tiny())
    config = tmp_path / "config.toml"
    side = 'split = "val"\n' if what == "error" else ""
    config.write_text(f'[data]\npatch_rows = 0\n[[data.sources]]\npath = "{scans / "one.h5"}"\n{side}')
    words = ["distill", str(tmp_path / "model.json"), "--config", str(config), "--what", what, "--elements", "4"]
    words += ["--samples", "16"] if what == "spread" else []
    same_models(*both([*words, "--iterations", "2", "--features", "3"], tmp_path, "made.json", far))
