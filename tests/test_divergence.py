"""What diverges never passes for an image: it is refused in one line, before anything is written or scored."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import bayesmri
from bayesmri.checkpoint import save_model
from bayesmri.cli import main
from bayesmri.data.dataset import Dataset
from bayesmri.errors import DataError, DivergedError, ModelError
from bayesmri.evaluation.request import Study
from bayesmri.evaluation.table import evaluate
from bayesmri.io.formats import read_kspace
from bayesmri.model import Model
from bayesmri.physics.data_terms import DataTerm
from bayesmri.physics.fourier import ifft2c
from bayesmri.posterior.block_gaussian import BlockGaussian
from bayesmri.posterior.predictor import Predictor, PredictorConfig
from bayesmri.recon.method import Method
from bayesmri.recon.reconstruct import reconstruct
from bayesmri.runs import checkpoints
from bayesmri.sampler import Sampler, Stream
from bayesmri.solver import Scheme
from bayesmri.training.drawn import draw
from bayesmri.training.journal import JOURNAL, journal_lines
from bayesmri.training.run_folder import train
from bayesmri.training.state import start
from bayesmri.training.validation import validate
from study_runs import save_scans, tiny
from training_runs import tiny as tiny_training


@pytest.fixture(scope="module")
def scans(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_scans(tmp_path_factory.mktemp("scans"))


def exploding(Q: int = 1, *, posterior: bool = False) -> Model:
    """T far too long: x grows until it is no number."""
    return replace(tiny(Q, width=0.02 if posterior else None), T=1e30)


def wide(Q: int = 1) -> Model:
    """Good at μ, while its draws of θ are far from it."""
    model = tiny(Q)
    assert isinstance(model.posterior, BlockGaussian)
    L = {name: 1e30 * l for name, l in model.posterior.L.items()}
    return replace(model, posterior=BlockGaussian(model.posterior.mean(), L))


def refused(argv: Sequence[object], capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert main([str(word) for word in argv]) == 2
    out, said = capsys.readouterr()
    assert out == ""
    assert said.count("\n") == 1
    return said


@pytest.mark.parametrize(("name", "Q"), [("one", 1), ("three", 2)])
@pytest.mark.parametrize("samples", [0, 3])
def test_recon_writes_nothing_of_it(
    name: str, Q: int, samples: int, scans: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_model(tmp_path / "model.json", wide(Q) if samples else exploding(Q))
    before = sorted(tmp_path.iterdir())
    argv = ["recon", scans / f"{name}.h5", "-o", tmp_path / "out.h5", "--model", tmp_path / "model.json"]
    said = refused([*argv, "--acceleration", 4, "--samples", samples, "--nifti", "--png"], capsys)
    what = "sample 0" if samples else "the image"
    assert f"{what} of slice 0 by model holds " in said
    assert "NaN or Inf values, expected finite numbers" in said
    assert "take another model" in said
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("bad", [complex("nan"), complex(0, float("nan")), complex("inf"), complex(0, float("-inf"))])
def test_one_number_is_enough(bad: complex, scans: Path) -> None:
    kspace = bayesmri.undersample(read_kspace(scans / "three.h5"), 4)

    def solve(D: DataTerm) -> Tensor:
        x = ifft2c(D.z)
        x[0, 1, 3, 5] = torch.tensor(bad)
        return x

    with pytest.raises(
        DivergedError, match=r"^the image of slice 0 by spoilt holds 1 NaN or Inf values, expected finite"
    ):
        reconstruct(kspace, Method("spoilt", solve))


def test_one_sample_is_enough(scans: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All but the last sample of the last slice are fine."""
    samples = Sampler.samples

    def spoilt(self: Sampler, D: DataTerm, stream: Stream, indices: Iterable[int]) -> Iterator[Tensor]:
        for i, x in zip(indices, samples(self, D, stream, indices), strict=True):
            yield torch.where((torch.arange(x.shape[-1]) == 7) & (stream.index == 2) & (i == 3), torch.nan, x)

    monkeypatch.setattr(Sampler, "samples", spoilt)
    kspace = bayesmri.undersample(read_kspace(scans / "one.h5"), 4)
    assert np.isfinite(bayesmri.reconstruct(kspace, tiny(), samples=3).mean).all()
    with pytest.raises(DivergedError, match="sample 3 of slice 2 by model holds 32 NaN or Inf values"):
        bayesmri.reconstruct(kspace, tiny(), samples=4)


