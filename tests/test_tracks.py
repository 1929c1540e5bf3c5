"""One table over one coil and arrays of coils: what every method is given, who takes part, what is printed."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from bayesmri import zoo
from bayesmri.checkpoint import save_model
from bayesmri.cli import main
from bayesmri.errors import ModelError
from bayesmri.evaluation.request import Study
from bayesmri.evaluation.table import command, evaluate, fully_sampled, means
from bayesmri.evaluation.tracks import with_array
from bayesmri.kspace import Header, KSpace
from bayesmri.model import Coils, Model
from bayesmri.posterior.block_gaussian import BlockGaussian, initial_L
from bayesmri.recon.undersample import fully_sampled_image
from bayesmri.regularizers.tdv import TDV, TDVConfig
from bayesmri.report.tables import latex, markdown, text
from training_runs import write_raw


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Measured k-space of one coil and of three, and magnitude images, in folders of their own."""
    for name in ("raw", "images"):
        (tmp_path / "val" / name).mkdir(parents=True)
    write_raw(tmp_path / "val" / "raw" / "one.h5", shape=(24, 25))
    write_raw(tmp_path / "val" / "raw" / "three.h5", coils=3, shape=(25, 24))
    with h5py.File(tmp_path / "val" / "images" / "images.h5", "w") as file:
        file["image"] = np.random.default_rng(0).integers(0, 4096, (2, 24, 26)).astype(np.uint16)
    return tmp_path / "val"


def tiny_tdv(coils: Coils, R: float, *, stochastic: bool = False, seed: int = 0) -> Model:
    Q = coils.Q if coils.mode == "virtual" else 1
    config = TDVConfig(Q=Q, features=4, macroblocks=1, scales=2, init="positive")
    reg = TDV(config, torch.Generator().manual_seed(seed))
    theta = {key: w.detach() for key, w in reg.weights().items()}
    posterior = BlockGaussian(theta, initial_L(theta, reg.kernels(), 0.05)) if stochastic else None
    return Model(reg, 2.0, 2, coils, acceleration=R, posterior=posterior)


