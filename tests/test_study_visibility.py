"""The study of visibility and the fit of its weights, on small models and phantoms."""

import json
from pathlib import Path

import numpy as np
import pytest

from bayesmri.analysis.structures import draw_structures
from bayesmri.analysis.visibility import GAIN, SPREAD
from bayesmri.recon.files import PhantomRequest, simulate_file
from bayesmri.studies.run import run_study
from bayesmri.studies.visibility import judged, right_chance
from bayesmri.studies.visibility_fit import CONTRASTS, KIND, SIZES, Samples, class_of, fitted
from study_runs import PNG, request


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("head") / "head.h5"
    simulate_file(PhantomRequest("head", "PD", (96, 96)), path, snr_db=30, seed=5)
    return path


def test_the_study_says_what_came_out(models: Path, head: Path, tmp_path: Path) -> None:
    run_study("visibility", request(models, "wide", head, samples=2), tmp_path)
    record = json.loads((tmp_path / "visibility.json").read_text())
    (method,) = record["methods"]
    rows = record["structures"]
    assert method["n"] == len(rows) > 3
    assert {row["kind"] for row in rows} <= {"lesion", "line", "texture"}
    for row in rows:
        assert 0 <= row["visibility"] <= 1
        assert row["wrong"] == (abs(row["shown"] - 1) > 0.5)
    assert sum(part["n"] for part in method["bins"]) == len(rows)
    assert set(method["areas"]) == {"visibility", "any_contrast", "any_direction", "best", "kept", "std"}
    for row in rows:
        assert row["carried"] + row["clutter"] == pytest.approx(row["shown"], abs=2e-4)
    for why in method["causes"].values():
        assert sum(why.values()) == pytest.approx(1) or not any(why.values())
    assert (tmp_path / "visibility.png").read_bytes().startswith(PNG)


def test_a_model_without_samples_is_judged_by_visibility_alone(models: Path, head: Path, tmp_path: Path) -> None:
    run_study("visibility", request(models, "fixed", head, samples=None), tmp_path)
    (method,) = json.loads((tmp_path / "visibility.json").read_text())["methods"]
    assert "std" not in method["areas"]


def test_areas_are_those_of_the_scores() -> None:
    """Visibility that falls where structures are wrong has the area 1, σ̂ that does so 0."""
    rows = [
        {"file": f"{i % 3}", "kind": "lesion", "shown": shown, "wrong": shown < 0.5, "std": shown, "kept": 0.5}
        | {"carried": shown + 0.2, "clutter": -0.2}
        | dict.fromkeys(("visibility", "any_contrast", "any_direction", "best"), shown)
        for i, shown in enumerate(np.linspace(0.05, 0.95, 12))
    ]
    found = judged(rows, seed=0)
    areas = found["areas"]
    assert found["causes"]["lesion"] == pytest.approx({"carried": 4 / 6, "clutter": 0, "either": 0, "together": 2 / 6})
    assert areas["visibility"]["all"]["area"] == 1
    assert areas["std"]["lesion"]["area"] == 0
    assert areas["kept"]["all"]["area"] == 0.5
    assert areas["visibility"]["line"] is None


@pytest.mark.parametrize("snr", [-2.0, 0.0, 3.0])
@pytest.mark.parametrize("carried", [0.2, 0.5, 1.0])
def test_the_chance_is_that_of_errors_of_their_size(carried: float, snr: float) -> None:
    errors = np.random.default_rng(0).normal(size=100_000) * np.exp(-snr)
    assert right_chance(carried, snr) == pytest.approx(np.mean(np.abs(carried - 1 + errors) <= 0.5), abs=0.01)


def test_a_class_is_near_its_structure() -> None:
    Y = np.zeros((96, 96))
    Y[8:88, 8:88] = 1.0
    found = draw_structures(Y, 1.0, rng=np.random.default_rng(2), count=15)
    for structure in (one for one in found if one.kind in KIND):
        template = class_of(structure)
        assert template.size in SIZES[template.kind]
        assert abs(template.contrast) in CONTRASTS
        assert np.sign(template.contrast) == np.sign(structure.contrast)
        if structure.kind in ("line", "texture"):
            away = abs(template.views[0].angle - structure.angle) % np.pi
            assert min(away, np.pi - away) <= np.pi / 16 + 1e-9


def test_the_fit_finds_the_weights_that_made_the_data() -> None:
    """Shares drawn by v of known weights are told by the weights fitted, which never fall with the contrast."""
    rng = np.random.default_rng(0)
    n = 600
    truth = rng.normal(size=len(SPREAD)) * 0.3
    spread = np.c_[rng.normal(size=(n, len(SPREAD) - 1)), np.ones(n)]
    gain = np.c_[rng.normal(size=(n, len(GAIN) - 1)), np.ones(n)]
    level = rng.normal(size=n)
    w = rng.normal(size=len(GAIN)) * 0.8
    w[GAIN.index("contrast")] = 0.5
    v = 1 / (1 + np.exp(-gain @ w)) / (1 + np.exp(-0.5 - (level - spread @ truth)))
    samples = Samples(
        spread=list(spread),
        gain=list(gain),
        level=list(level),
        deviation=list(v - 1),
        error_spread=list(spread),
        error_size=list(spread @ truth - 0.635),
    )
    weights = fitted(samples, {})
    np.testing.assert_allclose(weights.spread, truth, atol=1e-6)
    snr = level - spread @ np.array(weights.spread)
    told = 1 / (1 + np.exp(-gain @ np.array(weights.gain))) / (1 + np.exp(weights.clutter - snr))
    assert np.sqrt(np.mean((told - v) ** 2)) < 0.03
    assert weights.gain[GAIN.index("contrast")] >= 0
