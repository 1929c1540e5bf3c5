"""The docs' figures: a plan for every study, blocks that are renewed and nothing else, figures drawn from numbers."""

import importlib.util
import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from PIL import Image

from bayesmri.cli import main
from bayesmri.errors import ConfigError, DataError
from bayesmri.recon.files import PhantomRequest, simulate_file
from bayesmri.studies.redraw import REDRAWN, redraw_study
from bayesmri.studies.registry import STUDIES
from bayesmri.studies.run import run_study
from bayesmri.zoo import shipped
from study_runs import PNG, request, written

ROOT = Path(__file__).resolve().parents[1]
PAGE = "# Studies\n\n<!-- covariance -->\nold\n<!-- /covariance -->\n\n<!-- entropy -->\nkept\n<!-- /entropy -->\n"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_script", ROOT / "scripts" / "docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["docs_script"] = module  # its dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def record(models: Path, scans: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("entropy")
    run_study("entropy", request(models, "wide", scans / "one.h5", slices=1, samples=2), folder)
    return folder / "entropy.json"


def test_every_study_has_a_plan_and_a_place(script: ModuleType) -> None:
    assert set(script.PLANS) == set(STUDIES)
    page = (ROOT / "docs" / "studies.md").read_text(encoding="utf-8")
    for name, plan in script.PLANS.items():
        assert script.replaced(page, name, "x") != page
        assert plan.source != "numbers" or name in REDRAWN


def test_what_the_page_shows_is_there() -> None:
    page = (ROOT / "docs" / "studies.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\(((?:figures|data)/[^)]+)\)", page)
    assert "figures/overview.png" in links
    for link in links:
        path = ROOT / "docs" / link
        if path.suffix == ".json":
            assert json.loads(path.read_text(encoding="utf-8"))["study"] == path.stem
        else:
            assert path.read_bytes().startswith(PNG)
            assert path.stat().st_size < 1_500_000, f"{link} is too large to be kept in a repository"


def test_a_study_leaves_figure_numbers_and_table(script: ModuleType, models: Path, tmp_path: Path) -> None:
    (tmp_path / "studies.md").write_text(PAGE)
    plan = script.Plan("model", models=(str(models / "wide.json"),))
    (tmp_path / "scratch").mkdir()
    script.draw("covariance", plan, data=tmp_path, scratch=tmp_path / "scratch", docs=tmp_path)
    page = (tmp_path / "studies.md").read_text()
    assert "old" not in page
    assert "<!-- entropy -->\nkept\n<!-- /entropy -->" in page
    assert "![covariance](figures/covariance.png)" in page
    assert "mb0_res0_K1" in page
    saved = json.loads((tmp_path / "data" / "covariance.json").read_text())
    assert saved["study"] == "covariance"
    assert "processor" not in saved["provenance"]
    with Image.open(tmp_path / "figures" / "covariance.png") as figure:
        assert figure.width <= script.WIDTH


def test_numbers_are_drawn_again_in_their_place(script: ModuleType, record: Path, tmp_path: Path) -> None:
    (tmp_path / "studies.md").write_text(PAGE)
    (tmp_path / "data").mkdir()
    (tmp_path / "scratch").mkdir()
    (tmp_path / "data" / "entropy.json").write_text(record.read_text())
    script.draw("entropy", script.Plan("numbers"), data=tmp_path, scratch=tmp_path / "scratch", docs=tmp_path)
    assert "wide" in (tmp_path / "studies.md").read_text()
    before, after = (json.loads(path.read_text()) for path in (record, tmp_path / "data" / "entropy.json"))
    assert after["rows"] == before["rows"]
    assert (tmp_path / "figures" / "entropy.png").read_bytes().startswith(PNG)


def test_one_failure_spares_the_others_and_is_told(
    script: ModuleType,
    record: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = "".join(f"<!-- {name} -->\n<!-- /{name} -->\n" for name in ("entropy", "reliability"))
    (tmp_path / "studies.md").write_text(page)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "entropy.json").write_text(record.read_text())
    plans = {name: script.Plan("numbers") for name in ("reliability", "entropy")}
    monkeypatch.setattr(script, "PLANS", plans)
    monkeypatch.setattr(script, "STUDIES", dict.fromkeys(plans))
    monkeypatch.setattr(script, "TRAININGS", ())
    monkeypatch.setattr(script, "TABLES", {})
    monkeypatch.setattr(script, "DOCS", tmp_path)
    monkeypatch.setattr(sys, "argv", ["docs.py"])
    assert script.main() == 1
    assert "failed: reliability" in capsys.readouterr().err
    assert (tmp_path / "figures" / "entropy.png").exists()
    assert not (tmp_path / "figures" / "reliability.png").exists()
    monkeypatch.setattr(sys, "argv", ["docs.py", "entropy"])
    assert script.main() == 0
    monkeypatch.setattr(sys, "argv", ["docs.py", "entropie"])
    assert script.main() == 2
    monkeypatch.setattr(script, "STUDIES", dict.fromkeys([*plans, "new"]))
    monkeypatch.setattr(sys, "argv", ["docs.py"])
    assert script.main() == 2
    assert "new" in capsys.readouterr().err