@pytest.fixture
def four(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Shipped: tdv for one coil and arrays, and with coils as channels, at R = 4, with a posterior, and at R = 8."""
    weights = tmp_path / "weights"
    monkeypatch.setattr(zoo, "FOLDER", weights)
    for R, stochastic in ((4.0, True), (8.0, False)):
        for seed, (name, coils) in enumerate(
            (("tdv", Coils("sensitivities", 2)), ("tdv-channels", Coils("virtual", 2)))
        ):
            save_model(weights / f"{name}-r{R:g}.json", tiny_tdv(coils, R, stochastic=stochastic, seed=seed + int(R)))
    return weights


def test_an_array_around_measured_data_keeps_its_image() -> None:
    rng = np.random.default_rng(0)
    z = (rng.normal(size=(2, 1, 17, 20)) + 1j * rng.normal(size=(2, 1, 17, 20))).astype(np.complex64)
    kspace = KSpace(z, np.ones(20, dtype=bool), Header("test"))
    array = with_array(kspace, coils=5, seed=3)
    assert array.z.shape == (2, 5, 17, 20)
    np.testing.assert_allclose(fully_sampled_image(array.z), fully_sampled_image(z), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(with_array(kspace, coils=5, seed=3).z, array.z)
    assert np.abs(with_array(kspace, coils=5, seed=4).z - array.z).max() > 0.01
    assert with_array(array, coils=8, seed=0) is array


def test_tracks_decide_the_coils_of_every_volume(folder: Path) -> None:
    rows = evaluate(Study(folder, ("zero-filled",), tracks=("single", "multi")))["rows"]
    assert {row["coils"] for row in rows if row["track"] == "single"} == {1}
    multi = {row["file"]: row["coils"] for row in rows if row["track"] == "multi"}
    assert multi == {"images.h5": 8, "one.h5": 8, "three.h5": 3}
    assert {row["volumes"] for row in means(rows)} == {3}
    five = Study(folder, ("zero-filled",), coils=5, tracks=("multi",))
    assert fully_sampled(folder / "raw" / "one.h5", five.track("multi")).z.shape[1] == 5


def test_rows_do_not_depend_on_who_else_takes_part(folder: Path, four: Path) -> None:
    everybody = evaluate(Study(folder, ("zero-filled", "tv", "tdv"), (4.0, 8.0), tracks=("single", "multi")))["rows"]
    alone = evaluate(Study(folder, ("tdv",), (8.0,), tracks=("multi",)))["rows"]
    key = ("method", "track", "acceleration", "file")
    known = {tuple(row[k] for k in key): row["psnr"] for row in everybody}
    assert len(known) == len(everybody) == 3 * 2 * 2 * 3
    for row in alone:
        assert row["psnr"] == known[tuple(row[k] for k in key)]


def test_a_family_and_auto_follow_coils_and_acceleration(folder: Path, four: Path) -> None:
    rows = evaluate(Study(folder, ("auto", "tdv"), (4.0, 8.0), tracks=("single", "multi")))["rows"]
    for row in rows:
        assert row["model"] == f"tdv-r{row['acceleration']:g}"
    by_name = evaluate(Study(folder, ("tdv-r8",), (8.0,), tracks=("multi",)))["rows"]
    named = {row["file"]: row["psnr"] for row in by_name}
    for row in rows:
        if (row["track"], row["acceleration"]) == ("multi", 8.0):
            assert row["psnr"] == named[row["file"]]


def test_samples_are_a_row_of_their_own_where_there_is_a_posterior(folder: Path, four: Path) -> None:
    result = evaluate(Study(folder / "raw", ("zero-filled", "tdv"), tracks=("single",), samples=2))
    by_method = {row["method"]: row for row in means(result["rows"])}
    assert list(by_method) == ["zero-filled", "tdv", "tdv, mean of 2"]
    at_mean, drawn = by_method["tdv"], by_method["tdv, mean of 2"]
    assert drawn["samples"] == 2
    assert drawn["psnr"] != at_mean["psnr"]
    assert drawn["parameters"] > at_mean["parameters"] > 1
    assert evaluate(Study(folder / "raw", ("tdv-r8",), samples=2, single_coil=True))["rows"][0]["samples"] == 0


def test_who_cannot_take_part_leaves_a_gap_and_a_reason(folder: Path, four: Path) -> None:
    save_model(four / "one-coil.json", tiny_tdv(Coils("raw", 1), 4.0))
    result = evaluate(Study(folder, ("zero-filled", "one-coil"), tracks=("single", "multi")))
    assert {row["track"] for row in result["rows"] if row["method"] == "one-coil"} == {"single"}
    assert any(line.startswith("one-coil, multi-coil: got data of 8 coils") for line in result["skipped"])
    with pytest.raises(ModelError, match="one-coil, multi-coil"):
        evaluate(Study(folder, ("zero-filled", "one-coil"), tracks=("multi",)))


def test_all_is_every_method_and_family(folder: Path, four: Path, tmp_path: Path) -> None:
    out = tmp_path / "results.json"
    argv = ["evaluate", "--data", str(folder), "--methods", "all", "--track", "single", "multi", "--acceleration", "4"]
    assert main([*argv, "-o", str(out)]) == 0
    result = json.loads(out.read_text())
    assert {row["method"] for row in result["rows"]} >= {"zero-filled", "tv", "tdv-channels", "tdv"}
    assert result["command"] == "bayesmri evaluate --data val --methods all --acceleration 4 --track single multi"
    page = out.with_suffix(".md").read_text()
    assert page.startswith("# Results\n")
    assert result["command"] in page
    assert "\n| multi-coil | tdv | " in page
    assert "\n| single-coil | 4 | one.h5 | 3 | 1 | " in page
    assert str(tmp_path) not in page


def test_a_table_with_tracks_names_the_acquisition() -> None:
    rows = [
        {
            "track": t,
            "method": "a",
            "acceleration": 4.0,
            "psnr": p,
            "nmse": 0.1,
            "ssim": 0.5,
            "seconds": 1,
            "parameters": n,
        }
        for t, p, n in (("single", 30.0, 7), ("multi", 20.0, 9))
    ]
    table = means(rows)
    assert "| single-coil | a | 7 | 30.00 |" in markdown(table)
    assert "| multi-coil | a | 9 | 20.00 |" in markdown(table)
    assert latex(table).startswith("\\begin{tabular}{llrrrrr}\nacquisition & method & parameters")
    assert len({len(line) for line in text(table).splitlines()}) == 1


def test_a_command_repeats_its_study() -> None:
    study = Study(Path("/secret/val"), ("tv", "auto"), (4.0, 8.0), single_coil=True, snr_db=20.0, seed=3, samples=16)
    assert command(study) == (
        "bayesmri evaluate --data val --methods tv,auto --acceleration 4 8 --single-coil --samples 16 --snr 20.0 "
        "--seed 3"
    )