def test_a_predictor_that_is_spoilt_is_refused(scans: Path) -> None:
    """The samples are fine, what the fast route makes of them is not."""
    predictor = Predictor(PredictorConfig(features=4), torch.Generator().manual_seed(0)).requires_grad_(False)
    predictor.out.fill_(torch.nan)
    kspace = bayesmri.undersample(read_kspace(scans / "one.h5"), 4)
    with pytest.raises(DivergedError, match="the standard deviation of the samples of slice 0 by model holds"):
        bayesmri.reconstruct(kspace, replace(tiny(), predictor=predictor), samples=3, fast=True)


def test_numbers_beyond_single_precision_are_refused_as_data(scans: Path) -> None:
    kspace = read_kspace(scans / "one.h5")
    with pytest.raises(DataError, match=r"^got k-space of values up to .*e\+2\d, .*divide all by one number"):
        bayesmri.reconstruct(replace(kspace, z=np.complex64(1e25) * kspace.z), "zero-filled")


def test_an_evaluation_has_no_row_for_it(scans: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It had the PSNR of a black image."""
    save_model(tmp_path / "wild.json", exploding())
    with pytest.raises(ModelError, match=r"wild.*NaN or Inf"):
        evaluate(Study(scans / "one.h5", ("zero-filled", str(tmp_path / "wild.json"))))
    argv = ["evaluate", "--data", scans / "one.h5", "--methods", f"zero-filled,{tmp_path / 'wild.json'}"]
    assert "NaN or Inf" in refused([*argv, "-o", tmp_path / "results.json"], capsys)
    assert not list(tmp_path.glob("results*"))


def test_validation_gives_it_no_score() -> None:
    config = tiny_training()
    volumes = list(Dataset(config.data, config.recipe(), seed=1).validation())
    reg = start(config).reg
    assert validate(volumes, reg.bind(reg.weights()), scheme=Scheme(2.0, 3)) is not None
    with pytest.raises(
        DivergedError, match=rf"^the reconstruction of {volumes[0].name} holds NaN or Inf after step 8: "
    ):
        validate(volumes, reg.bind(reg.weights()), scheme=Scheme(1e30, 3), step=8)


def test_a_training_ends_before_it_saves_a_model_that_cannot_be_judged(tmp_path: Path) -> None:
    """The weights are spoilt by the first update, which no loss has seen yet."""
    wild = {"lr": 1e30, "lr_T": 1e30, "clip": 0.0}
    config = tiny_training(optimizer=wild, train={"val_every": 1, "checkpoint_every": 1})
    with pytest.raises(ModelError, match="holds NaN or Inf after step 1: training diverged; no checkpoint was written"):
        train(config, tmp_path, say=lambda event, values: None)
    assert not checkpoints(tmp_path)
    assert not [line for line in journal_lines(tmp_path / JOURNAL) if line["kind"] == "val"]


@pytest.mark.parametrize("model", [exploding(posterior=True), wide()], ids=["at the mean", "drawn"])
def test_nothing_is_distilled_from_it(model: Model) -> None:
    config = tiny_training()
    (batch,) = Dataset(config.data, config.recipe(), seed=1).batches(0, range(1))
    with pytest.raises(DivergedError, match="expected finite images to learn from"):
        draw(model, batch, 2, torch.Generator().manual_seed(0))
