"""Shipped models: found by name alone, chosen by coils and acceleration, listed, made to be given away."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import bayesmri
from bayesmri import zoo
from bayesmri.baselines.unet import UNetConfig
from bayesmri.checkpoint import load_model, save_model
from bayesmri.cli import main
from bayesmri.errors import ConfigError, DataError, ModelError
from bayesmri.evaluation.card import _training
from bayesmri.evaluation.publish import publish
from bayesmri.evaluation.request import Publication
from bayesmri.io.formats import read_kspace
from bayesmri.model import Coils, Model, build
from bayesmri.physics.scaling import Scaling
from bayesmri.posterior.block_gaussian import BlockGaussian, initial_L
from bayesmri.recon.files import PhantomRequest, simulate_file
from bayesmri.recon.undersample import single_coil
from bayesmri.regularizers.tdv import TDV, TDVConfig
from bayesmri.runs import locate
from bayesmri.training.run_folder import train
from training_runs import tiny, write_raw


def tiny_model(
    *, Q: int = 1, R: float = 4.0, stochastic: bool = True, seed: int = 0, coils: Coils | None = None
) -> Model:
    config = TDVConfig(Q=Q, features=4, macroblocks=1, scales=2, init="positive")
    reg = TDV(config, torch.Generator().manual_seed(seed))
    weights = {name: w.detach() for name, w in reg.weights().items()}
    posterior = BlockGaussian(weights, initial_L(weights, reg.kernels(), 0.03)) if stochastic else None
    coils = coils or Coils("raw" if Q == 1 else "virtual", Q)
    return Model(reg, 2.0, 2, coils, Scaling(gain=20.0), R, posterior=posterior)


def tiny_unet(*, also: tuple[float, ...] = ()) -> Model:
    net = build(UNetConfig(features=2, pools=1), torch.Generator().manual_seed(0))
    return Model(net, 0.0, 1, Coils("raw", 1), Scaling(), 4.0, also)


@pytest.fixture
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of weights in the place of the package's own."""
    folder = tmp_path / "weights"
    folder.mkdir()
    monkeypatch.setattr(zoo, "FOLDER", folder)
    return folder


@pytest.fixture
def four(weights: Path) -> Path:
    """tdv-r4, tdv-r8, for one coil and any array; tdv-channels-r4, tdv-channels-r8, for several."""
    for R in (4.0, 8.0):
        save_model(weights / f"tdv-r{R:g}.json", tiny_model(R=R, coils=Coils("sensitivities", 2)))
        save_model(weights / f"tdv-channels-r{R:g}.json", tiny_model(Q=2, R=R))
    return weights


