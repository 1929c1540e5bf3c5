"""Nothing that a command reads is overwritten by what it writes: masks, models, runs, data."""

import hashlib
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from bayesmri.bounds.bound import Calibration, Region, Setting
from bayesmri.checkpoint import save_model
from bayesmri.cli import main
from bayesmri.errors import ConfigError
from bayesmri.model import Coils, Model
from bayesmri.recon.acquisition import Sampling
from bayesmri.recon.files import PhantomRequest, reconstruct_file, simulate_file
from bayesmri.recon.outputs import bound_facts
from bayesmri.recon.request import Options
from bayesmri.regularizers.tdv import TDV, TDVConfig
from bayesmri.zoo import own_files, shipped


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """scan.h5, mask.txt, model.json with its weights, run/ with the same as a checkpoint."""
    simulate_file(PhantomRequest("head", "PD", (32, 30)), tmp_path / "scan.h5", coils=1, snr_db=30, seed=1)
    lines = np.zeros(30, dtype=int)
    lines[::3] = lines[12:18] = 1
    np.savetxt(tmp_path / "mask.txt", lines, fmt="%d")
    reg = TDV(TDVConfig(Q=1, features=4, macroblocks=1, scales=2), torch.Generator().manual_seed(0))
    save_model(tmp_path / "model.json", Model(reg, T=1.0, S=2, coils=Coils("raw", 1)))
    (tmp_path / "run").mkdir()
    for ending in (".json", ".safetensors"):
        shutil.copy(tmp_path / f"model{ending}", tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def contents(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.parametrize(
    "command",
    [
        "recon scan.h5 -o scan.h5 --acceleration 4",
        "recon scan.h5 -o mask.txt --mask mask.txt",
        "undersample scan.h5 -o mask.txt --mask mask.txt",
        "recon scan.h5 -o model.json --model model.json --acceleration 4",
        "recon scan.h5 -o model.safetensors --model model.json --acceleration 4",
        "recon scan.h5 -o run/model.json --model run --acceleration 4",
        "evaluate --data scan.h5 --methods zero-filled,model.json -o model.json",
        "evaluate --data scan.h5 --methods zero-filled,run -o run/model.json",
    ],
)
def test_what_is_read_is_not_overwritten(here: Path, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(here)
    assert main(command.split()) == 2
    said = capsys.readouterr().err.strip()
    assert said.count("\n") == 0
    assert "another name" in said or "expected" in said
    assert contents(here) == before


def test_results_may_be_written_beside_the_model(here: Path) -> None:
    for _ in range(2):
        assert main(["recon", "scan.h5", "-o", "run/out.h5", "--model", "run", "--acceleration", "4", "--force"]) == 0
    for _ in range(2):
        assert main(["evaluate", "--data", ".", "--methods", "zero-filled", "-o", "results.json", "--force"]) == 0


def test_curves_do_not_replace_other_numbers(here: Path) -> None:
    (here / "run" / "metrics.jsonl").write_text('{"kind": "train", "step": 5, "loss": 1.0, "elapsed": 60}\n')
    before = contents(here)
    assert main(["curves", "run", "-o", "model.png", "--force"]) == 2
    assert contents(here) == before
    for _ in range(2):
        assert main(["curves", "run", "-o", "curves.png", "--force"]) == 0


def test_shipped_models_have_no_files_of_the_users() -> None:
    assert own_files(shipped()[0].name) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "sense", "tv_weight": 0.1}, "expected it with tv only"),
        ({"model": "auto", "tv_weight": 0.1}, "expected it with tv only"),
        ({"coils": 3, "single_coil": True}, "leave one out"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Options(**options)  # type: ignore[arg-type]


def test_one_sample_has_no_deviation_to_write(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["recon", "scan.h5", "-o", "out.h5", "--model", "tdv-single-r4", "--acceleration", "4", "--samples", "1"])
        == 2
    )
    assert "no standard deviation" in capsys.readouterr().err
    assert not (here / "out.h5").exists()


def test_samples_that_no_memory_holds_are_refused_before_the_work(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="got 1000000000 samples, expected a whole number from 0 to 4096"):
        Options(model="tdv-r4", samples=10**9, keep_samples=True)
    monkeypatch.setenv("BAYESMRI_MAX_BYTES", "10000000")
    options = Options(model="tdv-single-r4", samples=4096, keep_samples=True)
    with pytest.raises(ConfigError, match=r"4096 samples of 1 slices to be kept take .*: keep fewer"):
        reconstruct_file(here / "scan.h5", here / "out.h5", options, Sampling(4))


def test_a_method_and_a_model_are_one_too_many(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main([*["recon", "scan.h5", "-o", "out.h5", "--method", "tv", "--acceleration", "4", "--model"], "model.json"])
        == 2
    )
    assert "leave one of the two out" in capsys.readouterr().err
    assert not (here / "out.h5").exists()


@pytest.mark.parametrize(("R", "far"), [(4, False), (5, False), (8, True), (2, True)])
def test_other_accelerations_than_those_of_training_are_pointed_out(here: Path, R: float, far: bool) -> None:
    made = reconstruct_file(here / "scan.h5", here / "out.h5", Options(model="tdv-single-r4"), Sampling(R))
    notes = [note for note in made["warnings"] if "extrapolations" in note]
    assert len(notes) == far
    if far:
        assert "trained for R = 4 and the data has R = " in notes[0]


def test_volumes_of_one_name_are_told_apart(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for k, folder in enumerate(("a", "b")):
        simulate_file(PhantomRequest("head", "PD", (32, 30)), here / "all" / folder / "k.h5", coils=1, seed=k)
    assert main(["evaluate", "--data", "all", "--methods", "zero-filled", "-o", "found.txt"]) == 0
    assert "found.json" in capsys.readouterr().out
    page = (here / "found.md").read_text()
    assert "Means over 2 volumes" in page
    assert "| a/k.h5 |" in page
    assert "| b/k.h5 |" in page
    assert (
        main(["evaluate", "--data", "all", "--methods", "zero-filled", "--acceleration", "4", "4", "-o", "found.json"])
        == 2
    )


@pytest.mark.parametrize("region", ["everywhere", "foreground"])
def test_the_share_a_bound_holds_is_that_of_its_region(region: Region) -> None:
    """Air is held, the body is not: half of all pixels, none of the foreground."""
    truth = np.zeros((1, 8, 8), dtype=np.float32)
    truth[:, :, :4] = 1
    found = Calibration(0.9, 1.0, 0.01, region, Setting(4.0), 0.2, 9, 9, 0.9, 0.8)
    image = 0.5 * truth
    result = SimpleNamespace(
        calibration=found,
        error_bound=np.full_like(truth, 0.1),
        bound_of="uncertainty_std",
        mean=image,
        truth=truth,
        bound_note=None,
    )
    covered = bound_facts(result)["error_bound"]["covered"]  # type: ignore[arg-type]
    assert covered == (0.5 if region == "everywhere" else 0.0)
