"""Models of other people on workers: a plug-in's file is sent along, a package must be there, else one line says so."""

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from bayesmri import registry
from bayesmri.checkpoint import save_model
from bayesmri.cli import main
from bayesmri.cluster.connect import Hands, hands
from bayesmri.cluster.crew import DaskCrew
from bayesmri.errors import ClusterLostError, ConfigError
from bayesmri.machine.crew import at_work
from bayesmri.model import Model, build
from bayesmri.posterior.block_gaussian import BlockGaussian, initial_L
from bayesmri.recon.acquisition import Sampling
from bayesmri.recon.batch.folder import Batch, reconstruct_folder
from bayesmri.recon.request import Options
from bayesmri.regularizers.base import ParametricRegularizer
from bayesmri.sealed import sealed

pytest.importorskip("distributed", reason="the extra `cluster` is not installed")
PAGE = (Path(__file__).resolve().parents[1] / "docs" / "extending.md").read_text(encoding="utf-8")
MINE, NET = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)[:2]


@pytest.fixture(scope="module")
def crew() -> Iterator[DaskCrew]:
    """Begun before any plug-in is there."""
    with hands(Hands(workers=1)) as found:
        assert found is not None
        yield found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    scan = ["simulate", "--phantom", "head", "-o", "scans/scan.h5", "--size", "24x28", "--coils", "1"]
    Path("scans").mkdir()
    assert main(scan) == 0
    before, files = set(registry._entries), set(registry._files)
    yield tmp_path
    for name in set(registry._entries) - before:
        del registry._entries[name], registry._configs[name]
    for name in set(registry._files) - files:
        del registry._files[name], sys.modules[name]


def model_of(kind: str, *, drawn: bool) -> Path:
    reg = build(registry.entry(kind).config(), torch.Generator().manual_seed(0))
    posterior = None
    if drawn:
        assert isinstance(reg, ParametricRegularizer)
        posterior = BlockGaussian(reg.weights(), initial_L(reg.weights(), reg.kernels(), 0.02))
    save_model(Path(f"{kind}.json"), Model(reg, T=3.0 if drawn else 0.0, S=2 if drawn else 1, posterior=posterior))
    return Path(f"{kind}.json")


def batch(model: Path, samples: int = 0) -> Batch:
    return Batch(Options(model=str(model), samples=samples), Sampling(4.0))


def same(one: Path, other: Path) -> None:
    with h5py.File(one) as a, h5py.File(other) as b:
        names = [name for name in a if isinstance(a[name], h5py.Dataset)]
        assert names
        for name in names:
            np.testing.assert_array_equal(a[name][()], b[name][()], err_msg=name)


@pytest.mark.parametrize(("kind", "text", "samples"), [("mine", MINE, 9), ("net", NET, 0)])
def test_a_file_goes_with_its_model(folder: Path, crew: DaskCrew, kind: str, text: str, samples: int) -> None:
    file = Path(f"{kind}.py")
    file.write_text(text, encoding="utf-8")
    registry.load_plugin(str(file))
    model = model_of(kind, drawn=samples > 0)
    reconstruct_folder([Path("scans")], Path("plain"), batch(model, samples))
    file.unlink()  # no worker can see it
    with at_work(crew):
        assert reconstruct_folder([Path("scans")], Path("far"), batch(model, samples))["done"] == 1
    same(Path("plain/scan.recon.h5"), Path("far/scan.recon.h5"))


def test_workers_follow_a_file_that_was_edited(folder: Path, crew: DaskCrew) -> None:
    Path("mine.py").write_text(MINE, encoding="utf-8")
    registry.load_plugin("mine.py")
    model = model_of("mine", drawn=True)
    with at_work(crew):
        reconstruct_folder([Path("scans")], Path("before"), batch(model))
    Path("mine.py").write_text(MINE.replace("return (theta", "return 3 * (theta"), encoding="utf-8")
    registry.load_plugin("mine.py")
    reconstruct_folder([Path("scans")], Path("plain"), batch(model))
    with at_work(crew):
        reconstruct_folder([Path("scans")], Path("far"), batch(model))
    same(Path("plain/scan.recon.h5"), Path("far/scan.recon.h5"))
    with h5py.File("before/scan.recon.h5") as a, h5py.File("far/scan.recon.h5") as b:
        assert not np.array_equal(a["reconstruction"][()], b["reconstruction"][()])


def test_a_package_that_workers_lack_ends_the_run_at_once(
    folder: Path, crew: DaskCrew, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("packages").mkdir()
    Path("packages/theirs.py").write_text(MINE.replace('"mine"', '"theirs"'), encoding="utf-8")
    monkeypatch.syspath_prepend("packages")
    importlib.invalidate_caches()
    registry.load_plugin("theirs")
    model = model_of("theirs", drawn=True)
    with at_work(crew), pytest.raises(ClusterLostError, match=r"No module named 'theirs'.*install the package"):
        reconstruct_folder([Path("scans")], Path("far"), batch(model))
    assert not list(Path("far").glob("*.h5"))
    sys.modules.pop("theirs")


def test_the_command_brings_its_plug_in_along(folder: Path) -> None:
    Path("mine.py").write_text(MINE, encoding="utf-8")
    registry.load_plugin("mine.py")
    words = ["recon", "scans", "--model", str(model_of("mine", drawn=True)), "--acceleration", "4", "--samples", "2"]
    assert main([*words, "-o", "plain", "--plugin", "mine.py"]) == 0
    assert main([*words, "-o", "far", "--plugin=mine.py", "--workers", "1"]) == 0
    same(Path("plain/scan.recon.h5"), Path("far/scan.recon.h5"))


def test_what_cannot_be_sent_is_said() -> None:
    with pytest.raises(ConfigError, match="cannot be sent to workers"):
        sealed(lambda: None)
