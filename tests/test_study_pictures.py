"""Studies that show one slice by several models: the overview and the eigenfunctions."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bayesmri import zoo
from bayesmri.analysis.eigenfunctions import state_at
from bayesmri.analysis.regions import most_telling
from bayesmri.baselines.network import build_network
from bayesmri.baselines.unet import UNet, UNetConfig
from bayesmri.checkpoint import save_model
from bayesmri.errors import ConfigError, ModelError
from bayesmri.evaluation.cohort import load, rules, sample_volume
from bayesmri.evaluation.request import Request
from bayesmri.evaluation.table import middle_slices, sampling_of
from bayesmri.io.formats import read_kspace
from bayesmri.model import Coils, Model
from bayesmri.physics.fourier import ifft2c
from bayesmri.recon.undersample import draw_mask
from bayesmri.regularizers.base import Regularizer
from bayesmri.studies.run import run_study
from study_runs import N, request, tiny, written


def several(models: Path, *names: str, data: Path, **changes: Any) -> Request:
    asked = request(models, names[0], data, **changes)
    return replace(asked, models=tuple(str(models / f"{name}.json") for name in names))


def test_eigenfunctions_start_at_reconstruction_and_truth(models: Path, scans: Path, tmp_path: Path) -> None:
    asked = several(models, "wide", "two", data=scans / "three.h5", samples=None, iterations=4)
    run_study("eigenfunctions", asked, tmp_path)
    record = written(tmp_path, "eigenfunctions")
    assert [(row["model"], row["start"]) for row in record["rows"]] == [
        (model, start) for model in ("wide", "two") for start in ("reconstruction", "fully sampled")
    ]
    for row in record["rows"]:
        assert len(row["residuals"]) == len(row["eigenvalues"]) == row["iterations"] + 1 == 5
        assert row["residuals"][0] == row["residual_start"] > row["residuals"][-1] == row["residual"]
        assert row["residuals"] == sorted(row["residuals"], reverse=True)
        assert 0 < row["change"] < 1
    model = load(asked.models[1]).model
    path = scans / "three.h5"
    u = torch.from_numpy(middle_slices(read_kspace(path), 1).z)
    mask = torch.from_numpy(draw_mask(u.shape[-1], sampling_of(path, 4.0, rules(asked))))
    # Λ is not homogeneous: it tells whether the start came in the scale that the model takes
    v = ifft2c(model.coils.prepare(u))[0] / model.scaling.factor(model.coils.prepare(u * mask))
    assert isinstance(model.regularizer, Regularizer)
    expected = state_at(model.regularizer, v)
    assert record["rows"][3]["eigenvalue_start"] == pytest.approx(expected.eigenvalue, rel=1e-4)
    x = model.reconstruct(u * mask, mask)[0] / model.scaling.factor(model.coils.prepare(u * mask))
    expected = state_at(model.regularizer, x)
    assert record["rows"][2]["eigenvalue_start"] == pytest.approx(expected.eigenvalue, rel=1e-4)


def test_eigenfunctions_need_a_regularizer_and_draw_nothing(models: Path, scans: Path, tmp_path: Path) -> None:
    network = build_network(UNet, UNetConfig(features=2, pools=1), torch.Generator().manual_seed(0))
    save_model(tmp_path / "unet.json", Model(network, T=0.0, S=1))
    asked = request(tmp_path, "unet", scans / "one.h5", samples=None, iterations=1)
    with pytest.raises(ModelError, match="unet is a network without a regularizer"):
        run_study("eigenfunctions", asked, tmp_path / "out")
    with pytest.raises(ConfigError, match="draws none"):
        run_study("eigenfunctions", request(models, "wide", scans / "one.h5"), tmp_path / "out")
    with pytest.raises(ConfigError, match="got --iterations 3 for the study kspace"):
        run_study("kspace", request(models, "wide", scans / "one.h5", iterations=3), tmp_path / "out")
    with pytest.raises(ConfigError, match="0 iterations"):
        request(models, "wide", scans / "one.h5", iterations=0)
    assert not (tmp_path / "out").exists()


def test_overview_shows_every_model_at_its_coils_and_acceleration(models: Path, scans: Path, tmp_path: Path) -> None:
    asked = several(models, "wide", "two", "fixed", data=scans / "three.h5", accelerations=(4.0, 2.0), errors=True)
    run_study("overview", asked, tmp_path)
    record = written(tmp_path, "overview")
    names = [(row["model"], row["setting"]) for row in record["rows"]]
    assert names == [
        (model, f"{track}-coil, R = {R}")
        for model, track in (("wide", "single"), ("two", "multi"), ("fixed", "single"))
        for R in (4, 2)
    ]
    path = scans / "three.h5"
    full = middle_slices(read_kspace(path), 1)
    result = sample_volume(full, path, 2.0, load(asked.models[1]), asked)
    row = record["rows"][3]
    assert row["mean"]["psnr"] == pytest.approx(result.metrics().psnr)
    assert row["deterministic"]["ssim"] == pytest.approx(result.deterministic_metrics().ssim)
    assert row["zero_filled"]["nmse"] == pytest.approx(result.zero_filled_metrics().nmse)
    assert result.std is not None
    assert result.truth is not None
    region = record["regions"][0]
    rows, columns = (slice(region[key], region[key] + region["size"]) for key in ("row", "column"))
    spread = float(result.std[0, rows, columns].mean() / result.truth.max())
    assert row["std_regions"][0] == pytest.approx(spread, rel=1e-5)
    assert [record["rows"][i]["mean"] for i in (4, 5)] == [None, None]
    assert (record["samples"], record["left_out"]) == (N, [])


def test_overview_takes_shipped_models_and_names_what_is_not_there(
    scans: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "weights"
    for name, coils, R in (("one-r4", Coils("raw", 1), 4.0), ("any-r8", Coils("sensitivities", 2), 8.0)):
        save_model(folder / f"{name}.json", replace(tiny(1), coils=coils, acceleration=R))
    monkeypatch.setattr(zoo, "FOLDER", folder)
    asked = Request((), scans / "one.h5", samples=2)
    run_study("overview", asked, tmp_path / "out")
    record = written(tmp_path / "out", "overview")
    found = [(row["model"], row["setting"], row["coils"]) for row in record["rows"]]
    assert [(model, setting) for model, setting, _ in found] == [
        ("one-r4", "single-coil, R = 4"),
        ("any-r8", "single-coil, R = 8"),
        ("any-r8", "multi-coil, R = 8"),
    ]
    left_out = [line.partition(":")[0] for line in record["left_out"]]
    assert left_out == ["multi-coil, R = 4"]
    assert record["skipped"] == record["left_out"]
    inputs = [entry["name"] for entry in record["provenance"]["inputs"]]
    assert inputs == ["one.h5", "one-r4.json", "any-r8.json"]
    with pytest.raises(ModelError, match="R = 3"):
        run_study("overview", replace(asked, accelerations=(3.0,)), tmp_path / "none")


def test_regions_are_where_samples_spread_and_where_there_is_detail() -> None:
    image, std = np.zeros((30, 40)), np.zeros((30, 40))
    image[3:9, 22:28] = np.indices((6, 6)).sum(axis=0) % 2  # fine lines beside one tall edge
    image[20:, :] = 2
    std[18:24, 5:11] = 1
    spread, detailed = most_telling(image, std, size=6)
    assert (spread.row, spread.column) == (18, 5)
    assert abs(detailed.row - 3) <= 1
    assert abs(detailed.column - 22) <= 1
    alone = most_telling(image, None, size=6)
    assert alone[0] == detailed
    assert len(alone) == 2
    assert most_telling(np.ones((6, 6)), np.ones((6, 6)), size=6)[1:] == []
