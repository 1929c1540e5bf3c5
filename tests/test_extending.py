"""docs/extending.md: every example in it is run as it stands, and does what it says."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import bayesmri
from bayesmri import registry
from bayesmri.checkpoint import load_model, save_model
from bayesmri.cli import main
from bayesmri.errors import ConfigError
from bayesmri.model import Model, build
from bayesmri.regularizers.base import Weights
from bayesmri.regularizers.energy import EnergyRegularizer

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "extending.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The files of the page, beside a scan that was never trained on; what was registered is forgotten afterwards."""
    mine, net, _ = blocks("python")
    (tmp_path / "mine.py").write_text(mine, encoding="utf-8")
    (tmp_path / "net.py").write_text(net, encoding="utf-8")
    toml = blocks("toml")[0]
    (tmp_path / "mine.toml").write_text(toml, encoding="utf-8")
    plain = re.sub(r"\[unroll\].*?\n\n", "", toml, flags=re.DOTALL).replace("lr_T = 0.1\n", "").replace("mine", "net")
    (tmp_path / "net.toml").write_text(plain.replace("features = 16\n", ""), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert (
        main(["simulate", "--phantom", "head", "-o", "scan.h5", "--size", "96x96", "--seed", "99", "--snr", "35"]) == 0
    )
    before = set(registry._entries)
    yield tmp_path
    for name in set(registry._entries) - before:
        del registry._entries[name], registry._configs[name]
        sys.modules.pop(name, None)


def recon(run: str, plugin: str, capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, Any]:
    capsys.readouterr()
    words = [
        "recon",
        "scan.h5",
        "-o",
        f"{run}.h5",
        "--model",
        f"runs/{run}",
        "--acceleration",
        "4",
        "--json",
        "--force",
    ]
    assert main([*words, *more, "--plugin", plugin]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize("name", ["mine", "net"])
def test_the_examples_train_and_beat_zero_filling(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", f"{name}.toml", "-o", f"runs/{name}", f"--plugin={name}.py"]) == 0
    metrics = recon(name, f"{name}.py", capsys)["metrics"]
    assert metrics[name]["psnr"] > metrics["zero-filled"]["psnr"] + 0.3


def test_its_kernels_have_a_posterior_and_it_serves_arrays(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short = ["--train.iterations", "20", "--train.val_every", "20", "--train.checkpoint_every", "20"]
    assert main(["train", "mine.toml", "-o", "runs/first", "--plugin", "mine.py", *short]) == 0
    bayes = ["--posterior.kind", "gaussian", "--posterior.beta", "1e-8", "--posterior.L0", "0.02"]
    more = ["--train.init_from", "runs/first", "--coils.mode", "sensitivities", *bayes, *short]
    assert main(["train", "mine.toml", "-o", "runs/mine", "--plugin", "mine.py", *more]) == 0
    made = recon("mine", "mine.py", capsys, "--samples", "4")
    assert made["uncertainty"]["mean_std"] > 0
    assert main(["simulate", "--phantom", "head", "-o", "scan.h5", "--size", "96x96", "--coils", "5", "--force"]) == 0
    assert recon("mine", "mine.py", capsys)["coils"] == 5
    assert main(["publish", "runs/mine", "mine-r4", "-o", "given", "--plugin", "mine.py"]) == 0
    assert load_model(Path("given/mine-r4.json")).regularizer.kernels() == ("K",)


def test_a_model_whose_plug_in_is_missing_names_it(folder: Path) -> None:
    """In a process that has never heard of it; and nothing is imported because a file names it."""
    registry.load_plugin("mine.py")
    reg = build(registry.entry("mine").config(), torch.Generator().manual_seed(0))
    save_model(Path("m.json"), Model(reg, T=1.0, S=1))
    words = [sys.executable, "-m", "bayesmri", "recon", "scan.h5", "-o", "out.h5", "--model", "m.json"]
    made = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert made.returncode == 2
    assert "the plug-in mine brings" in made.stderr
    assert "--plugin mine" in made.stderr
    assert len(made.stderr.splitlines()) == 1
    assert not Path("out.h5").exists()


def test_the_example_from_python_runs(folder: Path) -> None:
    Path("scan.h5").rename("head.h5")
    values: dict[str, Any] = {}
    exec(compile(blocks("python")[2], "docs/extending.md", "exec"), values)
    assert values["x"].shape == values["z"].shape
    assert values["result"].std.max() > 0


def test_gradients_of_an_energy_are_those_of_tdv(folder: Path) -> None:
    """∇R by autograd is the hand-written one, and once more differentiable in θ."""

    @dataclass(frozen=True)
    class EnergyConfig:
        Q: int = 1

    class Energy(EnergyRegularizer):
        def __init__(self, tdv: bayesmri.TDV) -> None:
            super().__init__(EnergyConfig())
            self.theta = nn.ParameterDict(tdv.weights())
            self.core = tdv.bind(tdv.weights()).core

        def density(self, v: Tensor, theta: Weights) -> Tensor:
            return self.core.density(v, {name.removeprefix("theta."): w for name, w in theta.items()})

    tdv = bayesmri.TDV(bayesmri.TDVConfig(features=4, macroblocks=1, scales=2), torch.Generator().manual_seed(0))
    energy = Energy(tdv)
    x = torch.randn(2, 1, 12, 14, dtype=torch.complex64, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        torch.testing.assert_close(energy.grad(x), tdv.grad(x), rtol=1e-4, atol=1e-6)
        assert not energy.grad(x).requires_grad
    K0 = energy.theta["K0"]
    (by_autograd,) = torch.autograd.grad(energy.grad(x).abs().square().sum(), K0)
    (by_hand,) = torch.autograd.grad(tdv.grad(x).abs().square().sum(), tdv.theta["K0"])
    torch.testing.assert_close(by_autograd, by_hand, rtol=1e-3, atol=1e-5)


def test_names_are_taken_once_and_configured_by_frozen_dataclasses() -> None:
    @dataclass
    class Loose:
        Q: int = 1

    @dataclass(frozen=True)
    class NoQ:
        features: int = 1

    with pytest.raises(ConfigError, match="expected a frozen dataclass"):
        registry.register("loose", Loose)
    with pytest.raises(ConfigError, match="has no field Q"):
        registry.register("noq", NoQ)
    with pytest.raises(ConfigError, match="expected letters"):
        registry.register("a b", bayesmri.TDVConfig)
    with pytest.raises(ConfigError, match="got a second 'tdv'"):
        registry.register("tdv", bayesmri.TDVConfig)(nn.Module)
    with pytest.raises(ConfigError, match=r"got the kind .nothing., expected one of .*tdv"):
        registry.entry("nothing")


def test_plug_ins_that_cannot_be_loaded_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "broken.py").write_text("1 / 0", encoding="utf-8")
    for words, said in (
        (["--plugin", "no_such_module_here"], "the plug-in no_such_module_here cannot be loaded"),
        (["--plugin", str(tmp_path / "broken.py")], "ZeroDivisionError"),
        (["--plugin", str(tmp_path / "none.py")], "which is no file"),
        (["--plugin"], "without a name"),
    ):
        assert main(["models", *words]) == 2
        told = capsys.readouterr().err
        assert said in told
        assert len(told.splitlines()) == 1


def test_installed_packages_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the entry-point group; one that fails says which."""

    class Point:
        name = "theirs"

        def load(self) -> None:
            raise ImportError("no such thing")

    monkeypatch.setattr(registry, "entry_points", lambda group: [Point()] if group == "bayesmri.plugins" else [])
    with pytest.raises(ConfigError, match="the installed plug-in theirs cannot be loaded"):
        registry.entry("nothing")


def test_every_noun_can_be_imported_and_is_listed() -> None:
    for name in bayesmri.__all__:
        assert getattr(bayesmri, name) is not None
    assert {"TDV", "FoE", "Model", "BlockGaussian", "unroll", "prox_data", "load_model", "save_model", "train"} <= set(
        dir(bayesmri)
    )
    with pytest.raises(AttributeError):
        _ = bayesmri.nothing