def test_trainings_are_drawn_from_their_numbers(script: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "training-log.md"
    page.write_text("# Log\n\n<!-- training-x -->\nold\n<!-- /training-x -->\nkept\n")
    for folder in ("data", "figures", "scratch"):
        (tmp_path / folder).mkdir()
    point = {"update": 10, "hours": 0.5, "psnr": 30.0, "psnr_zero_filled": 25.0, "ssim": 0.9}
    runs = [{"name": "a", "updates": 10, "hours": 0.5}]
    curve = {"name": "a", "runs": runs, "loss": [{"update": 10, "hours": 0.5, "loss": 1.0}], "validation": [point]}
    (tmp_path / "data" / "training-x.json").write_text(json.dumps({"curves": [curve]}))
    script.draw_training("training-x", scratch=tmp_path / "scratch", docs=tmp_path)
    assert (tmp_path / "figures" / "training-x.png").read_bytes().startswith(PNG)
    told = page.read_text()
    assert "figures/training-x.png" in told
    assert "old" not in told
    assert told.endswith("<!-- /training-x -->\nkept\n")
    assert ["a", "1", "10", "0.50", "25.00", "30.00", "30.00", "0.50"] in [line.split() for line in told.splitlines()]


def test_tables_of_the_shipped_models_are_those_of_their_cards(script: ModuleType, tmp_path: Path) -> None:
    for name, (page, _) in script.TABLES.items():
        kept = (ROOT / "docs" / page).read_text(encoding="utf-8")
        (tmp_path / page).write_text(script.replaced(kept, name, "stale"), encoding="utf-8")
        script.write_table(name, docs=tmp_path)
        assert (tmp_path / page).read_text(encoding="utf-8") == kept, f"run scripts/docs.py {name}"
        for model in shipped():
            assert (f"| `{model.name}` |" in kept) == (name == "hours" or bool(model.record.get("calibration")))


def test_a_page_without_the_place_is_left_alone(script: ModuleType) -> None:
    for page in ("", "<!-- a -->\n<!-- /a -->\n" * 2):
        with pytest.raises(ValueError, match="want 1"):
            script.replaced(page, "a", "x")
    assert script.replaced("<!-- a -->\n<!-- /a -->", "a", r"\1") == "<!-- a -->\n\\1\n<!-- /a -->"


@pytest.mark.parametrize("name", REDRAWN)
def test_redrawing_gives_the_same_figure(
    name: str, models: Path, scans: Path, tmp_path: Path, record: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = request(models, "wide", scans / "one.h5", slices=1, samples=2)
    if name == "acceleration":
        asked = replace(asked, accelerations=(4.0, 2.0))
    if name in ("hallucination", "visibility", "compare"):
        big = PhantomRequest("head", "PD", (96, 90))
        simulate_file(big, tmp_path / "big.h5", coils=1, snr_db=30, seed=1)
        asked = replace(asked, data=tmp_path / "big.h5")
    if name in ("holdout", "tuning"):
        asked = replace(asked, samples=None)
    if name == "covariance":
        asked = replace(asked, data=None, slices=None, samples=None)
    first = tmp_path / "first"
    _, outcome = run_study(name, asked, first)
    again = tmp_path / "again"
    assert main(["study", name, "--numbers", str(first / f"{name}.json"), "-o", str(again)]) == 0
    assert capsys.readouterr().out.startswith(outcome.text)
    assert written(again, name) == written(first, name)
    drawn = (again / f"{name}.png").read_bytes()
    assert (drawn == (first / f"{name}.png").read_bytes()) == (name != "hallucination")  # whose pictures are left out
    (again / f"{name}.png").unlink()
    before = (again / f"{name}.json").read_bytes()
    redraw_study(name, again / f"{name}.json", again)  # in place
    assert (again / f"{name}.json").read_bytes() == before
    assert (again / f"{name}.png").read_bytes() == drawn


def test_what_cannot_be_drawn_again_is_refused(record: Path, tmp_path: Path) -> None:
    def refused(name: str, content: Any, error: type[Exception], words: str) -> None:
        source = tmp_path / "numbers.json"
        source.write_text(content if isinstance(content, str) else json.dumps(content))
        with pytest.raises(error, match=words):
            redraw_study(name, source, tmp_path / "out")
        assert not (tmp_path / "out").exists()

    refused("samples", {"study": "samples"}, ConfigError, "shows images")
    refused("entropy", {"study": "reliability"}, DataError, "holds the study reliability")
    refused("entropy", [1], DataError, "nothing of a study")
    refused("entropy", "{", DataError, "cannot be read")
    refused("entropy", {"study": "entropy"}, DataError, "not a record")
    argv = ["study", "entropy", "--numbers", str(record), "--model", "x", "-o", str(tmp_path / "out")]
    assert main(argv) == 2
    assert main(["study", "entropy", "--numbers", str(tmp_path / "none.json"), "-o", str(tmp_path / "out")]) == 2


def test_the_lines_of_python_in_the_readme_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (lines,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    simulate_file(PhantomRequest("knee", "PD", (48, 40)), tmp_path / "knee.h5", coils=1, snr_db=30, seed=0)
    monkeypatch.chdir(tmp_path)
    exec(compile(lines, "README.md", "exec"), {})
    assert "tdv-r4 (1, 48, 40)" in capsys.readouterr().out


def test_the_numbers_of_scale_are_those_that_were_printed() -> None:
    spec = importlib.util.spec_from_file_location("scale_script", ROOT / "scripts" / "scale.py")
    assert spec is not None
    assert spec.loader is not None
    scale = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(scale)
    page, found = scale.PAGE.read_text(encoding="utf-8"), json.loads(scale.KEPT.read_text(encoding="utf-8"))
    assert scale.renewed(page, found) == page, "run scripts/scale.py"
    assert f"efficiency of {found['cluster_efficiency_2']:.2f}" in " ".join(page.split())
    with pytest.raises(ValueError, match="wants one block"):
        scale.renewed("", found)
