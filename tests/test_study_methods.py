"""Methods with a standard deviation behind one door, and the studies `hallucination` and `compare` of them."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bayesmri.baselines.unet import UNetConfig
from bayesmri.bounds.bound import Calibration, Setting
from bayesmri.checkpoint import load_model, save_model
from bayesmri.cli import main
from bayesmri.errors import BayesMRIError, ConfigError, ModelError
from bayesmri.evaluation.cohort import rules
from bayesmri.evaluation.request import Request, members_of
from bayesmri.evaluation.request import named as without_folders
from bayesmri.evaluation.table import middle_slices, sampling_of
from bayesmri.io.formats import read_kspace
from bayesmri.kspace import KSpace
from bayesmri.model import Model, build
from bayesmri.posterior.error_head import ErrorHead, ErrorHeadConfig
from bayesmri.posterior.rescans import RESCANS
from bayesmri.recon.reconstruct import Reconstruction
from bayesmri.recon.undersample import undersample
from bayesmri.studies.plant import plant_volume
from bayesmri.studies.run import run_study
from bayesmri.studies.spreads import Spread, equal_samples, same_coils, spread
from study_runs import N, tiny, written


@pytest.fixture(scope="module")
def rivals(models: Path) -> Path:
    """dropping, doubting: small U-Nets beside the other models."""
    plain = UNetConfig(features=4, pools=2)
    for name, config in (("dropping", replace(plain, dropout=0.2)), ("doubting", replace(plain, variance=True))):
        network = build(config, torch.Generator().manual_seed(1))
        save_model(models / f"{name}.json", Model(network, T=0.0, S=1))
    return models


def named(folder: Path, *names: str) -> str:
    return "+".join(str(folder / f"{name}.json") for name in names)


def measured(scans: Path) -> KSpace:
    path = scans / "one.h5"
    return undersample(middle_slices(read_kspace(path), 1), sampling_of(path, 4.0, rules(Request(("m",), path))))


def run(method: Spread, kspace: KSpace, samples: int = N) -> Reconstruction:
    return method(kspace, samples=samples, seed=0, device="cpu")


def test_every_kind_has_a_standard_deviation(rivals: Path, scans: Path) -> None:
    kspace = measured(scans)
    texts = [named(rivals, *names) for names in (("wide",), ("dropping",), ("doubting",), ("fixed", "dropping"))]
    methods = [spread(text) for text in texts]
    assert [m.kind for m in methods] == ["posterior", "dropout", "variance", "ensemble"]
    assert [m.passes(N) for m in methods] == [N, N, 1, 2]
    assert methods[3].name == "fixed+dropping"
    for method in methods:
        result = run(method, kspace)
        assert result.method == method.name
        assert result.std is not None
        assert result.std.shape == result.image.shape
        assert float(result.std.max()) > 0


def test_isotropic_is_the_model_with_one_variance(rivals: Path, scans: Path) -> None:
    text = named(rivals, "wide")
    learned, plain = spread(text), spread(f"isotropic:{text}")
    assert (plain.name, plain.kind) == ("isotropic:wide", "posterior")
    kspace = measured(scans)
    a, b = run(learned, kspace), run(plain, kspace)
    np.testing.assert_allclose(a.image, b.image, rtol=1e-5)  # its L was a multiple of Id already
    for other in (named(rivals, "dropping"), named(rivals, "fixed", "dropping")):
        with pytest.raises(ModelError, match="expected one model with a posterior"):
            spread(f"isotropic:{other}")
    assert without_folders(f"isotropic:{text}") == "isotropic:wide.json"
    assert without_folders("runs/a+runs/b") == "a+b"


def test_the_typical_error_stands_in_the_place_of_sigma(rivals: Path, scans: Path, tmp_path: Path) -> None:
    model = load_model(Path(named(rivals, "wide")))
    head = ErrorHead(ErrorHeadConfig(features=2), torch.Generator().manual_seed(0)).requires_grad_(False)
    save_model(tmp_path / "headed.json", replace(model, error_head=head))
    method, kspace = spread(f"error:{tmp_path / 'headed.json'}"), measured(scans)
    assert (method.name, method.kind, method.passes(N)) == ("error:headed", "error", N + RESCANS)
    assert equal_samples([spread(named(rivals, "wide")), method], N, (16, 16)) == [N, max(2, N - RESCANS)]
    result = run(method, kspace)
    np.testing.assert_array_equal(result.std, result.error_std)
    with pytest.raises(ModelError, match="no typical error"):
        spread(f"error:{named(rivals, 'wide')}")
    assert without_folders(f"error:{tmp_path / 'headed.json'}") == "error:headed.json"


def test_an_ensemble_is_the_mean_of_its_members(rivals: Path, scans: Path) -> None:
    kspace = measured(scans)
    same = run(spread(named(rivals, "fixed", "fixed")), kspace)
    alone = run(spread(named(rivals, "fixed", "dropping")), kspace)
    a, b = (run(spread(named(rivals, name, name)), kspace).image for name in ("fixed", "dropping"))
    assert same.std is not None
    assert alone.std is not None
    np.testing.assert_array_equal(same.std, 0)
    np.testing.assert_array_equal(same.image, a)
    np.testing.assert_allclose(alone.image, (a + b) / 2, rtol=1e-6)
    np.testing.assert_allclose(alone.std, np.abs(a - b) / 2, rtol=1e-4, atol=1e-9)


def test_members_that_predict_a_variance_are_a_mixture(rivals: Path, scans: Path) -> None:
    """σ² of one member twice is its own: nothing is added by the agreement of the two."""
    kspace = measured(scans)
    once, twice = (run(spread(named(rivals, *names)), kspace) for names in (("doubting",), ("doubting", "doubting")))
    assert twice.std is not None
    assert once.std is not None
    np.testing.assert_allclose(twice.std, once.std, rtol=1e-6)


def test_what_is_no_method_is_refused(rivals: Path) -> None:
    with pytest.raises(ModelError, match="no standard deviation"):
        spread(named(rivals, "fixed"))
    with pytest.raises(ModelError, match="otherwise"):
        spread(named(rivals, "wide", "two"))
    with pytest.raises(ModelError, match="same coils"):
        same_coils([spread(named(rivals, "wide")), spread(named(rivals, "two"))])
    with pytest.raises(ModelError, match="does not exist"):
        spread(named(rivals, "wide", "nobody"))


def test_a_folder_with_a_plus_is_no_ensemble(tmp_path: Path) -> None:
    (tmp_path / "a+b").mkdir()
    assert members_of(str(tmp_path / "a+b")) == [str(tmp_path / "a+b")]
    assert members_of("runs/a+runs/b") == ["runs/a", "runs/b"]
    assert members_of("runs/a") == ["runs/a"]


def test_costs_are_counted(rivals: Path) -> None:
    """One convolution of C to D channels and k x k taps costs 2 C D k² operations a pixel."""
    wide, dropping = (spread(named(rivals, name)) for name in ("wide", "dropping"))
    assert wide.cost((64, 64)) == pytest.approx(4 * wide.cost((32, 32)), rel=0.05)
    H = 32
    grids = {"down.0": H, "down.1": H // 2, "down.2": H // 4, "up.0": H // 2, "up.1": H, "last": H}
    grids |= {"grow.0": H // 4, "grow.1": H // 2}  # of what comes in
    expected = 0
    for name, weight in dropping.members[0].model.regularizer.weights().items():
        layer = name.removeprefix("hourglass.")
        if layer.endswith("weight"):
            expected += 2 * weight.numel() * next(grid for key, grid in grids.items() if layer.startswith(key)) ** 2
    assert dropping.cost((H, H)) == expected
    ratio = wide.cost((256, 256)) / dropping.cost((256, 256))
    ensemble = spread(named(rivals, "fixed", "fixed"))
    assert equal_samples([wide, dropping, ensemble], 7, (256, 256)) == [7, max(2, round(7 * ratio)), 0]


def asked(folder: Path, data: Path, *texts: str, **changes: Any) -> Request:
    return Request(texts, data, **{"samples": N, "seed": 3, "slices": 2, **changes})


def test_hallucination_is_what_the_reconstructions_say(rivals: Path, scans: Path, tmp_path: Path) -> None:
    texts = (named(rivals, "wide"), named(rivals, "doubting"), named(rivals, "fixed", "dropping"))
    run_study("hallucination", asked(rivals, scans, *texts), tmp_path / "out")
    record = written(tmp_path / "out", "hallucination")
    assert [m["method"] for m in record["methods"]] == ["wide", "doubting", "fixed+dropping"]
    assert [(m["passes"], m["samples"]) for m in record["methods"]] == [(N, N), (1, 0), (2, 0)]
    assert record["slices"] == 4
    path = scans / "one.h5"
    request = asked(rivals, scans, texts[0])
    full, structures = plant_volume(middle_slices(read_kspace(path), 2), seed=3, name=path.name)
    kspace = undersample(full, sampling_of(path, 4.0, rules(request)))
    result = spread(texts[0])(kspace, samples=N, seed=3, device="cpu")
    assert result.truth is not None
    assert result.std is not None
    rows = [row for row in record["structures"] if row["file"] == "one.h5"]
    flat = [(s, one) for s, part in enumerate(structures) for one in part]
    assert len(rows) == len(flat) > 3
    for row, (s, one) in zip(rows, flat, strict=True):
        e, a = one.of(result.image[s] - result.truth[s]), one.change
        off = float((e * (a - a.mean())).sum() / (a * (a - a.mean())).sum())
        found = row["methods"]["wide"]
        assert found["shown"] == pytest.approx(one.planted + off, abs=1e-3)
        assert found["wrong"] == (abs(off) > 0.5)
        weights = np.abs(a) / np.abs(a).sum()
        assert found["std"] == pytest.approx(float((weights * one.of(result.std[s])).sum() / result.truth.max()))
    for method in record["methods"]:
        wrong = [row["methods"][method["method"]]["wrong"] for row in record["structures"]]
        assert method["structures"]["wrong"] == sum(wrong) == sum(k["wrong"] for k in method["kinds"].values())
        assert method["bound"] is None


def test_a_calibrated_bound_speaks_for_its_own_setting_alone(models: Path, scans: Path, tmp_path: Path) -> None:
    """A bound of infinite reach admits and holds everything, one of none nothing; of other samples there is none."""
    names = []
    for name, factor, samples in (("far", 1e6, N), ("near", 0.0, N), ("other", 1.0, N + 1)):
        setting = Setting(4.0, samples=samples)
        bound = Calibration(
            0.9, factor, 1e-3, "everywhere", setting, cap=1.0, subjects=9, volumes=9, coverage=0.9, worst=0.8
        )
        save_model(tmp_path / f"{name}.json", replace(tiny(), calibrations=(bound,)))
        names.append(str(tmp_path / f"{name}.json"))
    run_study("hallucination", asked(models, scans / "one.h5", *names), tmp_path / "out")
    far, near, other = (m["bound"] for m in written(tmp_path / "out", "hallucination")["methods"])
    assert other is None
    assert (far["level"], far["held"], near["held"]) == (0.9, 1.0, 0.0)
    assert far["structures"] == {"hits": 1.0, "false_alarms": 1.0}
    assert near["structures"] == {"hits": 0.0, "false_alarms": 0.0}
    assert (far["pixels"]["false_alarms"], near["pixels"]["false_alarms"]) == (1.0, 0.0)


def test_planted_data_repeats_and_follows_the_seed(scans: Path) -> None:
    full = read_kspace(scans / "three.h5")
    a, b, c = (plant_volume(full, seed=seed, name="three.h5")[0].z for seed in (1, 1, 2))
    np.testing.assert_array_equal(a, b)
    assert not np.array_equal(a, c)


def test_compare_asks_what_reliability_asks(rivals: Path, scans: Path, tmp_path: Path) -> None:
    texts = (named(rivals, "wide"), named(rivals, "dropping"), named(rivals, "doubting"))
    run_study("compare", asked(rivals, scans, *texts), tmp_path / "compare")
    record = written(tmp_path / "compare", "compare")
    run_study("reliability", asked(rivals, scans, texts[0]), tmp_path / "reliability")
    alone = written(tmp_path / "reliability", "reliability")
    first, dropping, doubting = record["methods"]
    assert first["foreground"]["spearman"] == pytest.approx(alone["all"]["foreground"]["spearman"])
    assert first["foreground"]["ause"] == pytest.approx(alone["all"]["foreground"]["ause"])
    assert first["psnr"] == pytest.approx(np.mean([row["psnr"] for row in alone["rows"]]))
    assert [row["n"] for row in first["ladder"]] == [2, 4, N]
    assert first["ladder"][-1]["spearman"] == first["foreground"]["spearman"]
    assert first["ladder"][0]["gflop"] == pytest.approx(first["gflop"] * 2 / N)
    assert dropping["gflop"] == pytest.approx(first["gflop"], rel=0.6 / dropping["passes"])
    assert [row["n"] for row in doubting["ladder"]] == [1]
    run_study("hallucination", asked(rivals, scans, texts[0]), tmp_path / "planted")
    planted = written(tmp_path / "planted", "hallucination")["methods"][0]
    assert first["structures"] == planted["structures"]
    assert first["pixels"] == planted["pixels"]


def test_the_commands_print_a_table(
    rivals: Path, scans: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = ["--data", str(scans / "one.h5"), "--slices", "1", "--samples", "2"]
    texts = [named(rivals, "wide"), named(rivals, "fixed", "dropping")]
    assert main(["study", "hallucination", "--models", *texts, *data, "-o", str(tmp_path / "a")]) == 0
    said = capsys.readouterr().out
    assert "fixed+dropping (ensemble)" in said
    assert "0.5 is chance" in said
    assert main(["study", "compare", "--models", *texts, *data, "-o", str(tmp_path / "b")]) == 0
    assert "Equal compute" in capsys.readouterr().out
    origin = json.loads((tmp_path / "b" / "compare.json").read_text())["provenance"]
    assert origin["config"]["models"] == ["wide.json", "fixed.json+dropping.json"]
    assert {entry["name"] for entry in origin["inputs"]} == {"one.h5", "wide.json", "fixed.json", "dropping.json"}


def test_what_the_studies_cannot_use_is_refused(rivals: Path, scans: Path, tmp_path: Path) -> None:
    cases: list[tuple[tuple[str, ...], type[BayesMRIError], str]] = [
        ((named(rivals, "fixed"),), ModelError, "no standard deviation"),
        ((named(rivals, "wide"), named(rivals, "wide")), ConfigError, "twice"),
        ((named(rivals, "wide"), named(rivals, "two")), ModelError, "same coils"),
    ]
    for texts, error, words in cases:
        for name in ("hallucination", "compare"):
            with pytest.raises(error, match=words) as refused:
                run_study(name, asked(rivals, scans / "one.h5", *texts), tmp_path / "out")
            assert "\n" not in str(refused.value)
    assert not (tmp_path / "out").exists()