def test_a_name_is_found_and_wins_over_a_local_file_which_is_written_as_a_path(
    four: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert zoo.find("tdv-r4") == locate(Path("tdv-r4")) == four / "tdv-r4.json"
    assert load_model(Path("tdv-channels-r8")).acceleration == 8
    save_model(tmp_path / "tdv-r4" / "own.json", tiny_model(R=3))
    assert load_model("tdv-r4").acceleration == load_model(Path("tdv-r4")).acceleration == 4
    assert load_model("./tdv-r4").acceleration == load_model(tmp_path / "tdv-r4").acceleration == 3
    assert zoo.shadowed("./tdv-r4") is None
    assert "./tdv-r4" in str(zoo.shadowed("tdv-r4"))


@pytest.mark.parametrize(
    "name",
    ["../weights/tdv-r4", "weights/../tdv-r4", "tdv-r4.json", "TDV-R4", "*", "x" * 5000],
)
def test_nothing_but_a_name_is_a_name(four: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (four.parent / "elsewhere" / "deep").mkdir(parents=True)
    monkeypatch.chdir(four.parent / "elsewhere" / "deep")
    with pytest.raises(ModelError, match="bayesmri models"):
        zoo.find(name)


def test_a_wrong_name_is_told_the_closest(four: Path) -> None:
    with pytest.raises(ModelError, match=r"tdv-r44 does not exist.*closest: tdv-r4") as caught:
        zoo.find("tdv-r44")
    assert "\n" not in str(caught.value)
    with pytest.raises(ModelError, match="chooses a model by the data"):
        zoo.find("auto")


def test_without_shipped_models_everything_says_so(weights: Path) -> None:
    assert zoo.shipped() == []
    assert zoo.families() == []
    with pytest.raises(ModelError, match="no models came with this installation"):
        zoo.find("tdv-r4")
    with pytest.raises(ModelError, match="none can be chosen"):
        zoo.choose(coils=1, acceleration=4)


def test_half_a_model_is_not_shipped_and_a_damaged_one_is_named(four: Path) -> None:
    (four / "tdv-r4.safetensors").unlink()
    assert [model.name for model in zoo.shipped()] == ["tdv-channels-r4", "tdv-channels-r8", "tdv-r8"]
    (four / "tdv-r8.json").write_text("{")
    with pytest.raises(ModelError, match=r"tdv-r8\.json is damaged"):
        zoo.shipped()


@pytest.mark.parametrize(
    ("coils", "R", "name"),
    [
        (1, 4.0, "tdv-r4"),
        (1, 5.6, "tdv-r4"),  # √32 = 5.66 is the middle of 4 and 8 in the logarithm
        (1, 5.7, "tdv-r8"),
        (1, 1.0, "tdv-r4"),
        (2, 3.9, "tdv-r4"),
        (17, 30.0, "tdv-r8"),
    ],
)
def test_the_nearest_acceleration_in_the_logarithm_is_chosen(four: Path, coils: int, R: float, name: str) -> None:
    assert zoo.choose(coils=coils, acceleration=R).name == name


def test_the_papers_variant_is_a_family_of_its_own(four: Path) -> None:
    """Several coils as channels: never chosen by auto, and not for one coil."""
    assert zoo.families() == ["tdv-channels", "tdv"]
    assert zoo.choose(coils=5, acceleration=4, family="tdv-channels").name == "tdv-channels-r4"
    with pytest.raises(ModelError, match="tdv-channels takes 1 coil"):
        zoo.choose(coils=1, acceleration=4, family="tdv-channels")


@pytest.mark.parametrize("name", ["tdv-single-r4", "tdv-multi-r8"])
def test_former_names_lead_to_what_took_their_place_and_say_so(
    name: str, four: Path, scan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert zoo.find(name) == four / f"{zoo.FORMER[name]}.json"
    argv = ["recon", str(scan), "-o", str(tmp_path / "o.h5"), "--model", name, "--acceleration", name[-1]]
    assert main(argv) == 0
    assert f"{name} was replaced by {zoo.FORMER[name]}" in capsys.readouterr().err


def test_a_choice_keeps_to_the_family_the_coils_and_the_posterior(weights: Path) -> None:
    save_model(weights / "unet-single-r4.json", tiny_unet())
    with pytest.raises(ModelError, match="family tdv takes 1 coil: shipped are unet-single-r4"):
        zoo.choose(coils=1, acceleration=4)
    assert zoo.choose(coils=1, acceleration=4, family="unet").name == "unet-single-r4"
    save_model(weights / "tdv-single-r4.json", tiny_model(stochastic=False))
    assert zoo.choose(coils=1, acceleration=4).name == "tdv-single-r4"
    with pytest.raises(ModelError, match="1 coil and has a posterior"):
        zoo.choose(coils=1, acceleration=4, samples=8)
    save_model(weights / "tdv-wide.json", tiny_model(R=16))
    assert zoo.choose(coils=1, acceleration=4, samples=8).name == "tdv-wide"
    with pytest.raises(ModelError, match="takes 3 coils"):
        zoo.choose(coils=3, acceleration=4)
    assert zoo.families() == ["unet", "tdv"]


def test_a_model_of_several_accelerations_is_near_each_of_them(four: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_model(four / "unet-single.json", tiny_unet(also=(8.0,)))
    save_model(four / "unet-single-r6.json", replace(tiny_unet(), acceleration=6.0))
    chosen = {R: zoo.choose(coils=1, acceleration=R, family="unet").name for R in (3.0, 4.2, 6.0, 7.9, 30.0)}
    assert chosen == {R: "unet-single-r6" if R == 6 else "unet-single" for R in chosen}
    assert main(["models"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("unet-single "))
    assert " 4, 8 " in line
    assert load_model(four / "unet-single.json").also == (8.0,)


@pytest.fixture
def scan(tmp_path: Path) -> Path:
    simulate_file(PhantomRequest("head", "PD", (40, 36)), tmp_path / "scan.h5", coils=3, snr_db=30, seed=1)
    return tmp_path / "scan.h5"


def test_auto_follows_the_data_and_is_recorded(
    four: Path, scan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.h5"
    argv = ["recon", str(scan), "-o", str(out), "--model", "auto"]
    for more, name, R in (
        (["--acceleration", "4"], "tdv-r4", "R = 4"),
        (["--acceleration", "8", "--single-coil"], "tdv-r8", "R = 9"),  # 4 of 36 lines
    ):
        assert main([*argv, *more, "--force"]) == 0
        assert f"note: auto chose {name} " in capsys.readouterr().err
        with h5py.File(out) as file:
            record = json.loads(file.attrs["provenance"])
        assert record["config"]["model"] == name
        assert record["config"]["chosen"].startswith(name)
        assert record["config"]["chosen"].endswith(R)
        assert [entry["name"] for entry in record["inputs"]] == ["scan.h5", f"{name}.json"]


def test_auto_in_python_is_the_named_model(four: Path, scan: Path) -> None:
    sampled = bayesmri.undersample(read_kspace(scan), acceleration=8)
    result = bayesmri.reconstruct(sampled, "auto", samples=2)
    named = bayesmri.reconstruct(sampled, bayesmri.load_model("tdv-r8"), samples=2)
    assert result.method == "tdv-r8"
    np.testing.assert_array_equal(result.image, named.image)


def test_auto_without_a_fitting_model_is_one_line(
    weights: Path, scan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["recon", str(scan), "-o", str(tmp_path / "o.h5"), "--model", "auto", "--acceleration", "4"]
    assert main(argv) == 2
    assert capsys.readouterr().err.splitlines() == [
        "bayesmri: no model came with this installation, so none can be chosen: give a run folder of bayesmri train as "
        "the model, or take the method tv"
    ]
    save_model(weights / "tdv-single-r4.json", tiny_model())
    assert main(argv) == 2
    assert "takes 3 coils: shipped are tdv-single-r4" in capsys.readouterr().err


def test_the_list_needs_no_models_and_no_torch(four: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:5]] == ["name", *(model.name for model in zoo.shipped())]
    assert main(["models", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["tdv-channels-r8"]["coils"] == "virtual 2"
    assert rows["tdv-channels-r8"]["R"] == 8
    assert rows["tdv-r4"]["coils"] == "any"
    assert rows["tdv-r4"]["weights"] == "posterior"
    code = "import sys; from bayesmri.cli import main; main(['models']); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0
    for path in four.iterdir():
        path.unlink()
    assert main(["models"]) == 0
    assert "No models came with this installation" in capsys.readouterr().out
    assert main(["models", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []
    assert main(["models", "--markdown"]) == 2
    assert main(["models", "nothing"]) == 2


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A stochastic run of two updates that went on from a deterministic one, on files that state their licence."""
    data = tmp_path / "data" / "raw"
    data.mkdir(parents=True)
    for n, licence in enumerate(("CC0-1.0", "MIT")):
        write_raw(data / f"{n}.h5", patient=f"p{n}")
        with h5py.File(data / f"{n}.h5", "a") as file:
            file.attrs.pop("checksums", None)  # changed on purpose
            file.attrs.update({"licence": licence, "source": f"place {n}", "acquisition": f"knee {n}"})
    sources = [{"path": str(data), "split": "train"}, {"phantom": "head", "count": 2, "size": [24, 24]}]
    section = {"sources": sources, "val_fraction": 0.4}
    short = {"iterations": 2, "val_every": 2}
    train(tiny(data=section, train=short), tmp_path / "first", say=lambda *_: None)
    spread = {"kind": "gaussian", "beta": 1e-6}
    config = tiny(data=section, train={**short, "init_from": str(tmp_path / "first")}, posterior=spread)
    train(config, tmp_path / "second", say=lambda *_: None)
    return tmp_path / "second"


def test_a_published_model_is_the_run_without_its_state_and_with_a_card(
    run: Path, weights: Path, scan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "results.json"
    argv = ["evaluate", "--data", str(scan), "--methods", f"zero-filled,{run}", "--track", "single", "--samples", "2"]
    assert main([*argv, "-o", str(results)]) == 0
    argv = ["publish", str(run), "tdv-single-r4", "--out", str(weights), "--results", str(results)]
    assert main([*argv, "--limit", "Toy data."]) == 0
    ours, theirs = load_model(Path("tdv-single-r4")), load_model(run)
    sampled = bayesmri.undersample(single_coil(read_kspace(scan)), acceleration=4)
    a, b = (bayesmri.reconstruct(sampled, model, samples=2).image for model in (ours, theirs))
    np.testing.assert_array_equal(a, b)

    assert sorted(path.name for path in weights.iterdir()) == ["tdv-single-r4.json", "tdv-single-r4.safetensors"]
    stored = load_file(weights / "tdv-single-r4.safetensors")
    assert {t.dtype for t in stored.values()} == {torch.float32}
    blocks = {name: t for name, t in stored.items() if name.startswith("L.")}
    assert blocks
    for name, block in blocks.items():  # of a symmetric o² x o² covariance only the lower half
        o = stored[name.removeprefix("L.")].shape[-1]
        assert block.shape[-1] == o**2 * (o**2 + 1) // 2

    card = ours.card
    assert card["parameters"]["total"] == ours.n_parameters
    assert card["parameters"]["total"] - card["parameters"]["reconstruction"] == sum(b.numel() for b in blocks.values())
    assert [stage["name"] for stage in card["training"]["stages"]] == ["first"]
    assert card["training"]["hours"] > card["training"]["stages"][0]["hours"] > 0
    assert {file["name"]: file["licence"] for file in card["data"]["files"]} == {"0.h5": "CC0-1.0", "1.h5": "MIT"}
    assert card["data"]["phantoms"] == [{"kind": "head", "subjects": 2}]
    assert any("knee 0; knee 1; head phantom" in limit for limit in card["limits"])
    assert card["limits"][-1] == "Toy data."
    assert str(tmp_path) not in json.dumps({**card, "results": None})
    rows = {row["method"]: row for row in json.loads(results.read_text())["rows"]}
    assert [row["psnr"] for row in card["results"]["rows"]] == [
        rows["second"]["psnr"],
        rows["second, mean of 2"]["psnr"],
    ]
    assert rows["second"]["parameters"] == card["parameters"]["reconstruction"]
    assert rows["second, mean of 2"]["parameters"] == card["parameters"]["total"]
    assert card["results"]["zero_filled"][0]["psnr"] == rows["zero-filled"]["psnr"]

    capsys.readouterr()
    assert main(["models", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["psnr"] == rows["second"]["psnr"]
    assert row["entropy"] == pytest.approx(card["entropy"])
    assert main(["models", "tdv-single-r4", "--markdown"]) == 0
    page = capsys.readouterr().out
    assert page.startswith("# tdv-single-r4\n")
    for words in ("research use only", "CC0-1.0", "place 1", "bayesmri evaluate --data scan.h5", "knee 0", "phantom"):
        assert words in page


def test_what_cannot_be_published_is_said(run: Path, weights: Path, scan: Path, tmp_path: Path) -> None:
    for name in ("auto", "tv", "../x", "Über", "a b", ""):
        with pytest.raises(ConfigError, match="tdv-mine"):
            Publication(run, name, weights)
    results = tmp_path / "other.json"
    assert main(["evaluate", "--data", str(scan), "--methods", "zero-filled", "-o", str(results)]) == 0
    with pytest.raises(ModelError, match="no row of second"):
        publish(Publication(run, "tdv-x", weights, results=results))
    with pytest.raises(DataError, match="not a result"):
        publish(
            Publication(run, "tdv-x", weights, results=weights.parent / "second" / "checkpoints" / "step-00000002.json")
        )
    shutil.rmtree(tmp_path / "data")
    with pytest.raises(ModelError, match=r"licence of 2 training files .*--licence"):
        publish(Publication(run, "tdv-x", weights))
    assert list(weights.iterdir()) == []
    shutil.rmtree(tmp_path / "first")
    card = publish(Publication(run, "tdv-x", weights, licence="mine", processor="an abacus"))["card"]
    assert {file["licence"] for file in card["data"]["files"]} == {"mine"}
    assert card["training"]["hours"] is None
    assert card["training"]["processor"] == "an abacus"


def test_publishing_again_keeps_the_card_and_new_results_replace_the_old(weights: Path, tmp_path: Path) -> None:
    facts = {"iterations": 7, "seed": 1, "hours": 2.0, "threads": 1, "processor": "an abacus", "stages": []}
    card = {
        "training": facts,
        "data": {"files": [], "phantoms": []},
        "limits": ["For research.", "Toy data."],
        "predictor": {"kappa": 2.0},
        "results": {"command": "old", "time": "then", "rows": [], "zero_filled": []},
    }
    save_model(tmp_path / "first.json", replace(tiny_model(), card=card))
    again = publish(Publication(tmp_path / "first.json", "second", weights, limits=("New.", "Toy data.")))["card"]
    assert again["limits"] == ["For research.", "Toy data.", "New."]
    assert {key: again[key] for key in ("predictor", "results", "training")} == {
        key: card[key] for key in ("predictor", "results", "training")
    }
    assert again["name"] == "second"
    digest = json.loads((weights / "second.json").read_text())["files"]["weights"]["sha256"]
    numbers = {"samples": 0, "volumes": 1, "psnr": 31.0, "nmse": 0.1, "ssim": 0.9, "seconds": 1.0, "parameters": 1}
    row = {"method": "second", "weights": digest, "track": "single", "acceleration": 4.0, "file": "a.h5", **numbers}
    results = tmp_path / "results.json"
    results.write_text(json.dumps({"rows": [row], "command": "new", "provenance": {"time": "now"}}))
    wanted = Publication(weights / "second.json", "third", weights, results=results, processor="a slide rule")
    third = publish(wanted)["card"]
    assert (third["results"]["command"], third["results"]["rows"][0]["psnr"]) == ("new", 31.0)
    assert third["limits"] == again["limits"]
    assert third["training"] == {**facts, "processor": "a slide rule"}


def test_the_hours_of_a_published_origin_are_counted_once(tmp_path: Path) -> None:
    """A run that went on from a published model, which itself went on from another run."""
    first = {"name": "first", "iterations": 5, "hours": 1.5}
    card = {"training": {"iterations": 7, "hours": 2.0, "stages": [first]}}
    (tmp_path / "origin.json").write_text(json.dumps({"card": card}))
    config = {"train": {"init_from": str(tmp_path / "origin.json")}}
    training = _training({"step": 3, "facts": {"config": config, "elapsed": 900}}, {}, None)
    assert training["hours"] == 2.25
    assert [(stage["name"], stage["hours"]) for stage in training["stages"]] == [("first", 1.5), ("origin.json", 0.5)]


def test_a_run_published_in_the_place_of_its_origin_is_not_its_own_origin(tmp_path: Path) -> None:
    """Published again, it keeps the stages and hours of the first time."""
    stages = [{"name": "first", "iterations": 5, "hours": 1.5}, {"name": "origin", "iterations": 7, "hours": 0.5}]
    files = {"weights": {"name": "origin.safetensors", "sha256": "ab"}}
    card = {"training": {"iterations": 3, "hours": 2.25, "stages": stages}}
    (tmp_path / "origin.json").write_text(json.dumps({"card": card, "files": files}))
    config = {"train": {"init_from": str(tmp_path / "origin.json")}}
    training = _training({"step": 3, "files": files, "facts": {"config": config, "elapsed": 900}}, {}, None)
    assert (training["hours"], training["stages"]) == (2.25, stages)
